"""Patterns with stars as regular expressions that no text makes slow."""

from __future__ import annotations

import re
from collections.abc import Iterable


def star_glob(pattern: str, anything: str = ".*") -> str:
    """Return the regular expression of a pattern in which ``*`` means ``anything``, such as ``[^/]*``.

    What stands between two stars is found at its first place for good: else many stars would take time without end.
    """
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>{anything}?{part})" for part in middle) + anything + last


def names_glob(names: Iterable[str]) -> str:
    """Return the regular expression of names, each after a slash: ``*`` is any text within one, ``**`` any number of them."""
    return "".join("(?:/.*)?" if name == "**" else "/" + star_glob(name, "[^/]*") for name in names)
