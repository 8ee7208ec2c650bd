"""Whole sentences are compared with the snapshot of their room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from parsed import parse

TESTS = Path(__file__).resolve().parents[1]
EXACT = ("interchange/formats", "browser", "breaks", "fuzz", "architecture", "detect/test_labelled_sets.py")
"""Rooms that assert texts of formats, of pages, and of the tests' own tools."""
WIRES = ("test_wire.py", "test_serialization.py", "test_isolation.py")
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = ("body", "orelse", "finalbody")


def whole_sentences(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """The line of each sentence that an assertion compares with ``==``, outside tables of cases."""
    rest: list[ast.stmt] = list(function.body)
    while rest:
        node = rest.pop()
        if isinstance(node, LOOPS):
            continue
        for inner in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            rest += [statement for name in BLOCKS for statement in getattr(inner, name, ())]
        if isinstance(node, ast.Assert):
            compared = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
            for test in compared:
                if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and is_sentence(test.comparators[0]):
                    yield test.lineno


def is_sentence(node: ast.expr) -> bool:
    """True for a text of forty characters and six words that is neither JSON nor a command, and for a list that has one."""
    if isinstance(node, ast.List | ast.Tuple):
        return all(isinstance(item, ast.Constant) for item in node.elts) and any(map(is_sentence, node.elts))
    value = node.value if isinstance(node, ast.Constant) else None
    return (
        isinstance(value, str) and len(value) >= 40 and len(value.split()) >= 6 and not ('{"' in value or value.startswith("%"))
    )


def test_complete_sentences_are_compared_with_their_room_snapshot() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("test_*.py"))
        if not path.relative_to(TESTS).as_posix().startswith(EXACT) and path.name not in WIRES
        for part in parse(path).body
        for node in (part.body if isinstance(part, ast.ClassDef) else [part])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        for line in whole_sentences(node)
        if not any("parametrize" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert not found, "Compare with the fixture snapshot, see tests/README.md: " + ", ".join(found)
