"""Library functions as tools: type hints, and descriptions short enough for requests."""
