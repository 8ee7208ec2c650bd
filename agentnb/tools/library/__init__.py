"""Functions of libraries as tools: their type hints, and descriptions of a length that a request can hold."""
