"""Tools for GitHub issues."""
