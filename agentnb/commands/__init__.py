"""Shell commands: what a command is to bash, and what its programs can do. Pure; rules of permissions are built on it."""
