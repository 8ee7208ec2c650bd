"""A page changes after a click, not during it: browser tests read it only in conditions that `wait_until` awaits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

BROWSER_TESTS = Path(__file__).resolve().parents[1] / "browser"
READS = {
    *("all_inner_texts", "all_text_contents", "bounding_box", "count", "get_attribute", "inner_html", "inner_text"),
    *("input_value", "is_checked", "is_disabled", "is_enabled", "is_hidden", "is_visible", "text_content"),
}
"""Methods that return at once what a part of the page is now."""
SCRIPTS = {"evaluate", "evaluate_all", "scrolled", "trusts"}
"""Methods that may also act: their results can be kept, but not asserted where they are called."""


def calls(tree: ast.AST, names: set[str]) -> bool:
    """True if the code calls one of these methods. ``count`` with an argument is that of a text or list."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and not (node.func.attr == "count" and node.args)
        for node in ast.walk(tree)
    )


def names_in(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


def hasty_reads(source: str) -> Iterator[int]:
    """The line of each assertion on what the page was at one moment, read in it or kept in a variable before."""
    for function in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)):
        kept: set[str] = set()
        nodes = [*ast.walk(function)]
        for node in nodes:
            if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Lambda) and calls(node.value, READS):
                kept |= names_in(node, ast.Store)
        for node in nodes:
            if isinstance(node, ast.Assert) and (calls(node.test, READS | SCRIPTS) or names_in(node.test, ast.Load) & kept):
                yield node.lineno


def test_browser_tests_wait_before_they_assert() -> None:
    places = {
        f"{path.name}:{line}"
        for path in sorted(BROWSER_TESTS.glob("test_*.py"))
        for line in hasty_reads(path.read_text(encoding="utf-8"))
    }
    assert places == set(), "read the page in a condition: wait_until(lambda: ...)"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("assert part.inner_text() == 'a'", [2]),
        ("assert part.count() == 1", [2]),
        ("assert text.count('a') == 1", []),
        ("box = part.bounding_box()\n assert box['x'] > 1", [3]),
        ("box = part.bounding_box()\n page.mouse.move(box['x'], 1)", []),
        ("assert page.evaluate('1')", [2]),
        ("wait_until(lambda: part.inner_text() == 'a')", []),
    ],
)
def test_premature_page_reads_are_recognised(body: str, lines: list[int]) -> None:
    assert list(hasty_reads(f"def test():\n {body}")) == lines
