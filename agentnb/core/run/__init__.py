"""The facts of a run: the fold of its events, and queries."""
