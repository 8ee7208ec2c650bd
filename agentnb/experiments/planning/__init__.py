"""The plan of an experiment: its tasks, variants, checks and cells, and their problems."""
