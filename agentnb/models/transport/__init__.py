"""Requests over the network: connections, retries, limits, timeouts, failures."""
