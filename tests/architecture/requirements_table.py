"""Makes docs/requirements.md: which tests hold which requirement."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "requirements.md"
HEAD = """# Requirements and their tests

Made by `python tests/architecture/requirements_table.py`; a test fails when it is out of date.

| number | what | tests |
|---|---|---|
"""


def promised() -> dict[str, str]:
    """The requirements of this version, with a few words each."""
    return tomllib.loads(Path(__file__).with_name("requirements.toml").read_text(encoding="utf-8"))["requirements"]


@cache
def marked() -> dict[str, list[str]]:
    """For each number the tests that are marked with it, as ``file::test``."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "pytest.mark.req" in source:
            for name, number in _marks(ast.parse(source)):
                found[number].append(f"{path.relative_to(ROOT / 'tests').as_posix()}::{name}")
    return dict(found)


def _marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.req":
                    yield from ((node.name, ast.literal_eval(argument)) for argument in decorator.args)


def text() -> str:
    """The whole table."""
    tests = marked()
    rows = [
        f"| {number} | {what} | {'<br>'.join(f'`{test}`' for test in tests.get(number, ()))} |"
        for number, what in promised().items()
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    TABLE.write_text(text(), encoding="utf-8")
    print(f"{TABLE.relative_to(ROOT)}: {len(promised())} requirements")
