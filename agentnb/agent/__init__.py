"""Agents: their settings, their loop, and starting and resuming their runs."""
