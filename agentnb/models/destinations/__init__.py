"""Destinations of requests to models named by files or logs: what the person allowed, and the check."""
