"""Facts: messages, events, and the fold that builds a run from them."""
