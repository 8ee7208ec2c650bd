"""Judges: models that decide whether a run did its task. Also their quality, measured against people's labels."""
