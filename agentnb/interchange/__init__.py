"""Find, read, import, convert and analyse traces of other products, and export runs in their formats."""
