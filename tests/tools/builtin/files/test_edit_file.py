"""Editing files: the only occurrence of a text is replaced."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from file_desk import FileDesk
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.tools.builtin.files.edit_file import text_after_edit

TEXT = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"


def test_text_that_occurs_once_is_replaced_exactly(subtests: pytest.Subtests, desk: FileDesk) -> None:
    cases = {
        "a line": (TEXT, "def g", "def h", TEXT.replace("def g", "def h"), 5),
        "several lines": (TEXT, "():\n    return 1\n\n", "", "def f\ndef g():\n    return 1\n", 1),
        "line ends": ("a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n", 1),
        "no pattern": ("a.b\naxb\n", "a.b", r"\1", "\\1\naxb\n", 1),
        "the whole": ("x", "x", "", "", 1),
    }
    for name, (text, old, new, after, line) in cases.items():
        with subtests.test(name):
            desk.put({"a.py": text})
            assert desk.text("edit_file", path="a.py", old=old, new=new) == f"Successfully edited a.py at line {line}"
            assert (desk.folder / "a.py").read_bytes() == after.encode()


def test_missing_or_ambiguous_text_is_an_error_stating_the_count(
    subtests: pytest.Subtests, desk: FileDesk, snapshot: Snapshot
) -> None:
    cases = {
        "missing": (TEXT, "return 2", "no_match"),
        "other spaces": (TEXT, "def f():\n  return 1", "no_match"),
        "other line ends": ("a\r\nb\r\n", "a\nb\n", "no_match"),
        "twice": (TEXT, "return 1", "not_unique"),
        "overlapping": ("aaa", "aa", "not_unique"),
        "too many": ("x\n" * 2_000, "x", "not_unique"),
        "empty": (TEXT, "", "no_change"),
        "the same": (TEXT, "new", "no_change"),
        "in an empty file": ("", "x", "no_match"),
    }
    for name, (text, old, code) in cases.items():
        with subtests.test(name):
            desk.put({"a.py": text})
            outcome = desk.call("edit_file", path="a.py", old=old, new="new")
            assert (outcome.error_code, outcome.text) == (code, snapshot(name))
            assert (desk.folder / "a.py").read_bytes() == text.encode()


def test_file_that_cannot_be_edited_is_an_error(subtests: pytest.Subtests, desk: FileDesk) -> None:
    desk.put({"a.bin": b"a\xff"})
    for path, new, code in (("b.txt", "b", "not_found"), ("x/b.txt", "b", "not_found"), ("a.bin", "b", "not_text")):
        with subtests.test(path):
            assert desk.code("edit_file", path=path, old="a", new=new) == code
    assert desk.code("edit_file", path="a.bin", old="a", new="\ud800") == "not_text"
    assert [path.name for path in desk.folder.iterdir()] == ["a.bin"]


@examples(300)
@given(text=st.text("ab\n", max_size=12), old=st.text("ab\n", max_size=3), new=st.text("abc", max_size=3))
def test_predicted_text_matches_the_edited_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, old: str, new: str
) -> None:
    desk = FileDesk(tmp_path_factory.mktemp("edited"))
    desk.put({"a.txt": text})
    after = text_after_edit({"path": "a.txt", "old": old, "new": new}, text)
    outcome = desk.call("edit_file", path="a.txt", old=old, new=new)
    assert outcome.ok == (after is not None and old != new)
    assert (desk.folder / "a.txt").read_text() == (after if outcome.ok else text)
    places = sum(text.startswith(old, start) for start in range(len(text)))
    assert outcome.ok == (bool(old) and old != new and places == 1)


def test_failing_edit_has_no_predicted_text() -> None:
    assert text_after_edit({"old": "a", "new": "b"}, None) is None
    assert text_after_edit({"old": 3, "new": "b"}, "3") is None
    assert text_after_edit({"old": "a"}, "a") is None
