"""Properties of every possible run."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from generated_runs import BY_HAND, Plan, plans, really_run
from hypothesis import given
from property_settings import examples
from totals_of_logs import check_totals
from usage_sums import check_sums

from agentnb import Run, Store, load_trace, load_traces, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.log.well_formed import check_events as check_well_formed
from agentnb.core.log.work_events import WorkEvent
from agentnb.core.messages import ToolResult
from agentnb.display.texts.call_labels import state

STATUSES = {"completed", "limited", "stopped", "cancelled", "failed"}
ROUND_STATUSES = {
    "success",
    "error",
    "cancelled",
    "natural_completion",
    "workflow_complete",
    "auto_continue_todos",
    "auto_continue_workflow",
    "todo_nudge",
    "premature_stop_nudge",
    "narration_without_tool_call",
    "duplicate_loop_broken",
    "unexpected_empty_tools",
}
NOT_BY_A_LOOP = {
    e.ExtraUsage,  # of money: tests/runtime/test_budget.py
    e.ReplyStreamed,  # of external agents: tests/acp/test_turn_record.py
    e.ToolAdmitted,
    e.RunSuspended,
    *WorkEvent.__args__,
}
"""Kinds of events that these runs do not write."""


@pytest.mark.req("R0.2", "R0.8", "R0.71", "R2.14", "KX.5", "KX.9", "KX.10", "KX.11")
@examples(200)
@given(plans)
def test_random_runs_satisfy_all_properties(plan: Plan) -> None:
    check_tables(check_all(plan))


def test_plans_with_every_event_kind_satisfy_all_properties(subtests: pytest.Subtests) -> None:
    runs: list[Run] = []
    for name, plan in BY_HAND.items():
        with subtests.test(name):
            runs += check_all(plan)
    check_tables(runs)
    kinds = {type(event) for run in runs for event in run.events}
    assert kinds == set(e.KINDS) - NOT_BY_A_LOOP
    assert {round_.status for run in runs for round_ in run.rounds} == ROUND_STATUSES
    assert {loop.rule for run in runs for loop in run.loops} == {"only_blocked_calls", "already_said", "planning_only"}


def check_all(plan: Plan) -> list[Run]:
    """Execute the runs of the plan, and check all properties but those of tables."""
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        runs = really_run(plan, store)
        check_forms(runs, store)
        check_summaries(runs, store)
        assert len(tables.runs(store)) == len(runs)
    for run in runs:
        check_events(run)
        check_calls(run)
        check_rounds(run)
        check_guidance(run)
        check_questions(run)
    return runs


def check_forms(runs: list[Run], store: Store) -> None:
    """Check that the live, stored, saved and folded runs are equal."""
    for run in runs:
        assert Run.from_events(run.events) == run
        assert store.load(run.id) == run
        assert load_trace(save_trace(run, store.folder.parent / "saved.jsonl")) == run
    assert load_traces(store) == sorted(runs, key=lambda run: run.id)


def check_summaries(runs: list[Run], store: Store) -> None:
    """Check that a summary equals the folded run."""
    found = {summary.id: summary for summary in store.summaries()}
    for run in runs:
        one, used = found[run.id], run.usage
        assert (one.status, one.stop_reason, one.rounds) == (run.status, run.stop_reason, len(run.rounds))
        known = [count for count in (used.input, used.output) if count is not None]
        assert (one.tokens, one.cost) == (sum(known) if known else None, run.cost)
        states = Counter(state(record) for row in run.rounds for record in row.records)
        assert (one.failed_calls, one.blocked_calls) == (states["failed"], states["blocked"])
        check_totals(store.path(run.id))


def check_tables(runs: list[Run]) -> None:
    """Check the number of rows, and that the sums of calls are those of their runs."""
    assert len(tables.rounds(runs)) == sum(len(run.rounds) for run in runs)
    assert len(tables.messages(runs)) == sum(len(run.messages) for run in runs)
    assert len(tables.tool_calls(runs)) == sum(len(round_.calls) for run in runs for round_ in run.rounds)
    assert len(tables.guidance(runs)) == sum(len(round_.guidance) for run in runs for round_ in run.rounds)
    changes = sum(isinstance(event, e.TodosChanged) for run in runs for event in run.events)
    todos = tables.todos(runs)
    assert todos.breach.sum() == sum(len(round_.todo_violations) for run in runs for round_ in run.rounds)
    assert len(todos[~todos.breach]) >= changes
    check_sums(runs)
    assert all(not waited or waited > 0 for waited in tables.usage(runs).waited)


def check_events(run: Run) -> None:
    """Check consecutive numbers, one beginning, one end and one id; read again, they make a run."""
    check_well_formed(run.events, "run.jsonl")
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    assert {event.run_id for event in run.events} == {run.id}
    kinds = Counter(type(event) for event in run.events)
    assert (kinds[e.RunStarted], kinds[e.RunFinished]) == (1, 1)
    assert type(run.events[0]) is e.RunStarted and type(run.events[-1]) is e.RunFinished
    assert run.status in STATUSES and not run.should_continue and run.stop_reason and run.ended_at is not None


def check_calls(run: Run) -> None:
    """Check one result per call, in the rounds, the events, and the following message of the conversation."""
    asked = [call.id for message in run.messages for call in message.calls]
    answered = [part.call_id for message in run.messages for part in message.parts if isinstance(part, ToolResult)]
    assert asked == answered and len(set(asked)) == len(asked) and all(asked)
    for message, after in zip(run.messages, [*run.messages[1:], None], strict=True):
        if message.calls:
            assert after is not None and after.role == "tool"
            assert [part.call_id for part in after.parts if isinstance(part, ToolResult)] == [call.id for call in message.calls]
    own = [record.call.id for round_ in run.rounds for record in round_.records]
    finished = Counter(event.result.call_id for event in run.events if isinstance(event, e.ToolFinished | e.CallBlocked))
    assert finished == Counter(own) and set(own) <= set(asked)
    blocked = {event.call.id for event in run.events if isinstance(event, e.CallBlocked)}
    assert not blocked & {event.call.id for event in run.events if isinstance(event, e.ToolStarted)}
    assert all(round_.calls == round_.reply.calls for round_ in run.rounds if round_.reply is not None)


def check_rounds(run: Run) -> None:
    """Check that rounds are numbered 0, 1, 2, …, and begin and end once."""
    started = [event.index for event in run.events if isinstance(event, e.RoundStarted)]
    finished = [event.index for event in run.events if isinstance(event, e.RoundFinished)]
    assert started == finished == [round_.index for round_ in run.rounds] == list(range(len(run.rounds)))
    assert {round_.status for round_ in run.rounds} <= ROUND_STATUSES
    assert run.max_rounds is not None and len(run.rounds) <= run.max_rounds


def check_guidance(run: Run) -> None:
    """Check that ephemeral text is in its round and in no message; the list is the last one seen."""
    given = [event.guidance for event in run.events if isinstance(event, e.GuidanceGiven)]
    assert given == [guidance for round_ in run.rounds for guidance in round_.guidance]
    assert all(len(round_.followed) == len(round_.guidance) for round_ in run.rounds)
    assert not any("<system-reminder>" in message.text for message in run.messages)
    lists = [event.todos for event in run.events if isinstance(event, e.TodosChanged)]
    assert all(before != after for before, after in pairwise([run.events[0].todos, *lists]))  # type: ignore[union-attr]
    assert run.todos == [run.events[0].todos, *lists][-1]  # type: ignore[union-attr]


def check_questions(run: Run) -> None:
    """Check that each question is answered or withdrawn once, before its call ends; nothing stays open.

    The answer to a question open when the process died was lost.
    """
    asked = {event.question.id: event for event in run.events if isinstance(event, e.QuestionAsked)}
    answered = [event for event in run.events if isinstance(event, e.QuestionAnswered)]
    ids = sorted(event.question_id for event in answered)
    assert ids == sorted(asked) or (run.times_recovered and ids == sorted({*ids}) and {*ids} < {*asked})
    assert run.waiting == ()
    ends = {event.result.call_id: event.seq for event in run.events if isinstance(event, e.ToolFinished)}
    for answer in answered:
        question = asked[answer.question_id]
        assert question.seq < answer.seq < ends[question.question.call_id]
