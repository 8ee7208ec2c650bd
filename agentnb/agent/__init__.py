"""Agents: their settings, their loop, and how their runs start and resume."""
