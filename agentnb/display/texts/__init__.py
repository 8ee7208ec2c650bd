"""Wording: labels, states, commands. No HTML."""
