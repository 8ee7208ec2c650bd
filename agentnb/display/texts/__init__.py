"""Wording of labels, states and commands, without HTML."""
