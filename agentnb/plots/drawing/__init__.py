"""Helpers for drawing plots: figures, style, sources."""
