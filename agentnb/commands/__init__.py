"""Shell commands: how bash reads a command, and what its programs can do. Pure functions, the basis of permission rules."""
