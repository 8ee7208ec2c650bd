"""Finds, reads, imports, converts and analyses traces of other products, and exports runs in their formats."""
