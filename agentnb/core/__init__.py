"""What a run is: messages, events, and the fold that makes a run of them."""
