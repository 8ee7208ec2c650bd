"""The bar that a person sees while many files are read."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from run_builder import RunBuilder, a_round, called

from agentnb import Run, save_trace, tables
from agentnb.tables import reading_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


KernelStream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})


@pytest.mark.parametrize(
    ("stream", "many", "delay", "is_shown"),
    [
        (Terminal, 3, 0, True),
        (KernelStream, 3, 0, True),
        (io.StringIO, 3, 0, False),
        (Terminal, 4, 0, False),
        (Terminal, 3, 60, False),
    ],
    ids=["terminal", "notebook", "file", "few files", "soon done"],
)
def test_long_reading_shows_its_progress(
    stream: type[io.StringIO], many: int, delay: float, is_shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        story = RunBuilder("Look.", run_id=f"r-{number}").extend(*a_round(0, called("look", "c1")))
        save_trace(Run.from_events(story.events), tmp_path / f"r-{number}.jsonl")
    monkeypatch.setattr(reading_progress, "MANY", many)
    monkeypatch.setattr(reading_progress, "DELAY", delay)
    monkeypatch.setattr(sys, "stderr", shown := stream())
    for _ in range(2):
        assert len(tables.runs(tmp_path, cache=True)) == 3
    lines = shown.getvalue().splitlines()
    assert lines == [] if not is_shown else lines[-1].startswith("Reading 3 files: 100 %"), lines
    assert shown.getvalue().count("100 %") == is_shown, "nothing is read the second time"
