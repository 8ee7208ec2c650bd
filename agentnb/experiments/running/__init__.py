"""Runs an experiment's cells, in the kernel or in worker processes, within one budget and one rate limit."""
