"""Tools for the notebook of the run: its variables, its cells, and code in its kernel."""
