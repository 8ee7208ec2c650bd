"""``simulated:PERSONA``: a plan follower without a language model."""
