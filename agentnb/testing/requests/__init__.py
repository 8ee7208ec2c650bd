"""The rules that requests must keep, by wire."""
