"""Agents: the loop, what it decides, and how it is started."""
