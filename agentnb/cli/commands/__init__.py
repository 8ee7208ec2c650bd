"""Commands of `agentnb`, one module each."""
