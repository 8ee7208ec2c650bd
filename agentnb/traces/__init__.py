"""Recorded runs: store, log files, tables."""
