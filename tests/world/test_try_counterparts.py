"""The counterparts that are tried: each names its packages with their versions."""

from __future__ import annotations

import re

import pytest
from try_counterparts import counterparts

RANGE = re.compile(r"@[~^]?\d|[<>=~]=?\d|<\d")


def test_each_row_names_its_packages_with_their_versions(subtests: pytest.Subtests) -> None:
    rows = counterparts(nightly=True)
    assert len({row["name"] for row in rows}) == len(rows)
    assert len(counterparts(["mcp_server"])) >= 25
    for row in rows:
        with subtests.test(row["name"]):
            packages = [*row.get("npm", ()), *row.get("pypi", ())]
            assert packages
            assert [package for package in packages if not RANGE.search(package)] == []
