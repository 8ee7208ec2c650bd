"""Meanings of error messages and error names, from a table that is loaded on the first error."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

STATUSES = {"overflow": (None, 400, 413, 422, 500), "quota": (None, 400, 403, 429, 503)}
"""HTTP statuses by kind; None is for errors inside a stream. For an overflow, some servers use 413 and 422, and local servers
and gateways use 500."""


@cache
def words_of_servers() -> dict[str, Any]:
    """Return the table: rows by kind (``overflow`` or ``quota``), error names by kind, and names by HTTP status."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@cache
def status_of_name() -> dict[str, int]:
    """Return the HTTP status by error name. Errors inside a stream have only a name, since the stream's own status is 200."""
    return {name: int(status) for status, names in words_of_servers()["status"].items() for name in names}


def is_named(kind: str, name: str) -> bool:
    """Return whether errors with this name mean missing ``credit`` or an ``overflow``."""
    return name in words_of_servers()["names"][kind]


def says(kind: str, status: int | None, message: str) -> bool:
    """Return whether the message of an error with this status matches a row of this kind."""
    rows = [row for row in words_of_servers()[kind] if status in (*STATUSES[kind], *row.get("more", ()))]
    return any(re.search(row["words"], message, re.IGNORECASE) for row in rows)
