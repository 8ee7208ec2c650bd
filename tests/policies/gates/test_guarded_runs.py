"""Gates in runs: blocked calls do not run, and every call has one answer with the reason."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_checks import assert_every_call_has_one_result, checked
from scripted_runs import Counting, last_results

from agentnb import Agent, DuplicateGuard, Matrix, Minimal, Run, Store, TodoBoard, ToolCall, load_trace, save_trace, tool
from agentnb.core.log.events import CallBlocked, ToolFinished, ToolStarted
from agentnb.core.request import Request
from agentnb.core.todos import TODO_TOOL
from agentnb.models import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun

LETTERS = "ABCD"
MARKER = "duplicate_call_blocked"
POLICIES = {"matrix": Matrix(), "minimal": Minimal(blocked_rounds=50)}


def running(calls: str, policy: Any = "matrix", **settings: Any) -> tuple[Run, Counting, ScriptedModel]:
    """Run these calls, with a reply per call, and count the executions of each tool."""
    counting = Counting()
    model = ScriptedModel([*[ToolCall(name) for name in calls], "Done."])
    tools = [counting.tool(name, **settings) for name in LETTERS]
    run = checked(Agent(model, tools=tools, policy=policy, todos=False, max_rounds=100).run_sync("go"))
    return run, counting, model


def codes(run: Run) -> list[str | None]:
    return [result.error_code for round in run.rounds for result in round.results]


@pytest.mark.req("R1.34", "R1.38", "R1.39")
@pytest.mark.parametrize("policy", POLICIES)
def test_third_identical_call_is_not_run_by_default(policy: str) -> None:
    run, counting, _ = running("AAA", policy)
    assert counting.runs == {"A": 2}
    assert codes(run) == [None, None, MARKER]
    assert run.stop_reason == "natural"


@pytest.mark.req("R1.35", "R1.39", "K1.2")
@pytest.mark.parametrize("policy", POLICIES)
def test_call_repeated_four_times_in_eight_is_blocked(policy: str) -> None:
    run, counting, _ = running("ABACADABA", policy)
    assert counting.runs == {"A": 4, "B": 2, "C": 1, "D": 1}
    assert codes(run) == [None] * 8 + [MARKER]


@pytest.mark.req("R1.36", "R1.39", "K1.2")
@pytest.mark.parametrize("policy", POLICIES)
def test_eighth_alternating_call_is_not_run(policy: str) -> None:
    run, counting, _ = running("ABABABAB", policy)
    assert counting.runs == {"A": 4, "B": 3}
    assert [event.rule for event in run.events if isinstance(event, CallBlocked)] == ["alternation"]


@pytest.mark.req("R1.37", "R1.39")
def test_model_reads_marker_and_result_in_the_next_request() -> None:
    _, _, model = running("AAA")
    (told,) = last_results(model.requests[3])
    assert (told.name, told.error_code, told.is_error) == ("A", MARKER, True)
    assert MARKER in told.text and "A was run 2 times" in told.text
    assert not any(MARKER in result.text for request in model.requests[:3] for result in last_results(request))


@pytest.mark.req("R1.39")
def test_blocked_call_has_neither_start_nor_finish_event() -> None:
    run, _, _ = running("AAA")
    blocked = run.rounds[2].calls[0]
    (event,) = [event for event in run.events if isinstance(event, CallBlocked)]
    assert (event.call, event.result, event.rule) == (blocked, run.rounds[2].results[0], "consecutive")
    assert blocked.id not in {event.call.id for event in run.events if isinstance(event, ToolStarted)}
    assert blocked.id not in {event.result.call_id for event in run.events if isinstance(event, ToolFinished)}


@pytest.mark.req("R1.37")
def test_blocked_call_receives_the_last_success_despite_later_failure() -> None:
    times = iter(range(9))

    def shaky() -> str:
        if next(times) == 1:
            raise ValueError("no net")
        return "three rows"

    model = ScriptedModel([ToolCall("shaky")] * 3 + ["Done."])
    run = Agent(model, tools=[shaky], todos=False).run_sync("go")
    assert codes(run) == [None, "tool_error", MARKER]
    (told,) = last_results(model.requests[3])
    assert "three rows" in told.text and "no net" not in told.text


@pytest.mark.req("R1.34")
def test_failing_calls_are_blocked_with_their_error() -> None:
    counting = Counting()
    model = ScriptedModel([ToolCall("A")] * 3 + ["Done."])
    Agent(model, tools=[counting.failing("A")], todos=False).run_sync("go")
    assert counting.runs == {"A": 2}
    assert "A cannot" in last_results(model.requests[3])[0].text


@pytest.mark.req("R1.34", "KX.8")
@pytest.mark.parametrize("together", [False, True])
def test_third_identical_call_of_one_reply_is_not_run(together: bool) -> None:
    counting = Counting()
    model = ScriptedModel([[ToolCall("A")] * 4 + [ToolCall("B")], "Done."])
    tools = [counting.tool(name, parallel_safe=together) for name in LETTERS]
    run = Agent(model, tools=tools, todos=False).run_sync("go")
    assert_every_call_has_one_result(run)
    assert counting.runs == {"A": 2, "B": 1}
    assert [result.error_code for result in last_results(model.requests[1])] == [None, None, MARKER, MARKER, None]


def test_reply_with_only_blocked_calls_is_answered_and_run_continues() -> None:
    model = ScriptedModel([[ToolCall("A")] * 2, [ToolCall("A"), ToolCall("A")], "Done."])
    run = Agent(model, tools=[Counting().tool("A")], todos=False).run_sync("go")
    assert_every_call_has_one_result(run)
    assert [result.error_code for result in last_results(model.requests[2])] == [MARKER, MARKER]
    assert (run.stop_reason, len(run.rounds)) == ("natural", 3)


@pytest.mark.req("R1.41")
def test_polling_tool_may_be_called_repeatedly() -> None:
    run, counting, _ = running("A" * 15, repeatable=True)
    assert counting.runs == {"A": 15} and set(codes(run)) == {None}

    @tool(repeatable=True)
    def poll() -> str:
        return "not yet"

    for policy in POLICIES.values():
        batches = [[ToolCall("poll"), ToolCall("poll")]] * 4
        run = Agent(ScriptedModel([*batches, "Done."]), tools=[poll], policy=policy).run_sync("go")
        assert set(codes(run)) == {None} and len(codes(run)) == 8


@pytest.mark.req("R1.38", "R1.41")
@pytest.mark.parametrize("make", [Matrix, Minimal])
def test_guard_limits_can_be_set_in_code(make: Any) -> None:
    for guard, ran in (
        (DuplicateGuard(consecutive=2), 1),
        (DuplicateGuard(consecutive=4), 3),
        (DuplicateGuard(exempt=["A"]), 5),  # type: ignore[arg-type]
        (DuplicateGuard(consecutive=9, window=3, frequency=2), 2),
        (DuplicateGuard(same_result=True), 5),
        (DuplicateGuard(block_immediate_success_repeat=True), 1),
        (None, 5),
    ):
        _, counting, _ = running("AAAAA", make(guard=guard, blocked_rounds=50))
        assert counting.runs == {"A": ran}, guard


@pytest.mark.req("R1.41")
def test_same_result_option_never_blocks_changing_results() -> None:
    _, counting, _ = running("A" * 20, Matrix(guard=DuplicateGuard(same_result=True)))
    assert counting.runs == {"A": 20}


@pytest.mark.req("R1.41", "R0.46")
def test_todo_reads_made_by_the_run_are_never_blocked() -> None:
    board = TodoBoard(["Look"])

    def touch(n: int) -> None:
        board.edit(1, description=str(n))

    model = ScriptedModel([*[ToolCall("touch", {"n": n}) for n in range(12)], "Done."] + ["Done."] * 9)
    run = Agent(model, tools=[touch], todos=board, policy="minimal").run_sync("go")
    assert run.todos[0].description == "11" and set(codes(run)) == {None}


@pytest.mark.req("KX.8")
def test_todo_tool_is_guarded_like_any_other() -> None:
    add = ToolCall(TODO_TOOL, {"operation": "add", "newTodos": [{"title": "Look", "status": "completed"}]})
    run = Agent(ScriptedModel([add] * 3 + ["Done."]), tools=[Counting().tool("A")]).run_sync("go")
    assert len(run.todos) == 2
    assert codes(run) == [None, None, MARKER]


@pytest.mark.req("KX.8", "R1.40")
def test_user_message_resets_the_guard_but_pausing_does_not() -> None:
    handle: list[LiveRun] = []
    started = threading.Event()

    def reply(request: Request) -> ToolCall:
        assert started.wait(30)
        count = len(handle[0].run.rounds)
        if count == 3:
            handle[0].pause()
            handle[0].resume()
        if count == 4:
            handle[0].say("Try again")
        return ToolCall("A")

    model = ScriptedModel([*[reply] * 7, "Done."])
    handle.append(Agent(model, tools=[Counting().tool("A")], todos=False).start("go"))
    started.set()
    run = handle[0].result(30)
    assert codes(run) == [None, None, MARKER, MARKER, None, None, MARKER]


@pytest.mark.req("KX.8")
def test_continued_run_starts_with_a_fresh_guard() -> None:
    first, _, _ = running("AAA")
    counting = Counting()
    agent = Agent(ScriptedModel([ToolCall("A")] * 3 + ["Done."]), tools=[counting.tool("A")], todos=False)
    agent.run_sync("again", continue_from=first)
    assert counting.runs == {"A": 2}


def test_guard_can_be_disabled() -> None:
    _, counting, _ = running("A" * 9, Matrix(guard=None))
    assert counting.runs == {"A": 9}


# Generated calls


def calls_of(names: str) -> st.SearchStrategy[ToolCall]:
    arguments = st.sampled_from([{}, {}, {"x": 1}, {"x": 1.0}, {"x": "no number"}])
    return st.builds(ToolCall, st.sampled_from(list(names)), arguments)


def entry(number: int, status: str) -> ToolCall:
    return ToolCall(TODO_TOOL, {"operation": "update", "todoUpdates": [{"id": number, "status": status}]})


todo_calls = st.sampled_from(
    [
        ToolCall(TODO_TOOL, {"operation": "read"}),
        ToolCall(TODO_TOOL, {"operation": "add", "newTodos": [{"title": "One more"}]}),
        ToolCall(TODO_TOOL, {"operation": "write", "todoList": [{"id": 1, "title": "Look", "status": "not-started"}]}),
        ToolCall(TODO_TOOL, {"operation": "nonsense"}),
        *[entry(number, status) for number in (1, 2) for status in ("in-progress", "completed", "not-started")],
    ]
)
words = st.sampled_from(["Well.", "I did all that was asked of me, and there is nothing left.", "On.\n[CONTINUE]", ""])
anything = calls_of("AABBCSZ") | todo_calls
replies = st.lists(anything, min_size=1, max_size=4) | calls_of("AAAB") | words | st.tuples(words, anything).map(list)
scripts = st.lists(replies, max_size=14)


def agent_of(script: list[Any], counting: Counting, policy: str) -> Agent:
    tools = [counting.tool("A"), counting.tool("B", parallel_safe=True), counting.failing("C")]
    tools.append(counting.tool("S", repeatable=True, parallel_safe=True))
    return Agent(ScriptedModel([*script, *["Done."] * 20]), tools=tools, policy=POLICIES[policy], max_rounds=25)


@pytest.mark.req("R1.39", "R0.46", "R0.2")
@examples(150)
@given(scripts, st.sampled_from(sorted(POLICIES)))
def test_generated_calls_have_one_answer_and_blocked_ones_never_run(script: list[Any], policy: str) -> None:
    counting = Counting()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        run = asyncio.run(agent_of(script, counting, policy).run("go", store=store))
        assert store.load(run.id) == run
        assert load_trace(save_trace(run, Path(folder) / "saved.jsonl")) == run
    assert Run.from_events(run.events) == run
    assert_every_call_has_one_result(run)
    ran = Counter(
        record.call.name for round in run.rounds for record in round.records if record.ran and record.call.name in "ABCS"
    )
    assert counting.runs == ran
    assert not any(event.call.name == "S" for event in run.events if isinstance(event, CallBlocked))


@pytest.mark.req("R1.35", "R1.36")
@examples(60)
@given(st.text("AB", max_size=14), st.sampled_from(sorted(POLICIES)))
def test_no_call_runs_five_times_in_nine_or_keeps_alternating(calls: str, policy: str) -> None:
    run, counting, _ = running(calls, Matrix(blocked_rounds=50) if policy == "matrix" else POLICIES[policy])
    assert "".join(record.call.name for round in run.rounds for record in round.records) == calls
    executed = "".join(record.call.name for round in run.rounds for record in round.records if record.ran)
    assert Counter(executed) == counting.runs
    assert all(executed[at : at + 9].count(name) < 5 for at in range(len(executed)) for name in "AB")
    assert "ABABABAB" not in executed and "BABABABA" not in executed


@pytest.mark.req("R1.41", "R0.43")
def test_reading_the_todo_list_after_changes_is_not_repetition() -> None:
    read = ToolCall(TODO_TOOL, {"operation": "read"})
    marks = [
        ToolCall(TODO_TOOL, {"operation": "update", "todoUpdates": [{"id": number, "status": status}]})
        for number in (1, 2)
        for status in ("in-progress", "completed")
    ]
    board = TodoBoard(["One", "Two"])
    script = [read, *[call for mark in marks for call in (mark, read)], "Done."]
    run = Agent(ScriptedModel(script), tools=[Counting().tool("A")], todos=board).run_sync("go")
    assert MARKER not in codes(run)
    assert "2. [completed] Two" in run.rounds[-2].results[0].text


@pytest.mark.req("R1.41")
def test_third_read_of_an_unchanged_todo_list_is_blocked() -> None:
    read = ToolCall(TODO_TOOL, {"operation": "read"})
    board = TodoBoard([{"title": "One", "status": "completed"}])
    run = Agent(ScriptedModel([read] * 3 + ["Done."]), tools=[Counting().tool("A")], todos=board).run_sync("go")
    assert codes(run) == [None, None, MARKER]


@pytest.mark.req("R0.44", "R1.41")
def test_todo_list_changed_by_others_may_be_read_again() -> None:
    read = ToolCall(TODO_TOOL, {"operation": "read"})
    board = TodoBoard(["One"])

    def changed(request: Request) -> ToolCall:
        board.add(f"Number {len(board) + 1}")
        return read

    agent = Agent(ScriptedModel([read, read, changed]), tools=[Counting().tool("A")], todos=board, max_rounds=3)
    run = agent.run_sync("go")
    assert codes(run) == [None, None, None]
    assert "2. [not-started] Number 2" in run.rounds[-1].results[0].text
