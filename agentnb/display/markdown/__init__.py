"""Markdown of models as safe HTML, also while it streams."""
