"""A workflow while it runs: the engine and the work of each kind of step."""
