"""Replies in the format of each API, and their faults."""
