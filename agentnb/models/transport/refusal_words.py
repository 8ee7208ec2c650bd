"""Whether the words of an error say that a conversation is too long, or a quota used up; a table, read at the first error."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

STATUSES = {"overflow": (None, 400, 413, 422, 500), "quota": (None, 400, 403, 429, 503)}
"""HTTP statuses of each: none inside a stream; for an overflow 413 and 422 at some servers, 500 at local ones and gateways."""


@cache
def words_of_servers() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the table, by what they say: ``overflow`` or ``quota``."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def says(kind: str, status: int | None, message: str) -> bool:
    """Return whether an error of this status has the words of a row of this kind."""
    rows = [row for row in words_of_servers()[kind] if status in (*STATUSES[kind], *row.get("more", ()))]
    return any(re.search(row["words"], message, re.IGNORECASE) for row in rows)
