"""Looks up notebook values by dotted names."""
