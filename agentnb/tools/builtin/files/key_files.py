"""Files that hold keys, by their names."""

from __future__ import annotations

from fnmatch import fnmatchcase

_PATTERNS = (".env", ".env.*", "*.pem", "*.key", "id_*", ".netrc", ".pypirc")
_OTHERS = (".env.example", ".env.sample", ".env.template", "*.pub")
"""Names that match, of files that hold no key."""


def is_key_file(name: str) -> bool:
    """Return whether a file of this name holds keys, as far as its name says. ``name``: without folders."""
    name = name.lower()
    return any(fnmatchcase(name, pattern) for pattern in _PATTERNS) and not any(fnmatchcase(name, other) for other in _OTHERS)
