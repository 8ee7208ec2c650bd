"""How plots are drawn: figures, style, sources."""
