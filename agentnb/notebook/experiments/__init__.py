"""Experiments in a notebook: the magic ``%%experiment``, and the box of one that runs."""
