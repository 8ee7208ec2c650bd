"""A disk that fills at any event: the run stops, is whole in memory, and its file ends with a whole event."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import ForkServer
from killed_runs import LOADS, Fault, Outcome, happens, run_in
from marked_logs import marked
from property_settings import AT_NIGHT, size

from agentnb import Agent, Run, Store, ToolCall, Workflow
from agentnb.core.log import events as e
from agentnb.core.log.wire import decode
from agentnb.errors import StoreError, TraceError
from agentnb.models.scripted import ScriptedModel
from agentnb.store.store import load_file

PARTS = (0, 1, 40)
"""Bytes of an event that fit on the disk."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run without a fault."""
    return run_in(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def outcomes(whole: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Leave space for some or no bytes of these events; the system refuses the rest."""
    dice = random.Random(7)
    faults = [Fault("full", seq, dice.choice((0.0, dice.random()))) for seq in filled_at(whole)]
    with ForkServer(*LOADS) as server:
        return happens(server, faults, tmp_path_factory.mktemp("full"))


def filled_at(whole: Run) -> list[int]:
    """Return the first event of every second kind and the last of all; at night of each kind, and every other event too."""
    last, first = len(whole.events) - 1, dict[type[e.Event], int]()
    for event in whole.events:
        first.setdefault(type(event), event.seq)
    return sorted({*([*first.values()][:: size(2, nightly=1)]), last, *(range(0, last, 2) if AT_NIGHT else ())})


needs_limits = pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of file sizes")


@needs_limits
def test_run_on_a_full_disk_stops_with_advice(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert "could not be written" in outcome.said and "File too large" in outcome.said, outcome.fault
        assert "free some disk space and run it again" in outcome.said and outcome.signal == 0


@needs_limits
def test_file_ends_with_the_last_complete_event(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.path.read_bytes() == marked(map(decode, outcome.memory[: outcome.fault.seq])), outcome.fault
        if outcome.fault.seq == 0:
            with pytest.raises(TraceError, match="nothing is lost"):
                load_file(outcome.path)
            continue
        run = load_file(outcome.path)
        assert len(run.events) == outcome.fault.seq and run.status == "interrupted"


@needs_limits
def test_run_in_memory_has_its_end_and_all_answers(whole: Run, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        run = Run.from_events([decode(line) for line in outcome.memory])
        assert isinstance(run.events[-1], e.RunFinished) and not run.should_continue
        kept = min(outcome.fault.seq + 1, len(whole.events) - 1)  # an unwritten end is not the run's
        assert [type(event) for event in run.events[:kept]] == [type(event) for event in whole.events[:kept]]
        assert all(len(each.results) == len(each.calls) for each in run.rounds), outcome.fault
        assert run.status == "failed" and run.error is not None and run.error.type == "StoreError"


@needs_limits
def test_watchers_get_all_events_including_the_unstored_end(
    outcomes: list[Outcome],
) -> None:
    for outcome in outcomes:
        assert outcome.told == list(range(len(outcome.memory))), outcome.fault


@needs_limits
def test_process_can_run_again_once_space_is_freed(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.again == "All is done."
        first, second = sorted(outcome.folder.glob("*.jsonl"))
        assert load_file(second).status == "completed" and first == outcome.path


# In this process, so that each moment can be seen


class Full:
    """A disk with space for ``part`` bytes from an event on; it records the events delivered until then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seq: int, part: int) -> None:
        self.told: list[int] = []
        self.told_at_failure: list[int] | None = None
        self._write, self._seq, self._part = os.write, seq, part
        monkeypatch.setattr("agentnb.store.run_file.os.write", self.write)

    def write(self, descriptor: int, data: Any) -> int:
        line = bytes(data)
        is_log = line.startswith(b'{"kind":') or self.told_at_failure is not None
        if is_log and self.told_at_failure is None and f'"seq":{self._seq},'.encode() in line[:80]:
            self.told_at_failure = list(self.told)
            if self._part:
                return self._write(descriptor, line[: self._part])
        if self.told_at_failure is not None and is_log:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(descriptor, data)

    def watch(self, item: Any) -> None:
        if isinstance(item, e.Event):
            self.told.append(item.seq)


def test_event_is_announced_only_after_its_write_attempt(whole: Run, tmp_path: Path) -> None:
    for seq in range(0, len(whole.events), size(2, nightly=1)):
        for part in PARTS if AT_NIGHT else PARTS[seq % len(PARTS) :][:1]:
            folder = tmp_path / f"{seq}-{part}"
            with pytest.MonkeyPatch.context() as patch:
                full = Full(patch, seq, part)
                with pytest.raises(StoreError, match="No space left on device") as caught:
                    run_in(folder, full.watch)
            run = caught.value.run
            assert run is not None and full.told_at_failure == list(range(seq))
            assert full.told == list(range(len(run.events)))
            (path,) = folder.glob("*.jsonl")
            assert path.read_bytes() == marked(run.events[:seq])


def test_conversation_can_continue_from_the_run_in_memory(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        full = Full(patch, 20, 30)
        with pytest.raises(StoreError) as caught:
            run_in(tmp_path / "a", full.watch)
    again = run_in(tmp_path / "b", prompt="And now?", continue_from=caught.value.run)
    assert again.status == "completed" and Store(tmp_path / "b").load(again.id) == again


@pytest.mark.skipif(os.name == "nt", reason="Windows does not let an open file be deleted")
@pytest.mark.parametrize("when", ["in the middle", "in the last round"])
def test_deleted_log_stops_the_run(when: str, tmp_path: Path) -> None:
    store, model = Store(tmp_path / "runs"), ScriptedModel([ToolCall("clean_up"), ToolCall("clean_up"), "Done."])

    def clean_up() -> str:
        """Delete what is in the way."""
        if len(model.requests) == (1 if when == "in the middle" else 2):
            shutil.rmtree(tmp_path / "runs")
        return "clean"

    with pytest.raises(StoreError, match="it was deleted") as caught:
        Agent(model, tools=[clean_up], todos=False).run_sync("go", store=store)
    run = caught.value.run
    assert run is not None and run.status == "failed"
    assert [record.result.text for round_ in run.rounds for record in round_.records if record.result] == ["clean"] * len(
        run.rounds
    )
    assert len(run.rounds) == len(model.requests) == (1 if when == "in the middle" else 2)
    again = Agent(ScriptedModel(["Well."])).run_sync("go", store=store)
    assert store.load(again.id).text == "Well."


def tools_of(runs: Path, done: list[str]) -> list[Callable[[], str]]:
    """Return a tool that deletes the logs, and one that notes that it ran."""

    def clean_up() -> str:
        """Delete what is in the way."""
        shutil.rmtree(runs)
        return "clean"

    def go_on() -> str:
        """Do more."""
        done.append("more")
        return "more"

    return [clean_up, go_on]


@pytest.mark.skipif(os.name == "nt", reason="Windows does not let an open file be deleted")
def test_no_later_call_of_a_round_runs_without_its_log(tmp_path: Path) -> None:
    done: list[str] = []
    tools = tools_of(tmp_path / "runs", done)
    model = ScriptedModel([[ToolCall("clean_up"), ToolCall("go_on")], "Done."])
    with pytest.raises(StoreError, match="it was deleted"):
        Agent(model, tools=tools, todos=False).run_sync("go", store=Store(tmp_path / "runs"))
    assert done == []


@pytest.mark.skipif(os.name == "nt", reason="Windows does not let an open file be deleted")
def test_workflow_fails_at_the_next_event_after_losing_its_log(tmp_path: Path, subtests: pytest.Subtests) -> None:
    done: list[str] = []
    tools = tools_of(tmp_path / "runs", done)
    before, after = "{id: a, type: tool, name: clean_up}", "{id: b, type: tool, name: go_on}"
    for name, steps, count in (("a later step", f"{before}, {after}", 0), ("no later step", f"{after}, {before}", 1)):
        with subtests.test(name):
            done.clear()
            with pytest.raises(StoreError, match="it was deleted") as caught:
                Workflow.from_yaml(f"workflow: [{steps}]", tools=tools).run_sync(store=Store(tmp_path / "runs"))
            run = caught.value.run
            assert isinstance(run, Run) and (run.status, len(done), (tmp_path / "runs").exists()) == ("failed", count, False)


@pytest.mark.skipif(os.name == "nt", reason="Windows does not let an open file be deleted")
def test_run_whose_end_cannot_be_written_fails(tmp_path: Path) -> None:
    def delete(item: object) -> None:
        if isinstance(item, e.RoundFinished):
            shutil.rmtree(tmp_path)

    with pytest.raises(StoreError, match="it was deleted") as caught:
        Agent(ScriptedModel(["Done."]), todos=False).run_sync("go", store=Store(tmp_path), watch=delete)
    run = caught.value.run
    assert isinstance(run, Run) and (run.status, run.text) == ("failed", "Done.")
