"""Logs with arbitrary damage: each is a run that every table and form can show, or a precise `TraceError`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from generated_runs import BY_HAND, really_run
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples, size
from some_events import json_values, of_kind

from agentnb import Run, Store, load_trace, save_trace, tables
from agentnb.context.request_history import sent_requests
from agentnb.core.log import events as e
from agentnb.core.log.wire import encode
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.lists.history_list import history_html, history_text, run_list_html
from agentnb.errors import StoreError, TraceError
from agentnb.runtime.clock import seconds_taken
from agentnb.tables import NAMES as ALL_TABLES

OLDER = sorted((Path(__file__).parent / "older_logs").glob("*.jsonl"))
Lines = list[bytes]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Lines]:
    """Return sound logs: of older versions, and of this one with every kind of event of the loop."""
    store = Store(tmp_path_factory.mktemp("sound"))
    found = [path.read_bytes().splitlines(keepends=True) for path in OLDER]
    names = ("questions", "compacted, and recovered", "interventions", "a limit, after retries", "blocked beside planning")
    os.chdir(tmp_path_factory.mktemp("work"))  # the folder of the test before may be gone
    for name in names:
        found += [[encode(event) for event in run.events] for run in really_run(BY_HAND[name], store)]
    return found


# Mutations of a log

places = st.integers(0, 10_000)
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    10**30,
    1.5,
    1e300,
    "",
    "running",
    "\x00 \ud83d",
    [],
    {},
    [[]],
    {"": {}},
    "r-1",
    "c1",
]
odd_values = st.sampled_from(ODD) | json_values
some_event = st.one_of(*of_kind.values())


def paths_of(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths within a value: keys and indexes."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, inner in items for path in ((*before, key), *paths_of(inner, (*before, key)))]


def changed(line: bytes, place: int, change: Callable[[Any, Any], None]) -> bytes:
    """Return the line with one changed value: ``change(container, key)``."""
    data = json.loads(line)
    paths = paths_of(data)
    *outer, last = paths[place % len(paths)]
    inner = data
    for key in outer:
        inner = inner[key]
    change(inner, last)
    return json.dumps(data).encode() + b"\n"


def drop(lines: Lines, at: int, place: int, value: Any) -> None:
    del lines[at]


def double(lines: Lines, at: int, place: int, value: Any) -> None:
    lines.insert(at, lines[at])


def swap(lines: Lines, at: int, place: int, value: Any) -> None:
    other = place % len(lines)
    lines[at], lines[other] = lines[other], lines[at]


def swap_numbered(lines: Lines, at: int, place: int, value: Any) -> None:
    """Swap two events and renumber, so that only their order is wrong."""
    swap(lines, at, place, value)
    number(lines)


def drop_numbered(lines: Lines, at: int, place: int, value: Any) -> None:
    del lines[at]
    number(lines)


def double_numbered(lines: Lines, at: int, place: int, value: Any) -> None:
    lines.insert(at, lines[at])
    number(lines)


def number(lines: Lines) -> None:
    for seq, line in enumerate(lines):
        lines[seq] = json.dumps({**json.loads(line), "seq": seq}).encode() + b"\n"


def replaced(lines: Lines, at: int, place: int, value: Any) -> None:
    def put(inner: Any, key: Any) -> None:
        inner[key] = value

    lines[at] = changed(lines[at], place, put)


def removed(lines: Lines, at: int, place: int, value: Any) -> None:
    def remove(inner: Any, key: Any) -> None:
        del inner[key]

    lines[at] = changed(lines[at], place, remove)


def nested(lines: Lines, at: int, place: int, value: Any) -> None:
    depth = [50, 290, 400, 930, 3_000][place % 5]
    mark = '"here is deep"'

    def put(inner: Any, key: Any) -> None:
        inner[key] = "here is deep"

    lines[at] = changed(lines[at], place, put).replace(mark.encode(), b"[" * depth + b"]" * depth)


def added(lines: Lines, at: int, place: int, value: Any) -> None:
    """Replace an event by another of the same run."""
    first = json.loads(lines[0])
    event = {**json.loads(encode(value)), "run_id": first["run_id"]}
    event.pop("parent_id", None)
    lines.insert(at + 1, json.dumps(event).encode() + b"\n")
    number(lines)


def cut(lines: Lines, at: int, place: int, value: Any) -> None:
    del lines[at + 1 :]
    lines[at] = lines[at][: place % (len(lines[at]) + 1)]


def junk(lines: Lines, at: int, place: int, value: Any) -> None:
    lines.insert(at, [b"\n", b"\xff\xfe\n", b"{}\n", b"[1]\n", b"null\n", b'"x"\n', b"\x00" * 100 + b"\n"][place % 7])


CHANGES = st.one_of(
    *[
        st.tuples(st.just(change), places, places, st.none())
        for change in (drop, double, swap, swap_numbered, drop_numbered, double_numbered, removed, nested, cut, junk)
    ],
    *[st.tuples(st.just(replaced), places, places, odd_values)] * 4,
    *[st.tuples(st.just(added), places, places, some_event)] * 2,
)


def damaged(lines: Lines, changes: list[Any]) -> bytes:
    lines = list(lines)
    for change, at, place, value in changes:
        if lines:
            try:
                change(lines, at % len(lines), place, value)
            except (ValueError, TypeError, AttributeError, UnicodeError, IndexError, ZeroDivisionError, RecursionError):
                continue  # the line is already damaged
    return b"".join(lines)


def check_shown(run: Run, store: Store) -> None:
    """Check that everything that shows a run can show this one, apart from tables."""
    listed = store.summaries()
    forms = [run_html(run), page_html(run), run_text(run), compact_html(run), running_html(run), run_list_html(listed)]
    forms += [history_text(listed, "1 run"), history_html(listed, "1 run", lambda _: compact_html(run))]
    card = LiveCard()
    for event in run.events:
        card.take(event)
    card.whole()
    assert all(forms) and len(list(sent_requests(run))) == len(run.rounds)
    assert seconds_taken(run.events) < float("inf")
    again = load_trace(save_trace(run, store.folder / "again.jsonl"))
    assert (again.events, again.rounds, again.messages) == (run.events, run.rounds, run.messages)


@pytest.mark.slow("cards, pages and, by day a third of, the tables of damaged logs")
@examples(120)
@given(places, st.lists(CHANGES, max_size=3))
def test_damaged_log_is_shown_or_reported_as_damaged(logs: list[Lines], which: int, changes: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        store = Store(folder)
        path = store.path("r")
        path.write_bytes(damaged(logs[which % len(logs)], changes))
        listed = store.summaries()
        assert len(listed) <= 1
        try:
            run = load_trace(path)
        except (TraceError, StoreError) as error:
            assert str(path) in str(error)
            return
        check_shown(run, store)
        every = size(3, nightly=1)
        for name in ALL_TABLES[len(run.events) % every :: every]:
            getattr(tables, name)(run)


def test_valid_logs_can_be_shown_as_runs(logs: list[Lines], subtests: pytest.Subtests, tmp_path: Path) -> None:
    runs: list[Run] = []
    for place, lines in enumerate(logs):
        with subtests.test(place=place):
            store = Store(tmp_path / str(place))
            store.folder.mkdir()
            store.path("r").write_bytes(b"".join(lines))
            check_shown(run := store.load("r"), store)
            runs.append(run)
    for name in ALL_TABLES:
        with subtests.test(table=name):
            getattr(tables, name)(runs)
    kinds = {json.loads(line)["kind"] for lines in logs for line in lines}
    assert len(kinds) > 15 and e.SCHEMA in {json.loads(lines[0])["schema"] for lines in logs}


def test_wait_of_any_length_can_be_shown(logs: list[Lines], tmp_path: Path, subtests: pytest.Subtests) -> None:
    for seconds in (0.0, 1e300):
        for log in logs[:: size(2, nightly=1)]:
            lines = log.copy()
            for at, line in enumerate(log):
                data = json.loads(line)
                if data["kind"] in ("retry_scheduled", "round_finished"):
                    lines[at] = json.dumps({**data, "seconds": seconds}).encode() + b"\n"
                if data["kind"] == "retry_scheduled":
                    with subtests.test(seconds=seconds), TemporaryDirectory() as folder:
                        Store(folder).path("r").write_bytes(b"".join(lines[: at + 1]))
                        check_shown(Store(folder).load("r"), Store(folder))
