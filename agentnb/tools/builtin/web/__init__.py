"""The tool for pages of the web."""
