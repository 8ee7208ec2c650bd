"""Tools that a model may call: one protocol; functions in the notebook are tools."""
