"""Text alone with open todos: escalating interventions and their end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from ephemeral_text import OFF, reminder, stored_text
from run_builder import a_round, said, todo, todos_of
from run_checks import cells, ended, reasons, todo_statuses
from scripted_runs import LONG_ANSWER, do, scripted, tool_run, work
from todo_calls import complete, mark, start, write

from agentnb import load_trace, save_trace
from agentnb.agent.agent import Agent
from agentnb.core.log.events import TodosChanged
from agentnb.core.messages import ToolCall
from agentnb.core.request import Request
from agentnb.core.todos import TODO_TOOL, Todo
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import Continue, Matrix, OpenTodos, Stop
from agentnb.tools.todos.board import TodoBoard

CALL = ToolCall("work")
READ = ToolCall(TODO_TOOL, {"operation": "read"})
OPEN = todos_of("completed", "in-progress")
DONE = todos_of("completed", "completed")
WORDS = ["Hm.", "Well.", "So.", "Right.", "Yes.", "No."]
LEVELS = ["REMINDER:", "WARNING:", "FINAL WARNING:", "FINAL WARNING:", "FINAL WARNING:"]


def nudged(*between: tuple[str | ToolCall, ...], todos: tuple[Todo, ...] = OPEN, after: tuple[Todo, ...] | None = None):  # type: ignore[no-untyped-def]
    """Return a run with two interventions, these rounds, then text alone."""
    facts = [*a_round(0, "Hm."), *a_round(1, "Hm.", reason="open_todos"), *a_round(2, "Hm.", reason="open_todos")]
    for index, parts in enumerate(between, start=3):
        facts += a_round(index, *parts, after=after)
    return tool_run(*facts, *a_round(3 + len(between), "Hm."), todos=todos)


def level(run) -> int:  # type: ignore[no-untyped-def]
    verdict = OpenTodos()(run)
    assert isinstance(verdict, Continue)
    assert verdict.reason == "open_todos"
    (guidance,) = verdict.guidance
    return guidance.level


# Alone


@pytest.mark.req("R0.36", "R0.47")
def test_each_answer_without_calls_escalates_the_intervention() -> None:
    facts = a_round(0, "Hm.")
    levels = []
    for index in range(1, 6):
        levels.append(level(tool_run(*facts, todos=OPEN)))
        facts += a_round(index, "Hm.", reason="open_todos")
    assert levels == [1, 2, 3, 3, 3]
    assert OpenTodos()(tool_run(*facts, todos=OPEN)) == Stop("todo_intervention_exhausted", "stopped")


@pytest.mark.req("R0.48", "K0.10")
@pytest.mark.parametrize("cap", [1, 2, 5])
def test_cap_limits_consecutive_interventions(cap: int) -> None:
    facts = a_round(0, "Hm.")
    for index in range(1, cap + 1):
        assert isinstance(OpenTodos(cap)(tool_run(*facts, todos=OPEN)), Continue)
        facts += a_round(index, "Hm.", reason="open_todos")
    assert isinstance(OpenTodos(cap)(tool_run(*facts, todos=OPEN)), Stop)


@pytest.mark.req("R0.36", "R0.39")
def test_calls_or_a_finished_list_trigger_no_intervention() -> None:
    assert OpenTodos()(tool_run(*a_round(0, "I work.", CALL), todos=OPEN)) is None
    assert OpenTodos()(tool_run(*a_round(0, "Done."), todos=DONE)) is None
    assert OpenTodos()(tool_run(*a_round(0, "Done."))) is None


@pytest.mark.req("R0.49")
def test_executing_work_or_completing_a_todo_resets_the_count() -> None:
    assert level(nudged()) == 3
    assert level(nudged((CALL,))) == 1
    assert level(nudged((complete(1),), todos=todos_of("in-progress", "in-progress"), after=OPEN)) == 1


@pytest.mark.req("R0.49", "R0.64")
def test_planning_or_an_unexecuted_call_does_not_reset_the_count() -> None:
    assert level(nudged((READ,))) == 3
    assert level(nudged((ToolCall("think"),))) == 3
    assert level(nudged((start(2),), after=OPEN)) == 3
    for code in ("unknown_tool", "invalid_arguments", "duplicate_call_blocked"):
        facts = [*a_round(0, "Hm."), *a_round(1, CALL, reason="open_todos", error_code=code), *a_round(2, "Hm.")]
        assert level(tool_run(*facts, todos=OPEN)) == 2


@pytest.mark.req("R0.49")
def test_failed_work_tool_counts_as_executed() -> None:
    facts = [*a_round(0, "Hm."), *a_round(1, CALL, reason="open_todos", error_code="tool_error"), *a_round(2, "Hm.")]
    assert level(tool_run(*facts, todos=OPEN)) == 1


@pytest.mark.req("R0.49")
def test_user_message_resets_the_count() -> None:
    facts = [*a_round(0, "Hm."), *a_round(1, "Hm.", reason="open_todos"), said("Well?"), *a_round(2, "Hm.", reason="said")]
    assert level(tool_run(*facts, todos=OPEN)) == 1


@pytest.mark.req("R0.48", "R0.66")
def test_earlier_planning_rounds_raise_the_intervention_level() -> None:
    facts = [fact for index in range(4) for fact in a_round(index, READ)]
    assert level(tool_run(*facts, *a_round(4, "Hm."), todos=OPEN)) == 3


def test_tolerated_planning_does_not_escalate() -> None:
    """Writing a list and starting a todo are two such rounds: the next text brings a reminder."""
    facts = [fact for index in range(3) for fact in a_round(index, READ)]
    assert level(tool_run(*facts, *a_round(3, "Hm."), todos=OPEN)) == 1


@pytest.mark.req("R0.51")
@pytest.mark.parametrize(
    ("todos", "name"),
    [
        ((todo(1), todo(2, "in-progress", "Draw it", description="With a legend")), 'todo 2, "Draw it": With a legend'),
        ((todo(1, "completed"), todo(2, "blocked"), todo(3)), 'todo 3, "Write story 3"'),
    ],
)
def test_intervention_names_the_todo_and_how_to_close_it(todos: tuple[Todo, ...], name: str) -> None:
    verdict = OpenTodos()(tool_run(*a_round(0, "Hm."), todos=todos))
    assert isinstance(verdict, Continue)
    assert name in verdict.guidance[0].text
    number = name.split(",", maxsplit=1)[0].removeprefix("todo ")
    assert f'{{"id": {number}, "status": "completed"}}' in verdict.guidance[0].text


@pytest.mark.req("K0.9")
def test_run_stops_when_all_open_todos_are_blocked() -> None:
    assert OpenTodos()(tool_run(*a_round(0, "Hm."), todos=todos_of("completed", "blocked", "blocked"))) == Stop(
        "blocked", "stopped"
    )
    assert level(tool_run(*a_round(0, "Hm."), todos=todos_of("not-started", "blocked"))) == 1


def test_intervention_count_continues_without_guidance_text() -> None:
    assert OpenTodos()(tool_run(*a_round(0, "Hm."), todos=OPEN, words=OFF)) == Continue(
        "open_todos", round_status="auto_continue_todos"
    )


# Whole runs


@pytest.mark.req("R0.36", "R0.47", "R0.48", "R0.50", "R0.53", "K0.10")
def test_model_that_only_talks_gets_five_interventions(snapshot: Snapshot) -> None:
    run, model = scripted(write("One", "Two"), *WORDS)
    reminders = [reminder(request) for request in model.requests]
    assert [text.split()[0] + (" WARNING:" if text.startswith("FINAL") else "") for text in reminders[2:]] == LEVELS
    assert not any(text.startswith(tuple(LEVELS)) for text in reminders[:2])
    assert reasons(run) == ["prompt", "tool_results", *["open_todos"] * 5]
    assert ended(run) == ("stopped", "todo_intervention_exhausted")
    assert list(run.warnings) == snapshot
    assert [round.status for round in run.rounds][1:-1] == ["auto_continue_todos"] * 5


@pytest.mark.req("R0.50", "K0.6")
def test_intervention_precedes_only_the_guidance_of_its_round() -> None:
    run, model = scripted(write("One"), "Hm.", start(1), do(1), complete(1), "Done.")
    assert cells(run)[2] == [("intervention", 1), ("todos_text", 1)]
    text = reminder(model.requests[2])
    assert 0 == text.index("REMINDER:") < text.index("CRITICAL WORKFLOW GUIDANCE (TODO MODE):")
    assert [("REMINDER:" in reminder(request)) for request in model.requests] == [False, False, True, False, False, False]


@pytest.mark.req("R0.49")
def test_work_or_a_completed_todo_resets_the_level() -> None:
    replies = [write("One", "Two"), "Hm.", "Well.", do(1), "So.", "Yes.", start(1), complete(1), "No.", start(2), complete(2)]
    _, model = scripted(*replies, "Done.")
    reminders = [reminder(request) for request in model.requests]
    assert [reminders[n].split()[0] for n in (2, 3, 5, 6, 9)] == ["REMINDER:", "WARNING:", "REMINDER:", "WARNING:", "REMINDER:"]


@pytest.mark.req("R0.87", "R0.20")
def test_intervention_is_stored_as_please_continue() -> None:
    run, _ = scripted(write("One"), "Hm.", "[WORKFLOW_COMPLETE]")
    assert [message.role for message in run.messages][:5] == ["user", "assistant", "tool", "assistant", "user"]
    assert run.messages[4].text == "Please continue"
    assert "REMINDER" not in stored_text(run)


@pytest.mark.req("K0.9")
def test_run_with_only_blocked_todos_ends_with_their_reasons(snapshot: Snapshot) -> None:
    run, _ = scripted(write("One", "Two"), mark(1, "blocked", blockedReason="no key"), start(2), complete(2), LONG_ANSWER)
    assert ended(run) == ("stopped", "blocked")
    assert list(run.warnings) == snapshot
    assert all(cell != "intervention" for guidance in cells(run) for cell, _ in guidance)


@pytest.mark.req("R0.82")
def test_intervention_success_is_recorded_with_its_reason() -> None:
    run, _ = scripted(write("One"), "Hm.", "Well.", do(1), start(1), complete(1), "Done.")
    assert [round.followed[0].followed for round in run.rounds[2:4]] == [False, True]
    assert run.rounds[3].followed[0].why == "a work tool ran"


# Others change the board


def acting(act: Callable[[], object], text: str) -> Callable[[Request], str]:
    """Return a reply during which someone else acts."""

    def reply(request: Request) -> str:
        act()
        return text

    return reply


@pytest.mark.req("R0.43", "R0.44")
def test_todo_completed_by_the_user_lets_the_run_end() -> None:
    board = TodoBoard(["One", "Two"])
    run, model = scripted(start(1), complete(1), acting(lambda: board.complete(2), "Done."), todos=board)
    assert ended(run) == ("completed", "natural")
    assert todo_statuses(run) == ["completed", "completed"]
    assert [event.by for event in run.events if isinstance(event, TodosChanged)] == ["model", "model", "outside"]
    assert run.rounds[-1].completed == ()
    assert len(model.requests) == 3


@pytest.mark.req("R0.43", "R0.44")
def test_todo_reopened_by_the_user_keeps_the_run_active() -> None:
    board = TodoBoard(["One"])
    reopen = acting(lambda: board.reopen(1), "All done.")
    run, model = scripted(start(1), complete(1), reopen, start(1), complete(1), "Now it is.", todos=board)
    assert reasons(run)[3] == "open_todos"
    assert 'todo 1, "One"' in reminder(model.requests[3])
    assert ended(run) == ("completed", "natural")


@pytest.mark.req("R0.44")
def test_user_added_or_blocked_todos_count_from_the_next_round() -> None:
    board = TodoBoard(["One"])
    run, model = scripted(
        acting(lambda: board.add("Two"), "Hm."),
        acting(lambda: (board.block(1, "no key"), board.start(2)), "Well."),
        acting(lambda: board.remove(2), "So."),
        todos=board,
    )
    assert 'todo 1, "One"' in reminder(model.requests[1])
    assert "2. [in-progress] Two" in reminder(model.requests[2])
    assert ended(run) == ("stopped", "blocked")


@pytest.mark.req("R0.44", "R0.49")
def test_completion_by_the_user_is_not_model_progress() -> None:
    board = TodoBoard(["One", "Two"])
    run, _ = scripted("Hm.", acting(lambda: board.complete(1), "Well."), "[WORKFLOW_COMPLETE]", todos=board)
    assert [guidance[0] for guidance in cells(run)[1:]] == [("intervention", 1), ("intervention", 2)]
    assert run.rounds[1].followed[0].followed is False


@pytest.mark.req("R0.46", "R0.43")
def test_todo_reads_made_by_the_run_are_not_calls() -> None:
    board = TodoBoard(["One"])
    run, _ = scripted("Hm.", "Well.", acting(lambda: board.complete(1), "Done."), todos=board)
    assert [len(round.records) for round in run.rounds] == [0, 0, 0]


# Lists live with the conversation


@pytest.mark.req("R0.62")
def test_todo_list_continues_with_the_conversation(tmp_path: Path) -> None:
    first, _ = scripted(write("One", "Two"), start(1), complete(1), "One is done.\n[WORKFLOW_COMPLETE]")
    loaded = load_trace(save_trace(first, tmp_path / "first.jsonl"))
    assert loaded == first
    for before in (first, loaded):
        model = ScriptedModel(["Hm.", start(2), do(2), complete(2), "Done."])
        run = Agent(model, tools=[work]).run_sync("Go on.", continue_from=before)
        assert ended(run) == ("completed", "natural")
        assert reasons(run)[1] == "open_todos"
        assert cells(run)[0] == [("todo_list", 1)]
        assert "2. [not-started] Two" in reminder(model.requests[0])
        assert 'todo 2, "Two"' in reminder(model.requests[1])
        assert todo_statuses(run) == ["completed", "completed"]
        assert todo_statuses(before) == ["completed", "not-started"]


@pytest.mark.req("R0.62")
def test_intervention_levels_restart_with_a_new_prompt() -> None:
    first, _ = scripted(write("One"), *WORDS)
    model = ScriptedModel(["Hm.", "[WORKFLOW_COMPLETE]"])
    run = Agent(model, tools=[work]).run_sync("Go on.", continue_from=first)
    assert reminder(model.requests[1]).startswith("REMINDER:")
    assert ended(run) == ("completed", "complete_with_open_todos")


@pytest.mark.req("R0.62")
def test_agent_without_todos_does_not_continue_a_todo_list() -> None:
    first, _ = scripted(write("One"), "[WORKFLOW_COMPLETE]")
    run = Agent(ScriptedModel(["Done."]), tools=[work], todos=False).run_sync("Go on.", continue_from=first)
    assert run.todos == ()
    assert ended(run) == ("completed", "natural")


@pytest.mark.req("R0.48")
def test_intervention_cap_must_be_a_positive_integer(subtests: pytest.Subtests) -> None:
    for cap in [0, -1, 2.5, True, None]:
        with subtests.test(cap=cap):
            with pytest.raises(SettingsError, match="intervention_cap="):
                Matrix(intervention_cap=cap)  # type: ignore[arg-type]
