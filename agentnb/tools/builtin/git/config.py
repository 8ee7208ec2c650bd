"""The configuration of a repository, as git reads it: the person's own and the repository's."""

from __future__ import annotations

import os
from collections.abc import Iterator

FALSE_WORDS = ("", "false", "no", "off", "0")


class GitConfig:
    """Configured values by their names: section and last part in small letters. A name alone, which means true, has None."""

    def __init__(self, listed: bytes) -> None:
        """``listed``: the output of ``git config --list -z --show-scope``."""
        parts = listed.split(b"\0")
        self._values: dict[str, str | None] = {}
        for scope, entry in zip(parts[::2], parts[1::2], strict=False):
            if scope != b"command":
                name, separator, value = entry.partition(b"\n")
                self._values[os.fsdecode(name)] = os.fsdecode(value) if separator else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def text(self, *names: str) -> str:
        """Return the last value of the first of these names that has one; empty if none has."""
        return next((value for name in names if (value := self._values.get(name))), "")

    def is_on(self, name: str) -> bool:
        """Return whether a setting is on."""
        value = self._values.get(name, "")
        return value is None or value.lower() not in FALSE_WORDS
