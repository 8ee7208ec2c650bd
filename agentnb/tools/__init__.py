"""Tools that a model may call: one protocol; functions of the notebook are tools."""
