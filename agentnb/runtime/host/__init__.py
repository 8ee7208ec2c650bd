"""What a run takes from where it starts, and the handle that its caller gets."""
