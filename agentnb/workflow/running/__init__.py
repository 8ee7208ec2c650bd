"""Execution of workflows: the engine and a handler for each kind of step."""
