"""A fork repeats a run up to a round, and continues live from there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from recorded_runs import LOOK, foreign
from scripted_runs import do, scripted, think, work
from todo_calls import complete, start

from agentnb import Agent, Matrix, Run, RunOptions, Store, ToolCall, diff, fork, fork_sync, load_trace
from agentnb.core.log.events import Event, ForkedFrom
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel

DO_3 = ToolCall("work", {"n": 3})


def recorded() -> Run:
    return scripted(do(1), do(2), do(3), "Three are made.", tools=[work, think])[0]


def facts(run: Run, until: int) -> list[Any]:
    return [
        (round_.reason, round_.text, round_.calls, round_.results, round_.guidance, round_.status)
        for round_ in run.rounds[:until]
    ]


def test_fork_replays_earlier_rounds_and_continues_live(subtests: pytest.Subtests) -> None:
    run = recorded()
    for at_round in range(1, 6):
        with subtests.test(at_round=at_round):
            model = ScriptedModel(["I stop here."] if at_round < 5 else [])
            forked = fork_sync(run, at_round, model=model)
            assert facts(forked, at_round - 1) == facts(run, at_round - 1)
            assert len(forked.rounds) == min(at_round, 4)
            assert forked.text == ("I stop here." if at_round < 5 else "Three are made.")
            assert forked.forked_from == ForkedFrom(run.id, at_round - 1)
            assert forked.id != run.id and (forked.status, forked.stop_reason) == ("completed", "natural")
            assert [event.seq for event in forked.events] == [*range(len(forked.events))]
            assert {event.run_id for event in forked.events} == {forked.id}
            assert forked.times_recovered == 0
            if model.requests:
                (request,) = model.requests
                assert request.messages[0].text.startswith("Write three stories.")
                assert len(request.messages) == 2 * at_round - 1


def test_watcher_sees_a_fork_from_its_first_event() -> None:
    run = recorded()
    for begin in (fork_sync, lambda *args, **given: asyncio.run(fork(*args, **given))):
        seen: list[Any] = []
        forked = begin(run, 3, model=ScriptedModel(["I stop here."]), options=RunOptions(watch=seen.append))
        assert [item for item in seen if isinstance(item, Event)] == [*forked.events]


def test_diff_shows_where_a_fork_diverges(snapshot: Snapshot) -> None:
    run = recorded()
    forked = asyncio.run(fork(run, 3, model=ScriptedModel([do(9), "Done."]), tools=[work]))
    assert diff(run, forked).sentence == snapshot


def test_matching_calls_get_recorded_results_and_others_the_fallback() -> None:
    ran: list[int] = []

    def again(n: int = 0) -> str:
        """Does the work of one item."""
        ran.append(n)
        return f"made {n} anew"

    again.__name__ = "work"
    lines = [DO_3, do(7), do(1), "Done."]
    served = fork_sync(recorded(), 3, model=ScriptedModel(lines))
    assert [round_.results[0].text for round_ in served.rounds[2:5:2]] == ["made 3", "made 1"]
    refused = served.rounds[3].results[0]
    assert refused.is_error and refused.error_code == "not_recorded" and "cannot be run now" in refused.text
    live = fork_sync(recorded(), 3, model=ScriptedModel(lines), fallback=[again])
    assert [round_.results[0].text for round_ in live.rounds[2:5]] == ["made 3", "made 7 anew", "made 1"]
    assert ran == [7]
    own = fork_sync(recorded(), 3, model=ScriptedModel(lines), tools=[again])
    assert own.rounds[2].results[0].text == "made 3 anew"


def test_repeated_call_gets_its_results_in_order() -> None:
    counts = iter(range(9))

    def count() -> int:
        """Counts."""
        return next(counts)

    call = ToolCall("count", {})
    policy = Matrix(guard=None)
    run = Agent(ScriptedModel([call, call, call, "Done."]), tools=[count], policy=policy).run_sync("Count.")
    forked = fork_sync(run, 2, model=ScriptedModel([call, call, call, "Done."]))
    assert [round_.results[0].text for round_ in forked.rounds[:4]] == ["0", "1", "2", "2"]


@pytest.mark.req("R0.85")
def test_foreign_failure_can_be_forked_under_guidance_catching_it() -> None:
    run = load_trace("simple-fail")
    model = ScriptedModel([[start(5), complete(5)], "All five are told."])
    forked = fork_sync(run, 7, model=model)
    assert facts(forked, 5) == facts(run, 5)
    assert [given.cell for given in forked.rounds[6].guidance] == ["intervention", "todos_text"]
    assert "todo 5" in model.requests[0].messages[-1].text
    assert (forked.status, forked.stop_reason) == ("completed", "natural")
    assert {todo.status for todo in forked.todos} == {"completed"}
    assert forked.origin is None and run.forked_from is None


def test_fork_stopped_by_its_policy_adds_no_round() -> None:
    model = ScriptedModel([])
    forked = fork_sync(load_trace("complex-fails"), 4, model=model)
    assert (len(forked.rounds), forked.stop_reason, model.requests) == (3, "natural", [])
    on = fork_sync(load_trace("complex-fails"), 4, model=ScriptedModel(["[WORKFLOW_COMPLETE]"]), workflow_mode=True)
    assert (len(on.rounds), on.stop_reason) == (4, "workflow_complete")


def test_settings_passed_to_a_fork_replace_the_recorded_ones() -> None:
    forked = fork_sync(recorded(), 2, model=ScriptedModel([do(2), do(4)]), guidance="off", limits={"max_rounds": 3})
    assert (forked.stop_reason, forked.max_rounds) == ("max_rounds", 3)
    assert forked.settings["guidance"]["set"] == "off" and not forked.rounds[2].guidance


def test_fork_is_stored_completely_and_loads_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    forked = fork_sync(recorded(), 3, model=ScriptedModel(["Done."]), options=RunOptions(store=store))
    assert store.load(forked.id) == forked
    whole = fork_sync(recorded(), 1, model=ScriptedModel(["Done."]), options=RunOptions(store=store))
    assert store.load(whole.id) == whole


def test_user_messages_before_the_round_are_kept() -> None:
    run = foreign(LOOK, "A hat.", ("person", "And now?"), ToolCall("look", {"at": 2}), "A stone.")
    model = ScriptedModel(["Nothing."])
    forked = fork_sync(run, 3, model=model)
    assert model.requests[0].messages[-1].text.startswith("And now?")
    assert forked.rounds[2].reason == "said"


def test_impossible_fork_is_refused_with_its_reason(subtests: pytest.Subtests) -> None:
    run = recorded()
    cases: list[tuple[Run, int, dict[str, Any], str]] = [
        (run, 0, {}, "Give a number from 1 to 5"),
        (run, 6, {}, "Give a number from 1 to 5"),
        (run, 2, {"model": None}, "fork(run, at_round, model="),
        (run, 2, {"tools": "live"}, 'tools="recorded"'),
    ]
    for one, at_round, how, says in cases:
        with subtests.test(says), pytest.raises(SettingsError) as caught:
            fork_sync(one, at_round, **{"model": ScriptedModel([]), **how})
        assert says in str(caught.value)
