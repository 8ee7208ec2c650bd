"""The commands of `agentnb`, a module each."""
