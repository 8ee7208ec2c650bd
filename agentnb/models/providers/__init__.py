"""Providers: a module for each wire."""
