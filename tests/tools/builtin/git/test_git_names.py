"""Paths of a repository: their spelling, and those a model may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb.tools.builtin.git.path_text import confined_path, is_below, join_names, shown_name
from agentnb.tools.tool import ToolRefused


def test_unusual_file_names_are_quoted_as_git_does(subtests: pytest.Subtests) -> None:
    cases = {
        b"a/b c.txt": "a/b c.txt",
        "größe".encode(): "größe",
        b"a\nb": '"a\\nb"',
        b'a"b\\c': '"a\\"b\\\\c"',
        b"caf\xe9": '"caf\\351"',
        b"\x1b[31m": '"\\033[31m"',
        "a\u202eb".encode(): '"a\\342\\200\\256b"',
        b" a": '" a"',
    }
    for name, shown in cases.items():
        with subtests.test(shown):
            assert shown_name(name) == shown


@pytest.mark.req("R2.20")
def test_paths_stay_in_the_working_folder(subtests: pytest.Subtests) -> None:
    work_dir = Path("w").resolve()
    (work_dir / "d").mkdir(parents=True)
    (work_dir / "out").symlink_to("..")
    (work_dir / "in").symlink_to("d")
    inside = {
        ".": b".",
        "./": b".",
        "d/..": b".",
        "a.txt": b"a.txt",
        "d/gone": b"d/gone",
        "in/x": b"d/x",
        "out": b"out",
        "..foo": b"..foo",
        str(work_dir / "d"): b"d",
        "-x": b"-x",
        ":(top)x": b":(top)x",
    }
    for text, path in inside.items():
        with subtests.test(text):
            assert confined_path(text, work_dir) == path
    outside = ("..", "../x", "out/x", "out/.", "/etc/passwd", str(work_dir.parent), "d/../../x", ".git", "d/.GIT/config")
    for text in outside:
        with subtests.test(text), pytest.raises(ToolRefused) as refused:
            confined_path(text, work_dir)
        assert refused.value.outcome.error_code == "outside_work_dir"
    for text in ("", "a\0b"):
        with subtests.test(repr(text)), pytest.raises(ToolRefused):
            confined_path(text, work_dir)


def test_paths_are_compared_and_name_lists_shortened() -> None:
    assert is_below(b"a/b", b"a") and is_below(b"a", b"a") and is_below(b"x", b".") and is_below(b"a/", b"a")
    assert not is_below(b"ab", b"a")
    assert join_names(["a", "b", "c"], most=2) == "a, b and 1 more"
