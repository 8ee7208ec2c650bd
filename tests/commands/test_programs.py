"""The table of programs: each row has a source, and no option that starts a program or writes is within a star."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from agentnb.commands import programs
from agentnb.commands.command_patterns import covers
from agentnb.commands.programs import OperandKind, ProgramForm, names_of_forms, program_forms, program_name
from agentnb.commands.shell_command import shell_command

sys.path.insert(0, str(Path(__file__).resolve().parent))

import commands_page

ROWS = tomllib.loads(Path(programs.__file__).with_name("programs.toml").read_text(encoding="utf-8"))
KEYS = {"source", "like", "options", "starts", "writes", "words", "stops", "operands", "skip", "ends", "commands", "finals"}
KEYS |= {"bundled", "signs", "harmless", "modules", "offered"}


def test_each_program_row_has_a_source_and_known_keys(subtests: pytest.Subtests) -> None:
    names = [name for row in ROWS for name in row.split(", ")]
    assert len(names) == len(set(names)) and len(names) > 400
    for name, row in ROWS.items():
        with subtests.test(name):
            assert row["source"] and set(row) <= KEYS and row.get("operands", "") in get_args(OperandKind)
            assert row.get("like", "git") in program_forms()


def dangerous_words() -> Iterator[tuple[ProgramForm, str, str]]:
    """Yield each spelling of each option that starts a program or names a file, with a value."""
    for form in program_forms().values():
        for name, value in (*form.starts, *form.writes):
            example = shlex.quote(value.replace("*", "a:%G%output") or "x")
            for spelling in {name, *(one for one, spec in form.options.items() if spec.name == name)}:
                yield form, spelling, example


def test_star_excludes_options_that_start_commands_or_write() -> None:
    within = []
    for form, spelling, value in dangerous_words():
        attached = f"{spelling}={value}" if spelling.startswith("--") or form.has_words else f"{spelling}{value}"
        separate = attached if form.spec(spelling).may_attach else f"{spelling} {value}"
        for words in (separate, attached, f"a {attached}" if not (form.stops or form.skip) else attached):
            part = shell_command(f"{form.name} {words}").parts[0]
            if covers(f"{form.name} *", part) or covers(f"{form.name.partition(' ')[0]} *", part):
                within.append(part.text)
    assert within == []


def test_star_excludes_abbreviated_dangerous_options() -> None:
    within = []
    for form, spelling, value in dangerous_words():
        if spelling.startswith("--") and not form.has_words and len(spelling) > 4:
            is_another = spelling[:-1] in form.options
            part = shell_command(f"{form.name} {spelling[:-1]}={value}").parts[0]
            within += [part.text] if covers(f"{form.name} *", part) and not is_another else []
    assert within == []


def test_program_name_excludes_folder_and_version() -> None:
    names = {"/usr/bin/python3.12": "python", "sqlite3": "sqlite3", "pip3": "pip", "./mine": "mine", "i386": "i386"}
    names |= {"/lib64/ld-linux-x86-64.so.2": "ld.so", "ld-musl-x86_64.so.1": "ld.so", "base64": "base64", "sha1sum": "sha1sum"}
    assert {word: program_name(word) for word in names} == names


def test_harmless_programs_start_nothing_through_operands() -> None:
    looked_through = {"command", "shell", "trap", ""}
    kinds = {form.operands for form in program_forms().values() if form.harmless is True}
    assert kinds <= looked_through | {"written", "last", "output", "sed", "awk", "names", "none"}
    assert {"git", "docker", "uv tool"} <= names_of_forms()


def test_commands_page_is_generated_from_the_table() -> None:
    assert commands_page.PAGE.read_text(encoding="utf-8") == commands_page.text(), "Run python tests/commands/commands_page.py"


def test_most_ordinary_commands_run_unasked_and_all_are_readable() -> None:
    rows = commands_page.PAGE.read_text(encoding="utf-8").partition("## Ordinary commands")[2]
    assert rows.count("\n| `") < 40 and "cannot be taken apart" not in rows
