"""Todos as a tool: the board with the list, rules for changes, and the tool for the model."""
