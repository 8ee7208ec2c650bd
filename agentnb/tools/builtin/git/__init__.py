"""The tools for git, by the git program."""
