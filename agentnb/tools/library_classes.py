"""Recognition of library objects by class name, without importing the library."""

from __future__ import annotations


def is_of(value: object, library: str, *names: str) -> bool:
    """True if the value is an instance of a class of this library with one of these names, or of a subclass."""
    return any(base.__name__ in names and base.__module__.partition(".")[0] == library for base in type(value).__mro__)
