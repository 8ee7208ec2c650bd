"""The entries of ``rules.toml``: each applies to the tree, and they are few and spread over all rooms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from choice import DANGER, room_of
from entries import read_breaks

ROOT = Path(__file__).resolve().parents[2]


def test_every_break_applies_to_the_source_tree() -> None:
    assert [f"{row.rule}: {problem}" for row in read_breaks() if (problem := row.problem(ROOT))] == []


def test_breaks_are_few_and_spread_over_all_rooms() -> None:
    counts = Counter(room_of(row.file) for row in read_breaks())
    rooms = {path.parent.name for path in (ROOT / "agentnb").glob("*/__init__.py")}
    without_rules = {"examples", "traces"}  # data; moved names
    assert counts.total() <= 250
    assert {room for room in ("tools", "policies", "session", "runtime") if counts[room] < 15} == set()
    assert rooms - without_rules - set(counts) == set()
    assert set(DANGER) <= rooms
