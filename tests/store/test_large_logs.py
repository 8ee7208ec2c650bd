"""Large logs: everything written can be read, cut and marked where space was lacking."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Run, Store, ToolCall
from agentnb.core.log import event_bounds
from agentnb.core.log.event_bounds import cut_event
from agentnb.core.log.events import TodosChanged, ToolFinished
from agentnb.core.log.wire import encode
from agentnb.core.log.work_events import StepFinished
from agentnb.core.messages import Image, Text, ToolResult
from agentnb.core.todos import Todo
from agentnb.errors import TraceError
from agentnb.models.scripted import ScriptedModel
from agentnb.store import bounds
from agentnb.store import store as stores
from agentnb.store.atomic_files import save_log

MARK = "were omitted here"


def big(characters: int, kind: str = "text") -> Any:
    """Return much."""
    if kind == "list":
        return list(range(characters // 8))
    if kind == "shown":
        print("p" * characters)
        return "printed"
    return "ab" * (characters // 2)


def played(store: Store | None, *calls: ToolCall, **options: Any) -> Run:
    agent = Agent(ScriptedModel([*[[call] for call in calls], "Done."]), tools=[big], todos=False, instructions=False)
    return agent.run_sync("Go.", store=store, **options)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scale the bounds of logs to a thousandth."""
    monkeypatch.setattr(event_bounds, "MAX_EVENT_BYTES", 30_000)
    monkeypatch.setattr(event_bounds, "MAX_LOG_BYTES", 190_000)
    monkeypatch.setattr(stores, "MAX_HELD_BYTES", 200_000)
    monkeypatch.setattr(bounds, "MAX_HELD_BYTES", 200_000)
    monkeypatch.setattr(bounds, "MAX_LINE_BYTES", 2 * 200_000)
    yield


@pytest.mark.usefixtures("small")
def test_log_never_outgrows_the_readable_size(tmp_path: Path, subtests: pytest.Subtests) -> None:
    calls = [
        ToolCall("big", {"characters": 1_000_000}),
        *[ToolCall("big", {"characters": 45_000 + place}) for place in range(20)],
    ]
    for name, given in {"text": calls, "list": [ToolCall("big", {"characters": 400_000, "kind": "list"})] * 2}.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            run = played(store, *given)
            assert run.status == "completed"
            assert store.path(run.id).stat().st_size <= 200_000
            assert MARK in run.rounds[0].results[0].text
            assert MARK in str(run.messages), "the model reads the mark"
            assert store.load(run.id).events == run.events
            assert [(row.id, row.status, row.rounds) for row in store.summaries()] == [(run.id, "completed", len(given) + 1)]
    assert MARK not in str(played(None, calls[0]).messages), "a run in memory is whole"


@pytest.mark.usefixtures("small")
def test_oversized_log_of_an_earlier_version_is_read_truncated(tmp_path: Path) -> None:
    store, run = Store(tmp_path), played(None, *[ToolCall("big", {"characters": 100_000 + place}) for place in range(4)])
    path = save_log(run, store.path(run.id))
    assert path.stat().st_size > 400_000
    assert [row.status for row in store.summaries()] == ["completed"]
    loaded = store.load(run.id)
    assert [len(round_.results) for round_ in loaded.rounds] == [len(round_.results) for round_ in run.rounds]
    assert sum(len(encode(event)) for event in loaded.events) <= 200_000
    assert MARK in loaded.rounds[0].results[0].text


@pytest.mark.usefixtures("small")
def test_excessive_lines_and_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, run = Store(tmp_path), played(None, *[ToolCall("big", {"characters": 500_000})])
    save_log(run, store.path(run.id))
    with pytest.raises(TraceError, match="has a line longer than"):
        store.load(run.id)
    other = played(None, *[ToolCall("big", {"characters": 100_000 + place}) for place in range(3)])
    save_log(other, store.path(other.id))
    monkeypatch.setattr(bounds, "MAX_HELD_VALUES", 10)
    with pytest.raises(TraceError, match="JSON values"):
        store.load(other.id)


def test_commas_in_strings_are_not_counted_as_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNCOUNTED_BYTES", "SURELY_FEW_VALUES"):
        monkeypatch.setattr(bounds, name, 100)
    monkeypatch.setattr(bounds, "MAX_HELD_VALUES", 1_000)
    bounds.check_log(b'{"text":"' + rb"1,2\"," * 5_000 + b'"}', "it")
    with pytest.raises(TraceError, match="values"):
        bounds.check_log(b'{"list":[%s]}' % (b"1,2," * 5_000), "it")


def test_truncated_event_is_the_same_event_with_marks() -> None:
    text, image = Text("a" * 50_000 + "end"), Image("image/png", b"x" * 40_000)
    result = ToolResult("c", "big", (text, image, Text("short")), error_code="mine")
    event = ToolFinished(0, datetime(2026, 1, 1, tzinfo=UTC), "r-1", result=result)
    cut = cut_event(event, 10_000)
    assert isinstance(cut, ToolFinished) and len(encode(cut)) <= 10_000
    assert (cut.seq, cut.result.call_id, cut.result.error_code) == (event.seq, "c", "mine")
    first, second, third = [getattr(part, "text", "") for part in cut.result.parts]
    assert first.startswith("aaa") and first.endswith("end") and MARK in first and MARK.replace("were", "was") in second
    assert third == "short"


def test_lists_in_a_truncated_event_note_their_omissions() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    parts = cut_event(ToolFinished(0, at, "r-1", result=ToolResult("c", "big", (Text("part"),) * 5_000)), 10_000)
    assert isinstance(parts, ToolFinished) and MARK in parts.result.text and "items" in parts.result.text
    step = cut_event(StepFinished(0, at, "r-1", step="s", output={"rows": [*range(5_000)]}), 10_000)
    assert isinstance(step, StepFinished) and step.output["rows"][0] == 0 and MARK in step.output["rows"][-1]
    with pytest.raises(OSError, match="too large"):  # a mark would not be a todo
        cut_event(TodosChanged(0, at, "r-1", todos=(Todo(1, "short"),) * 5_000, by="model"), 10_000)


@pytest.mark.nightly("by day with small bounds")
@pytest.mark.slow("writes and reads logs of 200 MB")
def test_results_of_hundreds_of_megabytes_are_stored_and_loaded(tmp_path: Path) -> None:
    for sizes in ([210_000_000], [45_000_000 + place for place in range(5)]):
        store = Store(tmp_path / str(len(sizes)))
        run = played(store, *[ToolCall("big", {"characters": size}) for size in sizes])
        assert run.status == "completed"
        assert store.load(run.id).events == run.events
        assert [row.status for row in store.summaries()] == ["completed"]
