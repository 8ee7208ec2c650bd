"""Processes killed during a run or its recovery: no reported event is lost, nothing happens twice."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cut_runs import assert_whole, cut
from fork_server import ForkServer
from killed_recoveries import Rival, recoveries
from killed_runs import EFFECTS, LOADS, MOMENTS, Fault, Following, Outcome, faults_at, happens, run_in, tools_in
from property_settings import AT_NIGHT, size

from agentnb import Run, Store, load_trace, recover
from agentnb.core.log import events as e
from agentnb.core.run.rounds import INTERRUPTED
from agentnb.errors import StoreError, TraceError
from agentnb.store.store import load_file

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
"""At night processes die after every event; by day at every second moment of each kind (logs that are cut meet every event)."""
DIED_AT = 15
"""An event in the middle of the round that has many calls."""
WANTED = {
    e.RunStarted,
    e.RoundStarted,
    e.GuidanceGiven,
    e.RetryScheduled,
    e.CompactionStarted,
    e.ContextCompacted,
    e.ModelReplied,
    e.ToolStarted,
    e.ToolFinished,
    e.CallBlocked,
    e.TodosChanged,
    e.QuestionAsked,
    e.QuestionAnswered,
    e.RoundFinished,
    e.CommandReceived,
    e.Warned,
    e.RunFinished,
}
"""Event kinds of a completed run. Others end at a limit, in a loop, or with an error."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run without a fault."""
    return run_in(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(*LOADS) as one:
        yield one


@pytest.fixture(scope="module")
def outcomes(whole: Run, server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Outcomes of killed processes. Tests that recover a run copy its folder."""
    faults = faults_at(whole.events, every=AT_NIGHT)[:: size(2, nightly=1)]
    return happens(server, faults, tmp_path_factory.mktemp("killed"))


def test_run_used_for_kill_tests_has_every_event_kind(whole: Run) -> None:
    assert {type(event) for event in whole.events} == WANTED and whole.status == "completed"
    assert max(len(round.calls) for round in whole.rounds) >= 5
    assert {bool(event.problem) for event in whole.events if isinstance(event, e.ContextCompacted)} == {True, False}


@pytest.mark.slow("starts the process that all killed runs are forked from")
def test_kill_tests_cover_every_moment_of_each_event(whole: Run, outcomes: list[Outcome]) -> None:
    assert {outcome.signal for outcome in outcomes} == {signal.SIGKILL}
    met = {(type(whole.events[outcome.fault.seq]), outcome.fault.moment) for outcome in outcomes}
    assert {kind for kind, _ in met} == WANTED and {moment for _, moment in met} == {*MOMENTS}
    if AT_NIGHT:
        assert met == {(kind, moment) for kind in WANTED for moment in MOMENTS}
        assert {outcome.fault.seq for outcome in outcomes if outcome.fault.moment == "after"} == set(range(len(whole.events)))


def test_reported_events_survive_every_kill(whole: Run, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        at, moment = outcome.fault.seq, outcome.fault.moment
        reported = at + 1 if moment == "told" else at
        written = at + 1 if moment in ("after", "told") else at
        assert outcome.told == list(range(reported)), outcome.fault
        if written == 0:
            assert moment in ("before", "in") and not outcome.told
            with pytest.raises(TraceError, match=r"contains no complete event.*nothing is lost"):
                load_file(outcome.path)
            continue
        run = load_file(outcome.path)
        assert len(run.events) == written, outcome.fault
        assert [type(event) for event in run.events] == [type(event) for event in whole.events[:written]]


def test_killed_run_is_interrupted_unless_it_had_ended(outcomes: list[Outcome]) -> None:
    seen = Counter()
    for outcome in outcomes:
        shown = [(line.status, line.stop_reason) for line in Store(outcome.folder).summaries()]
        if outcome.fault.seq == 0 and outcome.fault.moment in ("before", "in"):
            assert shown == []
            continue
        run = Store(outcome.folder).load(outcome.path.stem)
        ended = isinstance(run.events[-1], e.RunFinished)
        expected = ("completed", "natural") if ended else ("interrupted", "interrupted")
        assert shown == [(run.status, run.stop_reason)] == [expected], outcome.fault
        seen[run.status] += 1
    assert seen["interrupted"] > size(25, nightly=50) and seen["completed"] >= size(1, nightly=2)


def test_tool_logged_as_finished_has_done_its_work(outcomes: list[Outcome]) -> None:
    """The log never reports more than the tools did, so recovery repeats no finished call."""
    for outcome in outcomes:
        if outcome.path.stat().st_size and outcome.told:
            ended = [r.text for a in load_file(outcome.path).rounds for r in a.results if r.text.startswith("done: ")]
            assert Counter(text.removeprefix("done: ").partition("\n")[0] for text in ended) <= Counter(outcome.effects)


def recovered_run(path: Path) -> Run:
    return asyncio.run(recover(path, tools=tools_in(path.parent), model=Following()))


def effects(path: Path) -> list[str]:
    place = path.parent / EFFECTS
    return place.read_text(encoding="utf-8").splitlines() if place.exists() else []


def assert_done_once(run: Run, path: Path) -> None:
    """Check that no tool worked twice, and that each finished call did its work."""
    done = Counter(effects(path))
    assert set(done.values()) <= {1}
    results = [result for round in run.rounds for result in round.results]
    reported = Counter(result.text.partition("\n")[0].removeprefix("done: ") for result in results if "done: " in result.text)
    assert reported <= done
    cut_off = [result for result in results if result.error_code == INTERRUPTED]
    assert sum((done - reported).values()) <= len(cut_off)  # it did its work and died before reporting it


@pytest.mark.req("KX.11")
def test_killed_run_resumes_without_repeating_tool_work(whole: Run, outcomes: list[Outcome], tmp_path: Path) -> None:
    last = len(whole.events) - 1
    for outcome in outcomes:
        written = outcome.fault.seq + (outcome.fault.moment in ("after", "told"))
        if not 0 < written <= last:
            continue  # no run before the first event; nothing to do after the last
        path = Path(shutil.copytree(outcome.folder, tmp_path / outcome.folder.name)) / outcome.path.name
        died = load_trace(path)
        assert died.status == "interrupted" and outcome.told == [event.seq for event in died.events][: len(outcome.told)], (
            outcome.fault
        )
        run = recovered_run(path)
        assert run.status == "completed", outcome.fault
        assert_whole(path, run, died.events)
        assert_done_once(run, path)


def test_conversation_continues_after_a_killed_run(outcomes: list[Outcome], tmp_path: Path) -> None:
    for outcome in outcomes[3::9]:
        before = load_file(outcome.path)
        folder = Path(shutil.copytree(outcome.folder, tmp_path / outcome.folder.name))
        again = run_in(folder, prompt="And now?", continue_from=before)
        # A finished script repeats its last reply, with the list still open.
        assert again.status in ("completed", "stopped") and again.error is None and again.continued_from == before.id
        assert all(len(round.results) == len(round.calls) for round in again.rounds)
        assert Store(folder).load(again.id) == again


def interrupted_copy(whole: Run, folder: Path, count: int) -> Path:
    """Write the interrupted log of the run, and its tools' effects so far."""
    path = cut(whole.events[:count], folder)
    died = load_trace(path)
    said = [result.text for round in died.rounds for record in round.records if (result := record.result) is not None]
    done = [text.partition("\n")[0].removeprefix("done: ") for text in said if text.startswith("done: ")]
    (folder / EFFECTS).write_text("".join(f"{one}\n" for one in done), encoding="utf-8")
    return path


@pytest.mark.slow("dozens of processes that die, and as many runs recovered")
def test_recovery_can_be_killed_at_any_event(whole: Run, server: ForkServer, tmp_path: Path) -> None:
    template = interrupted_copy(whole, tmp_path / "template", DIED_AT)
    ((reported, ended_by, said),) = recoveries(server, [(template, Fault("never"))])
    assert (ended_by, said) == (0, "") and load_trace(template).status == "completed"
    *events, _ = load_trace(template).events
    logs = []
    for number, fault in enumerate(faults_at(events, DIED_AT, every=AT_NIGHT)[:: size(3, nightly=1)]):
        logs.append((interrupted_copy(whole, tmp_path / str(number), DIED_AT), fault))
    for (path, fault), (reported, ended_by, _) in zip(logs, recoveries(server, logs), strict=True):
        assert ended_by == signal.SIGKILL, fault
        died = load_trace(path)
        assert reported == [event.seq for event in died.events][: len(reported)]
        run = recovered_run(path)
        assert run.status == "completed", fault
        assert_whole(path, run, died.events)
        assert_done_once(run, path)
        assert run.times_recovered == 1 + sum(isinstance(event, e.RunRecovered) for event in died.events)


def test_full_disk_during_recovery_loses_no_reported_event(whole: Run, server: ForkServer, tmp_path: Path) -> None:
    logs = []
    for number, seq in enumerate((*range(DIED_AT, DIED_AT + 12), DIED_AT + 20)[:: size(2, nightly=1)]):
        path = interrupted_copy(whole, tmp_path / str(seq), DIED_AT)
        logs.append((path, Fault("full", seq, 0.5 * (number % 2))))
    for (path, fault), (_, ended_by, said) in zip(logs, recoveries(server, logs), strict=True):
        assert ended_by == 0 and said.startswith("StoreError: The run log could not be written"), fault
        assert "free some disk space" in said
        died = load_trace(path)
        assert path.read_bytes().endswith(b"}\n") and len(died.events) == fault.seq and died.status == "interrupted"
        run = recovered_run(path)
        assert_whole(path, run, died.events)
        assert_done_once(run, path)


@pytest.fixture
def path(whole: Run, tmp_path: Path) -> Path:
    """The log of a run that has died."""
    return interrupted_copy(whole, tmp_path, DIED_AT)


@pytest.fixture
def rival(path: Path) -> Iterator[Callable[[], Rival]]:
    """Start a process that is ready to recover the run."""
    made: list[Rival] = []

    def make() -> Rival:
        made.append(Rival(path))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def test_exactly_one_of_two_recovering_processes_succeeds(whole: Run, path: Path, rival: Callable[[], Rival]) -> None:
    rivals = [rival(), rival()]
    for one in rivals:
        one.say()
    heard = [rival.hears() for rival in rivals]
    winner, loser = sorted(rivals, key=lambda one: heard[rivals.index(one)] != "asked")
    assert max(heard) == "asked"
    assert min(heard) == (
        f"StoreError: Run {whole.id} is running in another process. Stop it there first, or wait until it ends"
    )
    with pytest.raises(StoreError, match="is running in another process"):
        recovered_run(path)
    loser.end()
    assert winner.end() == "completed"
    assert_whole(path, load_trace(path), whole.events[:DIED_AT])
    assert load_trace(path).times_recovered == 1


@pytest.mark.nightly("by day one of two processes recovers")
def test_killed_recovery_frees_the_run_for_the_next(path: Path, rival: Callable[[], Rival]) -> None:
    first = rival()
    first.say()
    assert first.hears() == "asked"
    first.kill()
    died = load_trace(path)
    run = recovered_run(path)
    assert (run.status, run.times_recovered) == ("completed", 2)
    assert_whole(path, run, died.events)
