"""docs/reference.md is current: it is generated from the code, and every row has a meaning."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path

from agentnb import Agent, RunOptions
from agentnb.cli.command_table import COMMANDS as SHELL_COMMANDS
from agentnb.detect import presets
from agentnb.models.options import EFFORTS, Options
from agentnb.notebook.commands import COMMANDS

sys.path.insert(0, str(Path(__file__).resolve().parent))

import default_tables
import reference_page

TEXT = reference_page.PAGE.read_text(encoding="utf-8")


def test_reference_page_is_generated_from_the_code() -> None:
    assert reference_page.text() == TEXT, "Run python tests/reference_page.py"


def test_tables_of_numbers_in_the_docs_match_the_defaults() -> None:
    assert default_tables.stale() == [], "Run python tests/default_tables.py"


def test_every_reference_row_has_a_meaning() -> None:
    rows: list[tuple[str, str]] = []
    at = 0
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if "meaning" in cells:
            at = cells.index("meaning")
        elif cells and line.startswith("| `"):
            rows.append((cells[0], cells[at]))
    assert len(rows) > 150 and [name for name, meaning in rows if len(meaning) < 5] == []


def test_reference_names_each_setting_option_command_and_preset() -> None:
    settings = {field.name for field in fields(Agent) if field.init} - {"limits_of_file"}
    of_models = {field.name for field in fields(Options)} - {"output_schema", "traits", "server"}
    named = {*re.findall(r"^\| `(\w+)` ", TEXT, re.MULTILINE)}
    assert {*settings, *of_models, *presets.names(), *(field.name for field in fields(RunOptions))} - named == set()
    assert [name for name in COMMANDS if f"`%agent {name}" not in TEXT] == []
    assert [name for name in SHELL_COMMANDS if f"### agentnb {name}\n" not in TEXT] == []


def test_reference_lists_every_effort_level() -> None:
    (row,) = [line for line in TEXT.splitlines() if line.startswith("| `effort`")]
    assert re.findall(r"`(\w+)`", row)[1:] == list(EFFORTS)
