"""Gets model replies: streams, bounds and normalizes them, and compacts the conversation for them."""
