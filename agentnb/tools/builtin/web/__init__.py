"""Tool for web pages."""
