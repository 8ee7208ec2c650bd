"""Drawing of plots: figures, style, sources."""
