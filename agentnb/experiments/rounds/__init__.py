"""Guidance round by round: where it would apply, what followed, and its lift."""
