"""Plan of an experiment: tasks, variants, checks and cells, and their problems."""
