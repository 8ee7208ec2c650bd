"""Threads that run plain tools."""
