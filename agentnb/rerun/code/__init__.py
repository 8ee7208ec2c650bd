"""Converts a recorded run to code and to a test."""
