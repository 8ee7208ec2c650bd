"""The tool for shell commands, and its sandbox."""
