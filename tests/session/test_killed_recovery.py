"""Real processes that die: over the run, over going on with it, and beside each other."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cut_runs import assert_whole, cut
from killed_recoveries import Rival, recoveries
from killed_runs import EFFECTS, Fault, Following, faults_at, happens, run_in, tools_in

from agentnb import Run, load_trace, recover
from agentnb.core import events as e
from agentnb.core.rounds import INTERRUPTED
from agentnb.errors import StoreError

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
DIED_AT = 15
"""An event in the middle of the round that has many calls."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_in(tmp_path_factory.mktemp("whole"))


def gone_on_with(path: Path) -> Run:
    return asyncio.run(recover(path, tools=tools_in(path.parent), model=Following()))


def effects(path: Path) -> list[str]:
    place = path.parent / EFFECTS
    return place.read_text(encoding="utf-8").splitlines() if place.exists() else []


def assert_done_once(run: Run, path: Path) -> None:
    """No tool has done its work twice, each that was not cut off has done it, and each call has its one answer."""
    done = Counter(effects(path))
    assert set(done.values()) <= {1}
    results = [result for one in run.rounds for result in one.results]
    told = Counter(result.text.partition("\n")[0].removeprefix("done: ") for result in results if "done: " in result.text)
    assert told <= done
    cut_off = [result for result in results if result.error_code == INTERRUPTED]
    assert sum((done - told).values()) <= len(cut_off)  # it did its work, and died before it could say so


@pytest.mark.req("KX.11")
def test_a_run_that_was_killed_in_any_event_is_gone_on_with_and_no_tool_does_its_work_twice(whole: Run, tmp_path: Path) -> None:
    last = len(whole.events) - 1
    faults = [fault for fault in faults_at(whole.events) if 0 < fault.seq < last]
    faults += [Fault("after", 0), Fault("told", 0)]  # before that there is no run
    faults += [Fault("before", last), Fault("in", last)]  # of what is over nothing is left to do
    outcomes = happens(faults, tmp_path / "killed")
    assert {len(load_trace(one.path).events) for one in outcomes} == set(range(1, last + 1))
    for one in outcomes:
        died = load_trace(one.path)
        assert died.status == "interrupted" and one.told == [event.seq for event in died.events][: len(one.told)], one.fault
        run = gone_on_with(one.path)
        assert run.status == "completed", one.fault
        assert_whole(one.path, run, died.events)
        assert_done_once(run, one.path)


def begun_again(whole: Run, folder: Path, count: int) -> Path:
    """The log of the run, cut off, and what its tools had done by then."""
    path = cut(whole.events[:count], folder)
    died = load_trace(path)
    said = [result.text for one in died.rounds for record in one.records if (result := record.result) is not None]
    done = [text.partition("\n")[0].removeprefix("done: ") for text in said if text.startswith("done: ")]
    (folder / EFFECTS).write_text("".join(f"{one}\n" for one in done), encoding="utf-8")
    return path


def test_who_goes_on_may_die_in_any_event_too(whole: Run, tmp_path: Path) -> None:
    template = begun_again(whole, tmp_path / "template", DIED_AT)
    ((told, ended_by, said),) = recoveries([(template, Fault("never"))])
    assert (ended_by, said) == (0, "") and load_trace(template).status == "completed"
    *events, _ = load_trace(template).events
    logs = []
    for number, fault in enumerate(faults_at(events, DIED_AT)):
        logs.append((begun_again(whole, tmp_path / str(number), DIED_AT), fault))
    for (path, fault), (told, ended_by, _) in zip(logs, recoveries(logs), strict=True):
        assert ended_by == signal.SIGKILL, fault
        died = load_trace(path)
        assert told == [event.seq for event in died.events][: len(told)]
        run = gone_on_with(path)
        assert run.status == "completed", fault
        assert_whole(path, run, died.events)
        assert_done_once(run, path)
        assert run.times_recovered == 1 + sum(isinstance(event, e.RunRecovered) for event in died.events)


def test_a_disk_that_is_full_when_a_run_is_gone_on_with_costs_nothing_that_was_told(whole: Run, tmp_path: Path) -> None:
    logs = []
    for number, seq in enumerate((*range(DIED_AT, DIED_AT + 12), DIED_AT + 20)):
        path = begun_again(whole, tmp_path / str(seq), DIED_AT)
        logs.append((path, Fault("full", seq, 0.5 * (number % 2))))
    for (path, fault), (_, ended_by, said) in zip(logs, recoveries(logs), strict=True):
        assert ended_by == 0 and said.startswith("StoreError: The run log could not be written"), fault
        assert "see that the disk has room" in said
        died = load_trace(path)
        assert path.read_bytes().endswith(b"}\n") and len(died.events) == fault.seq and died.status == "interrupted"
        run = gone_on_with(path)
        assert_whole(path, run, died.events)
        assert_done_once(run, path)


@pytest.fixture
def path(whole: Run, tmp_path: Path) -> Path:
    """The log of a run that has died."""
    return begun_again(whole, tmp_path, DIED_AT)


@pytest.fixture
def rivals(path: Path) -> Iterator[list[Rival]]:
    """Processes that are about to go on with it."""
    both = [Rival(path), Rival(path)]
    yield both
    for one in both:
        one.kill()


def test_of_two_processes_that_go_on_with_one_run_exactly_one_does(whole: Run, path: Path, rivals: list[Rival]) -> None:
    for one in rivals:
        one.say()
    heard = [one.hears() for one in rivals]
    winner, loser = sorted(rivals, key=lambda one: heard[rivals.index(one)] != "asked")
    assert max(heard) == "asked"
    assert min(heard) == (
        f"StoreError: Run {whole.id} is going on in another process. Stop it there first, or wait for its end"
    )
    with pytest.raises(StoreError, match="is going on in another process"):
        gone_on_with(path)
    loser.end()
    assert winner.end() == "completed"
    assert_whole(path, load_trace(path), whole.events[:DIED_AT])
    assert load_trace(path).times_recovered == 1


def test_when_the_one_that_went_on_is_killed_the_next_may(path: Path, rivals: list[Rival]) -> None:
    first = rivals[0]
    first.say()
    assert first.hears() == "asked"
    first.kill()
    died = load_trace(path)
    run = gone_on_with(path)
    assert (run.status, run.times_recovered) == ("completed", 2)
    assert_whole(path, run, died.events)
