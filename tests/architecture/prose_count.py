"""Counts of sentences and names that read as if translated, with their places.

``python tests/architecture/prose_count.py docs/tables.md tests/room`` lists the places in files and folders.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parsed import PACKAGE, nodes_of, parse, walk

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
LIMITS = Path(__file__).with_name("prose_limits.toml")
SETTINGS = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
MARKS = {kind: re.compile(pattern) for kind, pattern in SETTINGS["marks"].items()}
ANY_MARK = re.compile("|".join(f"(?:{pattern})" for pattern in SETTINGS["marks"].values()))
SENTENCE_END = re.compile(r"(?<=[.:;])\s+|\n")
EMPTY_NAMES = frozenset(SETTINGS["names"]["say_nothing"])
PARTICIPLE = re.compile(SETTINGS["names"]["participle"])
NOT_PARTICIPLES = frozenset(SETTINGS["names"]["not_participles"])
MIN_BLANKS = 4
"""Blanks in a string that is read as prose."""
MAX_WORDS_OF_TEST_NAME = 10
EXACT = ("interchange/formats", "browser", "breaks", "fuzz", "architecture", "detect/test_labelled_sets.py")
"""Rooms that assert texts of formats, of pages, and of the tests' own tools."""
WIRES = ("test_wire.py", "test_serialization.py", "test_isolation.py")
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = ("body", "orelse", "finalbody")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTION)


@dataclass
class Count:
    """Words of prose, and the places of each kind as ``(path, line, text)``."""

    words: int = 0
    marks: list[tuple[Path, int, str]] = field(default_factory=list)
    names: list[tuple[Path, int, str]] = field(default_factory=list)
    participles: list[tuple[Path, int, str]] = field(default_factory=list)
    test_names: list[tuple[Path, int, str]] = field(default_factory=list)
    asserted: list[tuple[Path, int, str]] = field(default_factory=list)
    """Sentences that belong in the snapshot of their room."""

    @property
    def per_thousand(self) -> float:
        """Marks in 1,000 words."""
        return 1_000 * len(self.marks) / max(self.words, 1)

    def add_text(self, path: Path, line: int, text: str) -> None:
        """Count the words and marks of a text."""
        self.words += len(text.split())
        for sentence in SENTENCE_END.split(text):
            if ANY_MARK.search(sentence):
                shown = sentence.strip()[:110]
                self.marks += [(path, line, f"{kind}: {shown}") for kind, mark in MARKS.items() if mark.search(sentence)]

    def add_tree(self, path: Path, tree: ast.Module) -> None:
        """Count the docstrings, strings and names of a module. A docstring counts twice: as such and as a string."""
        for node in walk(tree) if path.is_relative_to(PACKAGE) else nodes_of(tree):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str) and node.value.count(" ") >= MIN_BLANKS:
                    self.add_text(path, node.lineno, node.value)
            elif isinstance(node, ast.Name):
                if node.id in EMPTY_NAMES and isinstance(node.ctx, ast.Store):
                    self.names.append((path, node.lineno, node.id))
            elif isinstance(node, DOCUMENTED):
                if text := ast.get_docstring(node):
                    self.add_text(path, getattr(node, "lineno", 1), text)
                if isinstance(node, FUNCTION):
                    self.add_function(path, node)

    def add_function(self, path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Count a function's name if it is a participle, or a sentence that is too long for a test."""
        decorators = {getattr(item, "id", getattr(item, "attr", "")) for item in node.decorator_list}
        is_value = decorators & {"property", "cached_property", "setter"}
        if not is_value and PARTICIPLE.match(node.name) and node.name.strip("_") not in NOT_PARTICIPLES:
            self.participles.append((path, node.lineno, node.name))
        if node.name.startswith("test_") and len(node.name.split("_")) - 1 > MAX_WORDS_OF_TEST_NAME:
            self.test_names.append((path, node.lineno, node.name))
        if node.name.startswith("test_") and has_snapshot(path):
            self.asserted += [(path, line, node.name) for line in whole_sentences(node) if not has_table_of_cases(node)]


def has_snapshot(path: Path) -> bool:
    """True for tests other than those that compare exact texts."""
    if not path.is_relative_to(TESTS) or path.name in WIRES:
        return False
    return not path.relative_to(TESTS).as_posix().startswith(EXACT)


def has_table_of_cases(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if a test has parameters."""
    return any("parametrize" in ast.unparse(decorator) for decorator in function.decorator_list)


def whole_sentences(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """Yield the line of each sentence that an assertion compares with ``==``, outside loops."""
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


def files_below(*places: Path) -> Iterator[Path]:
    """Yield the Python and Markdown files below folders, and files themselves; the changelog has old words."""
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in {".py", ".md"} and path.name != "CHANGELOG.md":
                yield path


def count_prose(*places: Path) -> Count:
    """Count the prose and names of files and folders."""
    count = Count()
    for path in files_below(*places):
        if path.suffix == ".py":
            count.add_tree(path, parse(path))
        else:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                count.add_text(path, number, line)
    return count


def repeated_file_names(folder: Path) -> list[str]:
    """Return file names that a folder has more than once, each with its paths."""
    names = Counter(path.name for path in folder.rglob("*.py") if path.name != "__init__.py")
    return [
        f"{name}: {', '.join(path.parent.relative_to(ROOT).as_posix() for path in sorted(folder.rglob(name)))}"
        for name, number in sorted(names.items())
        if number > 1
    ]


def listed(places: list[tuple[Path, int, str]]) -> str:
    """List places one a line, those in the files that changed last first."""
    changed = {path: path.stat().st_mtime for path, _, _ in places}
    ordered = sorted(places, key=lambda place: (-changed[place[0]], place[:2]))
    return "\n".join(f"{path.relative_to(ROOT)}:{line}: {text}" for path, line, text in ordered)


def main() -> None:
    """Print the count and the places of files and folders."""
    count = count_prose(*(Path(arg).resolve() for arg in sys.argv[1:] or ["agentnb", "docs", "README.md", "tests"]))
    for kind in ("marks", "names", "participles", "test_names", "asserted"):
        print(f"{kind}: {len(getattr(count, kind))}\n{listed(getattr(count, kind))}\n")
    print(f"{count.words:,} words of prose, {count.per_thousand:.1f} marks in 1,000")


if __name__ == "__main__":
    main()
