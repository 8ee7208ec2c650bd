"""Workflow files: YAML source, classes of steps, and their parsers."""
