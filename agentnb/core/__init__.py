"""What a run is: messages, events, and the fold that builds a run from them."""
