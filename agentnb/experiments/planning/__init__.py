"""The plan of an experiment: its tasks, variants, checks and cells, and what is wrong with them."""
