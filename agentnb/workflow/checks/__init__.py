"""Checks of a workflow before it runs."""
