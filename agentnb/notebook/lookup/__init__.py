"""Values of the notebook that are named with dots."""
