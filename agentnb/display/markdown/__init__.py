"""Models' Markdown as safe HTML, even while it is streaming."""
