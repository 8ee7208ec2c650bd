"""Whole sentences are compared with the snapshot of their room, and the snapshot notices what differs, lacks or is unused."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from asserted_sentences import Sentences, Snapshot

TESTS = Path(__file__).resolve().parents[1]
EXACT = ("interchange/formats", "browser", "breaks", "fuzz", "architecture", "detect/test_labelled_sets.py")
"""Rooms that assert texts of formats, of pages, and of the tests' own tools."""
WIRES = ("test_wire.py", "test_serialization.py", "test_isolation.py")
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef, ast.ListComp, ast.GeneratorExp)


def whole_sentences(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """The line of each sentence that an assertion compares with ``==``, outside tables of cases."""
    if any("parametrize" in ast.unparse(decorator) for decorator in function.decorator_list):
        return
    rest: list[ast.AST] = list(function.body)
    while rest:
        node = rest.pop()
        if isinstance(node, LOOPS):
            continue
        rest.extend(ast.iter_child_nodes(node))
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


def test_whole_sentences_are_compared_with_the_snapshot_of_their_room() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("test_*.py"))
        if not path.relative_to(TESTS).as_posix().startswith(EXACT) and path.name not in WIRES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        for line in whole_sentences(node)
    ]
    assert not found, "Compare with the fixture snapshot, see tests/README.md: " + ", ".join(found)


def compared(root: Path, *texts: str | list[str], renew: bool = False, test: str = "test_it") -> list[str]:
    """Compare the texts in one run of one test; return what the comparisons and the end of the run complain about."""
    path = root / "tests" / "room" / "test_words.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    sentences = Sentences(SimpleNamespace(rootpath=root, getoption=lambda name: renew))  # type: ignore[arg-type]
    node = f"tests/room/test_words.py::{test}"
    sentences.pytest_collection_modifyitems([SimpleNamespace(nodeid=node)])  # type: ignore[list-item]
    snapshot, complaints = Snapshot(sentences, path, test), []
    for text in texts:
        try:
            assert text == snapshot
        except AssertionError as error:
            complaints.append(str(error).splitlines()[0])
    outcome = "failed" if complaints else "passed"
    sentences.pytest_runtest_logreport(SimpleNamespace(nodeid=node, when="call", outcome=outcome))  # type: ignore[arg-type]
    config = SimpleNamespace(rootpath=root, args=["tests"])
    session = SimpleNamespace(config=config, exitstatus=0)
    sentences.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert bool(session.exitstatus) == bool(sentences.unused)
    return [*complaints, *sentences.unused]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    assert compared(tmp_path, "The door is open.", ["One.", 'Two "2".'], "a\nb\x7f\n", renew=True) == []
    return tmp_path


def test_renewed_sentences_are_those_that_the_next_run_compares(root: Path) -> None:
    assert compared(root, "The door is open.", ["One.", 'Two "2".'], "a\nb\x7f\n") == []


def test_sentence_that_differs_or_is_missing_fails(root: Path) -> None:
    complaints = compared(root, "The door is shut.", ["One."], "a\nb\x7f\n", "One more.")
    assert [line.partition(".")[0] for line in complaints] == [
        "The sentence differs",
        "The sentence differs",
        "There is no such sentence yet",
    ]


def test_sentence_that_no_test_compares_fails_and_is_removed_by_renewal(root: Path) -> None:
    assert compared(root, "The door is open.") == [f"tests/room/sentences.toml: test_words.test_it {n}" for n in (2, 3)]
    assert len(compared(root, test="test_other")) == 3
    assert compared(root, "The door is open.", renew=True) == []
    assert compared(root, "The door is open.") == []


def test_only_texts_are_compared(root: Path) -> None:
    assert compared(root, 5) == ["A snapshot is of a text or of texts, not of 5"]  # type: ignore[arg-type]
