"""The facts of a run: the fold of its events, and what is read of it."""
