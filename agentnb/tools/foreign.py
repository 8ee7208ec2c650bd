"""Objects of libraries, known by name: none of these libraries is imported to look at a value that is not of it."""

from __future__ import annotations


def is_of(value: object, library: str, *names: str) -> bool:
    """Whether it is an instance of a class of this library with one of these names, or of a class made from such."""
    return any(base.__name__ in names and base.__module__.partition(".")[0] == library for base in type(value).__mro__)
