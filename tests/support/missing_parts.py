"""Parts of a machine that some tests need: without one they are skipped, and the end of the run says how to install it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

INSTALL = {
    "Chromium": "chromium",
    "bubblewrap": "bubblewrap",
    "Node": "nodejs npm",
}
"""The packages of Debian and Ubuntu for each part."""
LACKS = "lacks"
"""The property of the report of a test that lacks a part."""


def skip_without(part: str, reason: str, *, in_ci: bool = True) -> NoReturn:
    """Skip the test for lack of a part. ``in_ci``: whether it may lack there; else the test fails."""
    if not in_ci and os.environ.get("CI"):
        pytest.fail(reason)
    skipped = pytest.skip.Exception(reason)
    skipped.part = part  # for the report
    raise skipped


def missing_line(lacking: Iterable[str]) -> str:
    """Return the line about tests skipped for lack of these parts, one for each test; empty for none."""
    counts = Counter(lacking)
    if not counts:
        return ""
    skipped = ", ".join(f"{counts[part]:,} for lack of {part}" for part in INSTALL if counts[part])
    packages = " ".join(INSTALL[part] for part in INSTALL if counts[part])
    return f"Skipped: {skipped}. To run them (Debian, Ubuntu): sudo apt-get install {packages} && make test"
