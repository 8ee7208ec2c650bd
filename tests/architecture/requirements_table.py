"""Lists which tests hold which requirement: ``python tests/architecture/requirements_table.py [NUMBER ...]``."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from parsed import nodes_of, parse

ROOT = Path(__file__).resolve().parents[2]


def promised() -> dict[str, str]:
    """The requirements of this version, with a few words each."""
    return tomllib.loads(Path(__file__).with_name("requirements.toml").read_text(encoding="utf-8"))["requirements"]


@cache
def marked() -> dict[str, list[str]]:
    """For each number the tests that are marked with it, as ``file::test``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "pytest.mark.req" in path.read_text(encoding="utf-8"):
            for name, number in _marks(parse(path)):
                found[number].append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{name}")
    return dict(found)


def _marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.req":
                    yield from ((node.name, ast.literal_eval(argument)) for argument in decorator.args)


def listing(numbers: Iterable[str]) -> Iterator[str]:
    """The lines of the listing: each requirement, its tests below it."""
    what, tests = promised(), marked()
    for number in numbers:
        yield f"{number}  {what[number]}"
        yield from (f"    {test}" for test in tests.get(number, ()))


if __name__ == "__main__":
    print("\n".join(listing(sys.argv[1:] or promised())))
