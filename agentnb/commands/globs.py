"""Star patterns as regular expressions whose run time is bounded for every text."""

from __future__ import annotations

import re
from collections.abc import Iterable


def star_glob(pattern: str, anything: str = ".*") -> str:
    """Return the regular expression of a pattern in which ``*`` matches ``anything``, such as ``[^/]*``.

    Text between two stars matches at its first occurrence, without backtracking; otherwise many stars would take
    unbounded time.
    """
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>{anything}?{part})" for part in middle) + anything + last


def names_glob(names: Iterable[str]) -> str:
    """Return the regular expression for names, each after a slash: ``*`` matches within a name, ``**`` matches any number of
    names.
    """
    return "".join("(?:/.*)?" if name == "**" else "/" + star_glob(name, "[^/]*") for name in names)
