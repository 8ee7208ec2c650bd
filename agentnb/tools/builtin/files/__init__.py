"""File tools for the working directory."""
