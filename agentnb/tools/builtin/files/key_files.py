"""Files that may hold keys, by their name."""

from __future__ import annotations

from fnmatch import fnmatchcase

PATTERNS = (".env", ".env.*", "*.pem", "*.key", "id_*", ".netrc", ".pypirc")
SAMPLES = (".env.example", ".env.sample", ".env.template", "*.pub")


def is_key_file(name: str) -> bool:
    """Return whether a file of this name may hold keys."""
    name = name.lower()
    return any(fnmatchcase(name, pattern) for pattern in PATTERNS) and not any(fnmatchcase(name, each) for each in SAMPLES)
