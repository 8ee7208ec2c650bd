"""Logs of one's own runs on disk."""
