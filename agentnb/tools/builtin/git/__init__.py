"""Git tools, which call the git program."""
