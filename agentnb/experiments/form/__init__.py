"""Experiments written as text: YAML in a cell or a file, or Python that defines one."""
