"""The tools for files in the working folder."""
