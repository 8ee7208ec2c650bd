"""Agents: their settings, their loop, and how a run is started or resumed."""
