"""Converts trace items to run events."""
