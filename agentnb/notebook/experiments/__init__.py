"""Experiments in a notebook: the magic ``%%experiment``, and the table that fills in while one runs."""
