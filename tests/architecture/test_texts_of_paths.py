"""Tests pass in any checkout: below a folder of the package's name, of a blank, or of a letter that is not ASCII."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PLACE = re.compile(r"/?(agentnb|tests|notebooks|docs|\.venv|site-packages)/")
"""The beginning of a path within the checkout, which the folders above it can have too."""
IS_OF_CHECKOUT = {"executable", "__file__"}
"""Attributes and names whose value is a path of the checkout, or of the environment in it."""


def is_of_checkout(node: ast.AST, known: set[str]) -> bool:
    """True for the path of the checkout itself, or a name that holds it; what quotes or compares it is a call."""
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name)
            and node.func.id in {"str", "Path"}
            and any(is_of_checkout(arg, known) for arg in node.args)
        )
    if isinstance(node, ast.Attribute):
        return node.attr in IS_OF_CHECKOUT
    return isinstance(node, ast.Name) and node.id in known | IS_OF_CHECKOUT


def words_of_commands(text: ast.JoinedStr) -> Iterator[ast.expr]:
    """Yield each value of an f-string next to a blank, as words of commands are."""
    for before, part, after in zip([None, *text.values], text.values, [*text.values[1:], None], strict=False):
        if isinstance(part, ast.FormattedValue) and part.conversion == -1:
            left = before.value if isinstance(before, ast.Constant) else ""
            right = after.value if isinstance(after, ast.Constant) else ""
            if str(left).endswith(" ") or str(right).startswith(" "):
                yield part.value


def fixed_places(source: str) -> Iterator[int]:
    """The line of each search for a place of the checkout in a text, and of each path of it that is an unquoted word."""
    tree = ast.parse(source)
    known = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and (is_of_checkout(node.value, set()) or _is_beside(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            left = node.left.value if isinstance(node.left, ast.Constant) else None
            if isinstance(left, str) and PLACE.match(left):
                yield node.lineno
        elif isinstance(node, ast.JoinedStr) and any(is_of_checkout(word, known) for word in words_of_commands(node)):
            yield node.lineno


def _is_beside(node: ast.AST) -> bool:
    """True for ``Path(sys.executable).with_name(...)``: a program beside Python."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "with_name"
        and is_of_checkout(node.func.value, set())
    )


@pytest.mark.nightly("by day a clone with such a path runs all tests")
def test_tests_do_not_depend_on_the_checkout_path() -> None:
    places = {
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in fixed_places(path.read_text(encoding="utf-8"))
    }
    assert places == set(), "search for OWN_FRAMES; quote a word of a command with shlex.quote"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("assert 'agentnb/' not in traceback", [1]),
        ("assert '/site-packages/' in text", [1]),
        ("assert OWN_FRAMES not in traceback", []),
        ("run(f'{sys.executable} -c x')", [1]),
        ("run(f'{shlex.quote(sys.executable)} -c x')", []),
        ("TIME = Path(sys.executable).with_name('server')\nrun(f'add {TIME} --zone')", [2]),
        ("path = f'{Path(sys.executable).parent}:/usr/bin'", []),
    ],
)
def test_searched_and_unquoted_paths_are_detected(code: str, lines: list[int]) -> None:
    assert list(fixed_places(code)) == lines
