"""Graphs of workflows: layout, HTML and text."""
