"""The tools for the notebook that the run belongs to: its variables, its cells, code in its kernel."""
