"""Programs and files that bash really uses for a command are named by the reader."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from bash_runs import BashRun, run_in_bash, unnamed
from disguised_commands import DISGUISED_COMMANDS
from ordinary_commands import ORDINARY_COMMANDS
from property_settings import AT_NIGHT, size
from shell_grammar import damaged, draw_command

from agentnb.commands.reader import read_script

BATCH = 500
SEED = date.today().toordinal() if AT_NIGHT else 49
MAX_UNREADABLE = 0.05


def batches(source: Iterator[str], count: int) -> Iterator[list[str]]:
    """Yield so many texts, in batches."""
    while count > 0 and (batch := list(islice(source, min(BATCH, count)))):
        count -= len(batch)
        yield batch


def assert_named(commands: Sequence[str], folder: Path, *, status: int = 0, is_alone: bool = False) -> list[BashRun]:
    """Run the commands and compare with the reader's result, where there is one."""
    try:
        runs = run_in_bash(commands, folder, status=status, is_alone=is_alone)
        for command, run in zip(commands, runs, strict=True):
            script = read_script(command)
            assert script.problem or not unnamed(script, run), f"seed {SEED}: {command!r}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return runs


@pytest.mark.slow("bash runs hundreds of commands, at night thousands")
def test_bash_runs_only_what_is_read_from_generated_commands(tmp_path: Path) -> None:
    random = Random(SEED)
    unreadable = total = 0
    for batch in batches(iter(lambda: draw_command(random), ""), size(250, nightly=140_000)):
        total += len(batch)
        unreadable += sum(bool(read_script(command).problem) for command in batch)
        assert_named(batch, tmp_path / "drawn")
    assert unreadable <= MAX_UNREADABLE * total


@pytest.mark.slow("bash runs hundreds of commands, at night thousands")
def test_bash_runs_only_what_is_read_from_damaged_commands(tmp_path: Path) -> None:
    random = Random(SEED)
    drawn = (command for command in iter(lambda: draw_command(random), "") if not re.search(r"while|until|\(\(", command))
    for batch in batches((damaged(random, command) for command in drawn), size(120, nightly=60_000)):
        assert_named(batch, tmp_path / "damaged", status=1)


def test_disguised_call_is_found_or_reported_as_a_problem(tmp_path: Path) -> None:
    runs = assert_named(DISGUISED_COMMANDS, tmp_path / "disguised", is_alone=True)
    assert sum(bool(run.calls) for run in runs) > 0.8 * len(runs)  # bash was seen to run them


def test_ordinary_commands_have_no_problem(subtests: pytest.Subtests) -> None:
    assert len(set(ORDINARY_COMMANDS)) == 100
    for command in ORDINARY_COMMANDS:
        with subtests.test(command):
            script = read_script(command)
            assert script.problem == ""
            assert script.commands


def test_calls_and_files_of_ordinary_commands_are_found(tmp_path: Path) -> None:
    local = [command for command in ORDINARY_COMMANDS if "/dev/" not in command and "while" not in command]
    assert_named(local, tmp_path / "ordinary")
