"""Cells that run an agent or a workflow: their options and runs."""
