"""Lookup of notebook values by dotted names."""
