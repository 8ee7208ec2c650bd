"""Conversion of trace items to run events."""
