"""Shell commands taken apart: what counts as one simple command, which parts are found, which pattern is offered."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.policies.permissions.commands import command_glob, is_simple, offered_pattern, parts_of

PARTS = {
    "git status -s": (["git status -s"], True),
    "ls; rm -rf x": (["ls", "rm -rf x"], True),
    "ls && /bin/rm x || true": (["ls", "/bin/rm x", "rm x", "true"], True),
    "a|rm x": (["a", "rm x"], True),
    "a&rm x": (["a", "rm x"], True),
    "ls\nrm x": (["ls", "rm x"], True),
    "(rm x)": (["rm x"], True),
    "FOO=1 BAR= rm x": (["rm x"], True),
    ">out rm x": (["rm x"], True),
    "rm x 2>&1": (["rm x"], True),
    "'rm' x": (["rm x"], True),
    "r\\m x": (["rm x"], True),
    "echo '$HOME'": (["echo $HOME"], True),
    "echo $HOME": (["echo $HOME"], False),
    'echo "$(rm x)"': ([], False),
    "echo `rm x`": ([], False),
    "sudo rm x": (["sudo rm x"], False),
    "bash -c 'rm x'": (["bash -c rm x"], False),
    "python3.12 -c pass": ([], False),
    "if true; then rm x; fi": ([], False),
    "{ rm x; }": ([], False),
    "/bin/r? x": ([], False),
    "cat <<E\nrm x\nE": ([], False),
    "echo 'open": ([], False),
    "echo ';' x": ([], False),
    "rm \\\n x": ([], False),
}
"""Commands, some of the parts that are found in them, and whether these are all."""


def test_a_command_is_taken_apart_or_said_not_to_be(subtests: pytest.Subtests) -> None:
    for command, (texts, is_whole) in PARTS.items():
        with subtests.test(command):
            parts = parts_of(command)
            assert set(texts) <= set(parts.texts) and parts.is_whole == is_whole and command.strip() in parts.texts


def test_one_simple_command_has_no_sign_of_another() -> None:
    for command in ("git status", "git log -n 3 --format='%h %s'", "ls $HOME", "echo a\tb"):
        assert is_simple(command), command
    for sign in (";", "&", "&&", "|", "||", "$(x)", "${x}", "$[x]", "`x`", ">", "<", ">>", "<<", "\n", "\r", "\x00"):
        assert not is_simple(f"git status {sign} x") and not is_simple(f"git status '{sign}'"), sign


def test_the_pattern_that_is_offered_is_program_and_first_word_or_nothing(subtests: pytest.Subtests) -> None:
    cases = {
        "git status --short": "git status *",
        "git status": "git status *",
        "pytest tests/test_a.py -q": "pytest tests/test_a.py *",
        "ls": "ls",
        "ls -la data": "ls -la data",
        "npm run build": "npm run build",
        "git -c core.pager=x log": "git -c core.pager=x log",
        "python -c 'x'": "",
        "/usr/bin/python3.11 x.py": "",
        "env X=1 git status": "",
        "sudo ls": "",
        "xargs rm": "",
        "find . -delete": "",
        "X=1 git status": "",
        "git status; rm x": "",
        "ls *.py": "",
        "'git' status": "",
    }
    for command, pattern in cases.items():
        with subtests.test(command):
            assert offered_pattern(command) == pattern
            assert not pattern or re.fullmatch(command_glob(pattern), command)


def test_a_star_at_the_end_is_also_nothing_and_never_part_of_a_word() -> None:
    matches = {
        text
        for text in ("git status", "git status -s", "git statusx", "git stat")
        if re.fullmatch(command_glob("git status *"), text)
    }
    assert matches == {"git status", "git status -s"}
    assert re.fullmatch(command_glob("git status*"), "git statusx") and re.fullmatch(command_glob("*"), "anything at all")
    assert not re.fullmatch(command_glob("a.b [c]"), "axb c") and re.fullmatch(command_glob("a.b [c]"), "a.b [c]")


def test_many_stars_take_no_time_without_end() -> None:
    for pattern in ("*x*x*y", "*x*x*x*x*y", "git *x*x*x*x*x*y *"):
        assert not re.fullmatch(command_glob(pattern), "x" * 20_000)
    assert re.fullmatch(command_glob("*a*ab*b"), "xaabb") and not re.fullmatch(command_glob("*ab*ab"), "xab")


@examples(150)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=6), min_size=1, max_size=4)
)
def test_words_that_are_quoted_are_found_as_they_are(words: list[str]) -> None:
    parts = parts_of(f"true; rm {shlex.join(words)}")
    assert not parts.is_whole or "rm " + " ".join(words) in parts.texts


@examples(150)
@given(st.text(max_size=30))
def test_any_text_is_taken_apart_without_an_error(command: str) -> None:
    parts_of(command)
    pattern = offered_pattern(command)
    assert not pattern or (is_simple(command) and re.fullmatch(command_glob(pattern), command.strip()))
