"""Models' Markdown as safe HTML, also while streaming."""
