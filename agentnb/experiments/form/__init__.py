"""Experiments in text form: YAML in a cell or a file, or Python code that defines one."""
