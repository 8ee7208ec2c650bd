"""Destinations of requests to models named by files or logs: those that the person allowed, and the check against them."""
