"""Undo of a run's file changes: each file is restored unless something else has changed it since."""
