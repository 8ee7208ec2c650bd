"""The reader of commands: calls, files, and commands that need a person."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from disguised_commands import DISGUISED_COMMANDS

from agentnb.commands.reader import read_script
from agentnb.commands.shell_script import SimpleCommand

NAMED = {
    "true&2>/dev/null touch X": ["true", "touch X >/dev/null"],
    ">x\recho touch X": ["touch X >x\recho"],
    "2>&- ls <&-cat": ["ls cat >& <&"],
    "1>&2 {n}>a b &>>c": ["b >& >a &>>c"],
    "A=1 B= ls C=2": ["ls C=2"],
    "cat <<E | sh\n$(rm x)\nE\nls": ["cat <<", "sh", "rm x", "ls"],
    "cat <<-'E'\n\t$(rm x)\n\tE": ["cat <<-"],
    "case $x in (a|b) ls;; esac; case in in in) rm; esac": ["ls", "rm"],
    "if a; then b; elif c; then d; else e; fi >f": ["a", "b", "c", "d", "e", " >f"],
    "for i in 1 2; do a; done; for ((;;)); do b; done; select x in y; { c; }": ["a", "b", "c"],
    "while a; do b; done; until c\ndo d\ndone": ["a", "b", "c", "d"],
    "f() { a; }; function g () ( b ); f": ["a", "b", "f"],
    "[[ -f x && ( $y == z* || ! a < b ) ]] && ls": ["ls"],
    "coproc a b; time -p c; ! d": ["a b", "c", "d"],
    "eval 'a; b'; trap 'c' EXIT; command d; exec -a x e": [
        "eval a; b",
        "a",
        "b",
        "trap c EXIT",
        "c",
        "command d",
        "d",
        "exec -a x e",
        "e",
    ],
    'a `b \\`c\\`` "$(d)" <(e) ${x:-$(f)} $((1+2))': ["c", "b ?", "d", "e", "f", "a ? ? ? ? ?"],
    "a=(1 $(b)); export x=$y": ["b", "", "export ?"],
    "# a\n\nb # c\n": ["b"],
}
PROBLEMS = (
    *(
        "$x y",
        "r? x",
        "~/x",
        "'a",
        '"a',
        "`a",
        "$(a",
        "a)",
        "(a",
        "{ a",
        "if a",
        "a &&",
        "; a",
        "a ;; b",
        "cat <<E\na",
        "cat <<E $(a\nb)\nc\nE",
        "a\0",
        "a\x01",
    ),
    *(
        "echo a\u00a0b",
        "a | time b",
        "alias x=y",
        "set -o posix",
        "set -H",
        "set $x",
        "shopt -s extglob",
        "hash -p a b",
        "source $x",
        ". /dev/stdin",
        "eval $x",
    ),
    *(
        "trap $x EXIT",
        "declare -n x=y",
        "declare -i x=y",
        "BASH_ENV=x sh",
        "echo ${x@P}",
        "echo ${!x}",
        "echo $[1]",
        "read $x",
        "coproc N { a; }",
        "getopts a 'b[$(c)]'",
    ),
    *("( " * 30 + "a" + " )" * 30, "echo " + "$(" * 30 + "a" + ")" * 30, "eval " * 30 + "a", "command " * 30 + "a"),
)
HOSTILE = (
    "[",
    "{a,",
    "a[",
    "(",
    "$(",
    "`",
    "\\\n",
    "${x:-",
    "a;",
    "<<E ",
    "<<E\n",
    "x=(",
    "command ",
    "eval ",
    "'a'",
    "[ -v ",
    "$((1",
    "2>",
)


def shown(command: SimpleCommand) -> str:
    """Return a command on one line; a question mark for each computed word."""
    words = " ".join("?" if word.value is None else word.value for word in command.words)
    return words + "".join(f" {each.operator}{each.target.value if each.target else ''}" for each in command.redirections)


def test_calls_and_files_are_found_in_each_structure(subtests: pytest.Subtests) -> None:
    for text, expected in NAMED.items():
        with subtests.test(text):
            script = read_script(text)
            assert (script.problem, [shown(command) for command in script.commands]) == ("", expected)


def test_commands_of_uncertain_meaning_are_reported(subtests: pytest.Subtests) -> None:
    for text in PROBLEMS:
        with subtests.test(text[:40]):
            assert read_script(text).problem


def test_only_plain_consecutive_commands_are_a_list(subtests: pytest.Subtests) -> None:
    cases = {
        **dict.fromkeys(("a", "a && b || c; d | e\nf", "a >x 2>&1", "A=$x b $y *"), True),
        **dict.fromkeys(
            ("", "a &", "(a)", "! a", "a $(b)", "a `b`", "a <(b)", "f() { a; }", "eval a", "command a", "a 'b"), False
        ),
    }
    for text, expected in cases.items():
        with subtests.test(text):
            assert read_script(text).is_list is expected


def test_words_are_read_as_text_or_known_prefix(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[str | None, str, bool]] = {
        "'a'\"b\"\\c": ("abc", "abc", False),
        '"a$x"b': (None, "a", False),
        "a$x": (None, "", True),
        '"$@"': (None, "", True),
        "a*": (None, "a", True),
        "a{b,c}": (None, "a", True),
        "{}": ("{}", "{}", False),
        "HEAD@{1}": ("HEAD@{1}", "HEAD@{1}", False),
        "a=~": (None, "a=", False),
        "'*'\\?": ("*?", "*?", False),
        "$'a\\nb'": ("a\nb", "a\nb", False),
        '"\\a\\$"': ("\\a$", "\\a$", False),
        "a\\\nb": ("ab", "ab", False),
    }
    for text, expected in cases.items():
        with subtests.test(text):
            word = read_script(f"x {text}").commands[0].words[1]
            assert (word.value, word.prefix, word.may_split) == expected


def test_hostile_texts_are_read_in_linear_steps(subtests: pytest.Subtests) -> None:
    for text in HOSTILE:
        with subtests.test(text):
            assert calls_of(text * 600) < 2.5 * calls_of(text * 300) + 300


def calls_of(text: str) -> int:
    """Count the Python calls while a text is read."""
    count = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    read: Callable[[str], object] = read_script.__wrapped__
    sys.setprofile(counted)
    try:
        read(text)
    finally:
        sys.setprofile(None)
    return count


def test_commands_read_before_a_problem_are_kept() -> None:
    assert [shown(command) for command in read_script("rm x; echo 'a").commands] == ["rm x"]
    assert len({read_script(text).problem for text in DISGUISED_COMMANDS}) > 10
