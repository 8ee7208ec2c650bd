"""Runs after they have happened: the store, files, tables."""
