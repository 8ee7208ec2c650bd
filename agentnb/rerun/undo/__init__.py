"""Undoing what a run did to files: each goes back to what it was before the run, unless something else has changed it since."""
