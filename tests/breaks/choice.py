"""Choice and order of breaks: by danger, by changed files, by lot."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random

from entries import Break

DANGER = (
    "tools",
    "policies",
    "session",
    "runtime",
    "core",
    "store",
    "agent",
    "models",
    "guidance",
    "context",
    "workflow",
)
"""Rooms, the most dangerous first; all others come behind them."""
DRAWN_PER_NIGHT = 60
MAX_AGE = timedelta(days=14)
"""A rule that no night has tried for longer is tried whether it is drawn or not."""


def room_of(file: str) -> str:
    """Return the room of a source file; the file's own name for a module between the rooms."""
    return file.removeprefix("agentnb/").partition("/")[0]


def by_danger(breaks: Iterable[Break]) -> list[Break]:
    """Sort by room, and within a room those first that survived once."""
    places = {room: place for place, room in enumerate(DANGER)}
    return sorted(breaks, key=lambda row: (places.get(room_of(row.file), len(DANGER)), not row.survived))


def of_files(breaks: Iterable[Break], changed: Collection[str]) -> list[Break]:
    """Return the breaks of changed files, in order of danger."""
    return by_danger(row for row in breaks if row.file in changed)


@dataclass
class LastRuns:
    """The day of each rule's last nightly run. A rule without a day counts from the day on which days were kept."""

    began: date
    days: dict[str, date] = field(default_factory=dict)

    def overdue(self, breaks: Iterable[Break], today: date) -> list[Break]:
        """Return the breaks not tried for two weeks."""
        return [row for row in breaks if today - self.days.get(row.rule, self.began) > MAX_AGE]

    def write(self, path: Path) -> None:
        """Write the days as JSON."""
        days = {rule: day.isoformat() for rule, day in sorted(self.days.items())}
        path.write_text(json.dumps({"began": self.began.isoformat(), "days": days}, indent=1) + "\n", encoding="utf-8")


def read_last_runs(path: Path, today: date) -> LastRuns:
    """Read the days; none, beginning today, if the file is missing or damaged."""
    try:
        content: Mapping[str, Mapping[str, str]] = json.loads(path.read_text(encoding="utf-8"))
        days = {rule: date.fromisoformat(day) for rule, day in content["days"].items()}
        return LastRuns(date.fromisoformat(str(content["began"])), days)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return LastRuns(today)


def of_night(breaks: Sequence[Break], last: LastRuns, today: date) -> list[Break]:
    """Return the breaks that the day draws and those overdue, in order of danger."""
    drawn = Random(today.isoformat()).sample(list(breaks), min(DRAWN_PER_NIGHT, len(breaks)))
    return by_danger(dict.fromkeys([*drawn, *last.overdue(breaks, today)]))
