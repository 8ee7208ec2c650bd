"""Tools: what a model may ask for. One protocol; functions of the notebook are tools."""
