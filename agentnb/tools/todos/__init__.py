"""Todos as a tool: the list on a board, the rules of changing it, and the tool a model changes it with."""
