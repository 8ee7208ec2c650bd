"""A run reproduced with its recorded model and tools: equal except for ids and times, or the first difference."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from recorded_runs import LINES, POLICIES, whatever
from scripted_runs import do, scripted, think, work
from todo_calls import complete, start, write

from agentnb import Agent, Run, RunOptions, ToolCall, diff, load_trace, reproduce, reproduce_sync
from agentnb.core.log.events import ModelReplied, RoundFinished, ToolFinished
from agentnb.errors import ReplayDiverged, SettingsError
from agentnb.models import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun


def same_facts(run: Run, other: Run) -> None:
    """Check that both runs have the same events except for ids, times and durations."""

    def facts(one: Run) -> list[Any]:
        return [
            event.__class__.__name__ if isinstance(event, ModelReplied | ToolFinished | RoundFinished) else _plain(event)
            for event in one.events
        ]

    assert facts(run) == facts(other)
    assert [*run.messages] == [*other.messages]
    assert (run.status, run.stop_reason, run.usage) == (other.status, other.stop_reason, other.usage)


def _plain(event: Any) -> tuple[Any, ...]:
    left_out = {"at", "run_id", "seconds", "seq", "parent_id", "work_dir"}
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in left_out}
    if "todos" in fields:
        fields["todos"] = [(todo.id, todo.title, todo.status, todo.description) for todo in fields["todos"]]
    return (type(event).__name__, *fields.values())


@given(st.lists(LINES, max_size=8), POLICIES, st.integers(2, 12))
@examples(25)
def test_run_is_reproduced_except_for_ids_and_times(lines: list[Any], policy: Any, most: int) -> None:
    run = whatever(lines, policy, max_rounds=most)
    again = reproduce_sync(run)
    same_facts(run, again)
    assert again.id != run.id and again.forked_from is None
    assert diff(run, again).first_divergence is None


def test_reproduction_can_be_awaited_and_runs_no_tools() -> None:
    ran: list[int] = []

    def count(n: int = 0) -> int:
        """Counts."""
        ran.append(n)
        return len(ran)

    model = ScriptedModel([ToolCall("count", {"n": 1}), "Done."])
    run = asyncio.run(Agent(model, tools=[work, count]).run("Go"))
    same_facts(run, asyncio.run(reproduce(run)))
    assert ran == [1]


held = Event()


def say(live: LiveRun) -> ToolCall:
    live.say("And 2?")
    return ToolCall("hold", {"n": 2})


def hold(n: int = 0) -> str:
    """Wait until the test has a handle on the run."""
    held.wait(30)
    return f"made {n}"


def test_user_messages_are_sent_again_when_reproducing() -> None:
    live: list[LiveRun] = []
    model = ScriptedModel([ToolCall("hold", {"n": 1}), lambda request: say(live[0]), "Done."])
    live.append(Agent(model, tools=[hold]).start("Go", RunOptions(show=False)))
    held.set()
    run = live[0].result(30)
    assert [message.text for message in run.messages if message.role == "user"] == ["Go", "And 2?"]
    same_facts(run, reproduce_sync(run))


def test_changed_tool_result_is_the_first_difference_with_a_diff() -> None:
    def other(n: int = 0) -> str:
        """Does the work of one item."""
        return f"made {n}, badly" if n == 2 else f"made {n}"

    other.__name__ = "work"
    run, _ = scripted(do(1), do(2), "Done.", tools=[work])
    assert reproduce_sync(run, tools=[work]).status == "completed"
    with pytest.raises(ReplayDiverged) as caught:
        reproduce_sync(run, tools=[other])
    told = str(caught.value)
    assert "round 3 of run" in told and "message 5 (tool) differs" in told
    assert "made 2\n+" in told and "made 2, badly" in told
    assert caught.value.run is not None


def test_failed_run_fails_again_when_reproduced() -> None:
    model = ScriptedModel([do(1), RuntimeError("boom")])
    run = Agent(model, tools=[work]).run_sync("Go")
    again = reproduce_sync(run)
    assert (again.status, str(again.error)) == (run.status, str(run.error)) and again.error is not None


def test_log_with_an_altered_end_is_detected(snapshot: Snapshot) -> None:
    run, _ = scripted(write("one"), start(1), do(1), complete(1), "Done.", tools=[work, think])
    changed = Run.from_events(
        [
            event
            if type(event).__name__ != "RunFinished"
            else type(event)(**{**_fields(event), "stop_reason": "loop_detected"})
            for event in run.events
        ]
    )
    with pytest.raises(ReplayDiverged, check=snapshot.worded):
        reproduce_sync(changed)


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def test_foreign_and_interrupted_runs_are_refused() -> None:
    with pytest.raises(SettingsError, match="another product"):
        reproduce_sync(load_trace("healthy"))
    run, _ = scripted(do(1), "Done.")
    cut = Run.from_events([*run.events][:-1])
    cut.mark_interrupted()
    with pytest.raises(SettingsError, match="did not end on its own"):
        reproduce_sync(cut)
