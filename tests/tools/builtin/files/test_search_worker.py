"""Globs of searches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.tools.builtin.files.search_worker import glob_pattern

GLOBS = {
    "*.py": (["a.py", ".py"], ["a.pyc", "d/a.py"]),
    "**/*.py": (["a.py", "d/a.py", "d/e/a.py"], ["a.txt", "d/a.py/x"]),
    "data/**": (["data/a", "data/d/a"], ["data", "other/a"]),
    "data/": (["data/a", "data/d/a"], ["data", "other/a"]),
    "./data/*.csv": (["data/a.csv"], ["data/d/a.csv"]),
    "data/**/a.csv": (["data/a.csv", "data/d/e/a.csv"], ["a.csv", "dataa.csv"]),
    "a?c": (["abc"], ["ac", "a/c"]),
    "[ab].txt": (["a.txt"], ["c.txt"]),
    "[!ab].txt": (["c.txt"], ["a.txt"]),
    "*.{csv,tsv}": (["a.csv", "a.tsv"], ["a.txt", "a.{csv,tsv}"]),
    "{a,b": (["{a,b"], ["a"]),
    "a}{b": (["a}{b"], ["ab", "a}b"]),
    "{data/*,*}.csv": (["data/a.csv", "a.csv"], ["d/a.csv"]),
    "a+b.(c)": (["a+b.(c)"], ["aab.c"]),
    r"[\]x": ([r"\x"], ["x"]),
    "[!]": (["[!]"], ["a"]),
    "[a&&b].txt": (["&.txt", "b.txt"], ["c.txt"]),
    "**": (["a", "d/a"], []),
}


def test_globs_match_names_and_paths(subtests: pytest.Subtests) -> None:
    for glob, (matching, others) in GLOBS.items():
        with subtests.test(glob):
            pattern = re.compile(glob_pattern(glob), re.DOTALL)
            assert [path for path in (*matching, *others) if pattern.fullmatch(path)] == matching


@examples(500)
@given(st.text("ab*?[]!^-{},/.\\", max_size=10))
def test_each_glob_compiles_or_fails_only_for_a_bad_range(glob: str) -> None:
    try:
        re.compile(glob_pattern(glob))
    except re.error as error:
        assert "range" in str(error)
