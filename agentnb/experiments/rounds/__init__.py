"""Guidance round by round: where it would apply, what happened next, and its lift."""
