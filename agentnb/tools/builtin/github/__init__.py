"""The tools for issues on GitHub."""
