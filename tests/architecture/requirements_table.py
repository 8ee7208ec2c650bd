"""Lists which tests hold which requirement: ``python tests/architecture/requirements_table.py [NUMBER ...]``."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"^ *@pytest\.mark\.req\(([^)]*?),?\s*\)", re.MULTILINE)
DEFINED = re.compile(r"^ *(?:async def|def|class) (\w+)", re.MULTILINE)


def promised() -> dict[str, str]:
    """The requirements of this version, with a few words each."""
    return tomllib.loads(Path(__file__).with_name("requirements.toml").read_text(encoding="utf-8"))["requirements"]


@cache
def marked() -> dict[str, list[str]]:
    """For each number the tests that are marked with it, as ``file::test``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, number in _marks(path.read_text(encoding="utf-8")):
            found[number].append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{name}")
    return dict(found)


def _marks(source: str) -> Iterator[tuple[str, str]]:
    for mark in MARK.finditer(source):
        name = DEFINED.search(source, mark.end())
        assert name is not None, mark[0]
        yield from ((name[1], number) for number in ast.literal_eval(f"({mark[1]},)"))


def listing(numbers: Iterable[str]) -> Iterator[str]:
    """The lines of the listing: each requirement, its tests below it."""
    what, tests = promised(), marked()
    for number in numbers:
        yield f"{number}  {what[number]}"
        yield from (f"    {test}" for test in tests.get(number, ()))


if __name__ == "__main__":
    print("\n".join(listing(sys.argv[1:] or promised())))
