"""Experiments in a notebook: the magic ``%%experiment``, and the box that shows a running experiment."""
