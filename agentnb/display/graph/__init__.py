"""Graphs of workflows, with their layout, HTML and text."""
