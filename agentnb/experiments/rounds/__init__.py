"""Guidance round by round: where it would be given, what came after it, and its lift."""
