"""Git tools that call the git program."""
