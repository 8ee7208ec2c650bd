"""Experiments that a person wrote as text: YAML in a cell or a file, and Python that ends in one."""
