"""Checks of workflows before they run."""
