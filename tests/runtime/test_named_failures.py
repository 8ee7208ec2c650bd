"""Known failures of models as scripted runs, and their outcomes with agentnb."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from ephemeral_text import reminder
from run_builder import a_round, run_of, todos_of
from run_checks import cells, ended, reasons, todo_statuses
from scripted_runs import do, scripted, work
from todo_calls import complete, start, write

from agentnb.agent.agent import Agent
from agentnb.core.log.events import RunFinished, TodosChanged
from agentnb.core.messages import Message, Text, user
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.models.scripted import Line, ScriptedModel
from agentnb.tools.todos.board import TodoBoard

STORIES = ("Write the sea story", "Write the wood story", "Write the town story")
TALK = [
    "I will now write the sea story.",
    "Let me begin with the sea story right away.",
    "The sea story comes first, then the others.",
    "I am about to start on it.",
    "Here is my plan once more: sea, wood, town.",
]


def assert_alternates(request: Request) -> None:
    """Check that roles alternate, no message is empty, and the last is not the assistant's."""
    of_assistant = [message.role == "assistant" for message in request.messages]
    assert all(one != other for one, other in pairwise(of_assistant))
    assert not of_assistant[0]
    assert not of_assistant[-1]
    assert all(message.parts for message in request.messages)


def assert_no_two_answers_in_a_row(run: Run) -> None:
    """Check that a call or user message separates any two text-only replies."""
    roles = [message.role for message in run.messages if not message.calls]
    assert ("assistant", "assistant") not in pairwise(roles)


def mentions_of(run: Run, number: int) -> list[str]:
    """Return the statuses of a todo, in order."""
    lists = [event.todos for event in run.events if isinstance(event, TodosChanged)]
    found = [todo.status for todos in lists for todo in todos if todo.id == number]
    return [status for index, status in enumerate(found) if index == 0 or found[index - 1] != status]


# complex-fails


@pytest.mark.req("R0.32", "R0.25")
def test_complex_fails_five_assistant_messages_become_a_valid_request() -> None:
    history = (user("Write three stories."), *[Message("assistant", (Text(text),)) for text in TALK])
    finished = (RunFinished, {"status": "completed", "stop_reason": "natural"})
    before = run_of(*a_round(0, "Shall I?"), finished, history=history)
    model = ScriptedModel([do(1), "Done."])
    run = Agent(model, tools=[work]).run_sync("Go on.", continue_from=before)
    for request in model.requests:
        assert_alternates(request)
    (together, *_) = [message for message in model.requests[0].messages if message.role == "assistant"]
    assert together.text == "\n\n".join(TALK)
    assert ended(run) == ("completed", "natural")


@pytest.mark.req("R0.32", "R0.36")
def test_complex_fails_five_announcements_trigger_an_intervention() -> None:
    begun = [call for number in (1, 2, 3) for call in (start(number), do(number), complete(number))]
    run, model = scripted(write(*STORIES), *TALK, *begun, "All three are written.")
    for request in model.requests:
        assert_alternates(request)
    assert_no_two_answers_in_a_row(run)
    assert reasons(run)[2:7] == ["open_todos"] * 5
    headings = [reminder(request).split(":")[0] for request in model.requests[2:7]]
    assert headings == ["REMINDER", "WARNING", "FINAL WARNING", "FINAL WARNING", "FINAL WARNING"]
    assert ended(run) == ("completed", "natural")


@pytest.mark.req("R0.32", "R0.53")
def test_complex_fails_endless_announcements_end_the_run() -> None:
    run, model = scripted(write(*STORIES), *TALK, "And now, the sea story.")
    assert_no_two_answers_in_a_row(run)
    for request in model.requests:
        assert_alternates(request)
    assert ended(run) == ("stopped", "todo_intervention_exhausted")
    assert "3 todos are still open" in run.warnings[0]


# gpt-simple-fail


def four_done() -> TodoBoard:
    return TodoBoard([{"title": f"Write part {n}", "status": "completed" if n < 5 else "not-started"} for n in range(1, 6)])


@pytest.mark.req("R0.85", "R0.22")
def test_gpt_simple_fail_unmarked_last_work_triggers_guidance_and_intervention() -> None:
    run, model = scripted(do(5), "All five parts are written.", complete(5), "That was the last.", todos=four_done())
    assert cells(run) == [[("todo_list", 1)], [("todos_tools", 1)], [("intervention", 1), ("todos_text", 1)], [("tools", 1)]]
    assert reminder(model.requests[1]).startswith("WORKFLOW GUIDANCE (TODO MODE):")
    assert 'todo 5, "Write part 5"' in reminder(model.requests[2])
    assert ended(run) == ("completed", "natural")
    assert todo_statuses(run) == ["completed"] * 5


@pytest.mark.req("R0.85", "R0.53")
@pytest.mark.parametrize("count", [6])
def test_gpt_simple_fail_unmarked_work_is_not_a_clean_end(count: int) -> None:
    claims = [f"All five parts are written{'.' * (n + 1)}" for n in range(count)]
    run, _ = scripted(do(5), *claims, todos=four_done())
    assert ended(run) == ("stopped", "todo_intervention_exhausted")
    assert run.warnings[0] == "1 todo is still open:\n5. [not-started] Write part 5"
    assert run.status != "completed"


@pytest.mark.req("R0.85", "K0.2")
def test_gpt_simple_fail_claimed_completion_is_not_a_clean_end() -> None:
    run, _ = scripted(do(5), "All five parts are written.\n[WORKFLOW_COMPLETE]", todos=four_done())
    assert run.stop_reason == "complete_with_open_todos"
    assert run.warnings


@pytest.mark.req("R0.85", "R0.63")
def test_gpt_simple_fail_violations_are_recorded() -> None:
    run, _ = scripted(do(5), complete(5), "Done.", todos=four_done())
    assert [[violation.rule for violation in round_.todo_violations] for round_ in run.rounds] == [
        ["work_without_todo_in_progress"],
        ["completed_without_in_progress"],
        [],
    ]


# complex-workflow-didn't-close-out


def third_begun() -> TodoBoard:
    statuses = ["completed", "completed", "in-progress"]
    return TodoBoard([{"title": title, "status": status} for title, status in zip(STORIES, statuses, strict=True)])


@pytest.mark.req("R0.86", "R0.36")
@pytest.mark.parametrize("policy", ["matrix", "minimal"])
def test_complex_workflow_answer_during_third_todo_does_not_end_run(policy: str) -> None:
    run, model = scripted("All stories are written.", complete(3), "Done.", todos=third_begun(), policy=policy)
    assert run.rounds[0].status in ("auto_continue_todos", "todo_nudge")
    said = reminder(model.requests[1])
    assert said.startswith("REMINDER:")
    assert 'todo 3, "Write the town story"' in said
    assert '{"id": 3, "status": "completed"}' in said
    assert ended(run) == ("completed", "natural")
    assert todo_statuses(run) == ["completed"] * 3


@pytest.mark.req("R0.86")
def test_complex_workflow_model_may_write_its_own_todo_list() -> None:
    opening: list[Line] = [write(*STORIES), start(1), do(1), complete(1), start(2), do(2), complete(2), start(3), do(3)]
    run, _ = scripted(*opening, "All stories are written.", complete(3), "Done.")
    assert reasons(run)[-2:] == ["open_todos", "tool_results"]
    assert ended(run) == ("completed", "natural")


# The simple workflow


@pytest.mark.req("R0.84", "R0.67")
@pytest.mark.parametrize("mode", ["a call a round", "three calls a round"])
def test_simple_workflow_completes_every_todo_and_ends_by_itself(mode: str) -> None:
    steps: list[Any] = [[start(number), do(number), complete(number)] for number in (1, 2, 3)]
    if mode == "a call a round":
        steps = [call for step in steps for call in step]
    run, model = scripted(write(*STORIES), *steps, "Three stories are made: sea, wood and town.")
    for number in (1, 2, 3):
        assert mentions_of(run, number) == ["not-started", "in-progress", "completed"]
    assert ended(run) == ("completed", "natural")
    assert run.text == "Three stories are made: sea, wood and town."
    assert {cell for said in cells(run) for cell, _ in said} == {"todos_tools", "tools"}
    assert {level for said in cells(run) for _, level in said} == {1}
    assert set(reasons(run)) == {"prompt", "tool_results"}
    assert not any(round_.todo_violations for round_ in run.rounds)
    assert all(verdict.followed for round_ in run.rounds for verdict in round_.followed)
    assert not run.warnings
    for request in model.requests:
        assert_alternates(request)


@pytest.mark.req("R0.67")
def test_working_through_ten_todos_properly_triggers_no_intervention() -> None:
    titles = [f"Write part {number}" for number in range(1, 11)]
    steps = [call for number in range(1, 11) for call in (start(number), do(number), complete(number))]
    run, _ = scripted(write(*titles), *steps, "Done.")
    assert not any(cell == "intervention" for said in cells(run) for cell, _ in said)
    assert todo_statuses(run) == [todo.status for todo in todos_of(*["completed"] * 10)]
