"""Judges, which are models that decide whether a run did its task, and their quality, measured against people's labels."""
