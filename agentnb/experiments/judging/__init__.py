"""Judges: models that say whether a run did its task, and how right they are, measured against labels by hand."""
