"""Todos as a tool: the board that holds the list, the rules for changes, and the tool with which a model makes them."""
