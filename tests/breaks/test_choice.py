"""Choice of the rules that a landing and a night break, and their order."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest
from choice import DANGER, DRAWN_PER_NIGHT, LastRuns, by_danger, of_files, of_night, read_last_runs, room_of
from entries import Break, read_breaks

ROOT = Path(__file__).resolve().parents[2]
TODAY = date(2030, 5, 17)


def broken(rule: str, file: str = "agentnb/core/view.py", *, survived: bool = False) -> Break:
    return Break(rule, file, "old", "new", ("tests/core",), survived)


def rules(breaks: list[Break]) -> list[str]:
    return [row.rule for row in breaks]


def test_order_is_by_room_and_survivors_first() -> None:
    rows = [
        broken("cards", "agentnb/display/card/page.py", survived=True),
        broken("core"),
        broken("core, survived", survived=True),
        broken("policies", "agentnb/policies/ending.py"),
        broken("tools", "agentnb/tools/tool.py"),
    ]
    assert rules(by_danger(rows)) == ["tools", "policies", "core, survived", "core", "cards"]


def test_rules_of_changed_files_are_chosen_in_order_of_danger() -> None:
    rows = [broken("core"), broken("tools", "agentnb/tools/tool.py"), broken("errors", "agentnb/errors.py")]
    assert rules(of_files(rows, {"agentnb/core/view.py", "agentnb/tools/tool.py", "README.md"})) == ["tools", "core"]


def test_a_night_draws_by_its_date() -> None:
    rows = [broken(f"rule {number}") for number in range(200)]
    tonight, again = (of_night(rows, LastRuns(TODAY), TODAY) for _ in range(2))
    assert tonight == again
    assert len(set(tonight)) == DRAWN_PER_NIGHT
    assert set(tonight) != set(of_night(rows, LastRuns(TODAY), TODAY + timedelta(days=1)))


def test_rules_not_tried_for_two_weeks_are_tried_besides_the_drawn() -> None:
    rows = [broken(f"rule {number}") for number in range(200)]
    drawn = set(of_night(rows, LastRuns(TODAY), TODAY))
    left = [row for row in rows if row not in drawn]
    days = {row.rule: TODAY - timedelta(days=14) for row in rows} | {left[0].rule: TODAY - timedelta(days=15)}
    assert set(of_night(rows, LastRuns(TODAY, days), TODAY)) == drawn | {left[0]}


def test_a_rule_never_tried_counts_from_the_first_night() -> None:
    row = broken("new")
    assert LastRuns(TODAY).overdue([row], TODAY + timedelta(days=14)) == []
    assert LastRuns(TODAY).overdue([row], TODAY + timedelta(days=15)) == [row]


def test_days_of_last_runs_are_kept(tmp_path: Path) -> None:
    last = LastRuns(TODAY - timedelta(days=3), {"rule": TODAY})
    last.write(tmp_path / "days.json")
    assert read_last_runs(tmp_path / "days.json", TODAY) == last


def test_damaged_days_of_last_runs_are_begun_anew(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path = tmp_path / "days.json"
    for content in ["{", "[]", "{}", '{"began": "2030-05-17", "days": {"rule": "yesterday"}}', '{"began": 1, "days": {}}']:
        with subtests.test(content):
            path.write_text(content)
            assert read_last_runs(path, TODAY) == LastRuns(TODAY)


def test_every_entry_applies_to_the_tree() -> None:
    assert [f"{row.rule}: {problem}" for row in read_breaks() if (problem := row.problem(ROOT))] == []


def test_entries_are_few_and_spread_over_all_rooms() -> None:
    counts = Counter(room_of(row.file) for row in read_breaks())
    rooms = {path.parent.name for path in (ROOT / "agentnb").glob("*/__init__.py")}
    without_rules = {"examples", "traces"}  # data; moved names
    assert counts.total() <= 250
    assert {room for room in ("tools", "policies", "session", "runtime") if counts[room] < 15} == set()
    assert rooms - without_rules - set(counts) == set()
    assert set(DANGER) <= rooms
