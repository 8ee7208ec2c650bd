"""A process that is killed in the middle of a run, at any event, in any byte: nothing told is lost, nothing is there twice."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from killed_runs import MOMENTS, Outcome, faults_at, happens, run_in

from agentnb import Run, Store, load_trace
from agentnb.core import events as e
from agentnb.core.wire import encode
from agentnb.errors import TraceError
from agentnb.traces.store import load_file

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
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
"""What happens in a run that comes to its end by itself. Others end at a limit, in a loop, or with an error."""
CUTS = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run without a fault."""
    return run_in(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def outcomes(whole: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """A process killed right after each event, and at another moment of it, so that each kind of event meets each moment."""
    return happens(faults_at(whole.events), tmp_path_factory.mktemp("killed"))


def test_the_run_that_is_killed_has_each_kind_of_event_of_a_run_that_comes_to_its_end_by_itself(whole: Run) -> None:
    assert {type(event) for event in whole.events} == WANTED and whole.status == "completed"
    assert max(len(one.calls) for one in whole.rounds) >= 5
    assert {bool(event.problem) for event in whole.events if isinstance(event, e.ContextCompacted)} == {True, False}


def test_it_is_killed_after_each_of_its_events_and_at_each_moment_of_each_kind(whole: Run, outcomes: list[Outcome]) -> None:
    assert [one.fault.seq for one in outcomes if one.fault.moment == "after"] == list(range(len(whole.events)))
    met = {(type(whole.events[one.fault.seq]), one.fault.moment) for one in outcomes}
    assert met == {(kind, moment) for kind in WANTED for moment in MOMENTS}


def assert_nothing_twice(run: Run) -> None:
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    for kind, name in ((e.ToolStarted, "call.id"), (e.ToolFinished, "result.call_id"), (e.QuestionAsked, "question.id")):
        outer, inner = name.split(".")
        ids = [getattr(getattr(event, outer), inner) for event in run.events if isinstance(event, kind)]
        assert set(Counter(ids).values()) <= {1}


def test_nothing_that_was_told_is_lost_whenever_the_process_is_killed(whole: Run, outcomes: list[Outcome]) -> None:
    assert {one.signal for one in outcomes} == {signal.SIGKILL}
    for one in outcomes:
        at, moment = one.fault.seq, one.fault.moment
        told = at + 1 if moment == "told" else at
        kept = at + 1 if moment in ("after", "told") else at
        assert one.told == list(range(told)), one.fault
        if kept == 0:
            assert moment in ("before", "in") and not one.told
            with pytest.raises(TraceError, match=r"holds no whole event.*nothing is lost"):
                load_file(one.path)
            continue
        run = load_file(one.path)
        assert len(run.events) == kept, one.fault
        assert [type(event) for event in run.events] == [type(event) for event in whole.events[:kept]]
        assert_nothing_twice(run)


def test_a_run_whose_process_was_killed_is_shown_as_interrupted_unless_it_was_over(outcomes: list[Outcome]) -> None:
    seen = Counter()
    for one in outcomes:
        shown = [(line.status, line.stop_reason) for line in Store(one.folder).summaries()]
        if one.fault.seq == 0 and one.fault.moment in ("before", "in"):
            assert shown == []
            continue
        run = Store(one.folder).load(one.path.stem)
        ended = isinstance(run.events[-1], e.RunFinished)
        expected = ("completed", "natural") if ended else ("interrupted", "interrupted")
        assert shown == [(run.status, run.stop_reason)] == [expected], one.fault
        seen[run.status] += 1
    assert seen["interrupted"] > 50 and seen["completed"] >= 2


def test_a_tool_that_is_said_to_have_ended_has_done_its_work(outcomes: list[Outcome]) -> None:
    """What the log says of calls is never more than what they did: going on from it repeats none that ended."""
    for one in outcomes:
        if one.path.stat().st_size and one.told:
            ended = [r.text for a in load_file(one.path).rounds for r in a.results if r.text.startswith("done: ")]
            assert Counter(text.removeprefix("done: ").partition("\n")[0] for text in ended) <= Counter(one.effects)


def test_every_prefix_of_a_log_is_an_interrupted_run_of_its_events(whole: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for count in range(1, len(whole.events) + 1):
        path.write_bytes(b"".join(map(encode, whole.events[:count])))
        run = load_trace(path)
        assert run.events == whole.events[:count]
        assert run.status == ("completed" if count == len(whole.events) else "interrupted")
        assert Store(tmp_path).summaries()[0].status == run.status
        assert_nothing_twice(run)


def test_a_log_cut_at_random_bytes_holds_every_event_that_was_whole(whole: Run, tmp_path: Path) -> None:
    data = b"".join(map(encode, whole.events))
    ends = [sum(len(encode(event)) for event in whole.events[: count + 1]) for count in range(len(whole.events))]
    path, dice = tmp_path / "r.jsonl", random.Random(6)
    at_the_ends = [end + by for end in ends for by in (-2, -1, 0, 1) if end + by <= len(data)]
    for cut in at_the_ends + [dice.randrange(ends[0], len(data)) for _ in range(CUTS)]:
        path.write_bytes(data[:cut])
        # An event is whole when all its JSON is there; only the line end may be missing.
        count = sum(cut >= end - 1 for end in ends)
        if not count:
            with pytest.raises(TraceError, match="holds no whole event"):
                load_trace(path)
            continue
        run = load_trace(path)
        assert run.events == whole.events[:count], cut
        assert run.status == ("completed" if count == len(ends) else "interrupted")
        assert Store(tmp_path).summaries()[0].status == run.status


def test_an_interrupted_run_can_be_gone_on_with(outcomes: list[Outcome]) -> None:
    for one in outcomes[3::9]:
        before = load_file(one.path)
        again = run_in(one.folder, prompt="And now?", continue_from=before)
        # The script may have been at its end: then it says the same once more, with a list that is still open.
        assert again.status in ("completed", "stopped") and again.error is None and again.continued_from == before.id
        assert all(len(one.results) == len(one.calls) for one in again.rounds)
        assert Store(one.folder).load(again.id) == again
