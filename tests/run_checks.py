"""Facts that tests read from a run, and properties of every finished run."""

from __future__ import annotations

from collections import Counter

from agentnb.core.log.events import CallBlocked, LimitReached, TodosChanged, ToolFinished, ToolStarted
from agentnb.core.messages import ToolResult
from agentnb.detect.run import Run


def kinds(run: Run) -> list[str]:
    return [type(event).__name__ for event in run.events]


def results(run: Run) -> list[ToolResult]:
    return [result for a_round in run.rounds for result in a_round.results]


def codes(run: Run) -> list[str | None]:
    """Return the error code of each result."""
    return [result.error_code for result in results(run)]


def reasons(run: Run) -> list[str]:
    """Return the reason of each round."""
    return [a_round.reason for a_round in run.rounds]


def round_statuses(run: Run) -> list[str]:
    return [a_round.status for a_round in run.rounds]


def todo_statuses(run: Run) -> list[str]:
    return [todo.status for todo in run.todos]


def cells(run: Run) -> list[list[tuple[str, int]]]:
    """Return the guidance of each round: cell and level, in order."""
    return [[(one.cell, one.level) for one in a_round.guidance] for a_round in run.rounds]


def ended(run: Run) -> tuple[str, str | None]:
    return run.status, run.stop_reason


def limits_reached(run: Run) -> list[tuple[str, float]]:
    """Return name and value of the limits that ended it."""
    return [(event.limit, event.value) for event in run.events if isinstance(event, LimitReached)]


def todo_changes(run: Run) -> list[TodosChanged]:
    return [event for event in run.events if isinstance(event, TodosChanged)]


def answers(run: Run) -> Counter[str]:
    """Count the answers of each call, by its tool or by a gate."""
    return Counter(event.result.call_id for event in run.events if isinstance(event, ToolFinished | CallBlocked))


def assert_every_call_has_one_result(run: Run) -> None:
    """Check that each result is once in the log, in its round, and in the conversation after its reply, in order."""
    asked = [call.id for a_round in run.rounds for call in a_round.calls]
    assert len(set(asked)) == len(asked)
    assert answers(run) == Counter(asked)
    for a_round in run.rounds:
        assert [result.call_id for result in a_round.results] == [call.id for call in a_round.calls]
    blocked = {event.call.id for event in run.events if isinstance(event, CallBlocked)}
    assert not blocked & {event.call.id for event in run.events if isinstance(event, ToolStarted)}
    for message, following in zip(run.messages, [*run.messages[1:], None], strict=True):
        if message.calls:
            assert following is not None and following.role == "tool"
            told = [part.call_id for part in following.parts if isinstance(part, ToolResult)]
            assert told == [call.id for call in message.calls] and len(told) == len(following.parts)


def assert_closed(run: Run) -> None:
    """Check that the log has an end, nothing after it, and no open round."""
    assert kinds(run)[-1] == "RunFinished"
    assert kinds(run).count("RunFinished") == 1
    assert run.open_round is None
    assert not run.should_continue


def checked(run: Run) -> Run:
    """Check that the closed run has one result per call, and equals the fold of its events."""
    assert_closed(run)
    assert_every_call_has_one_result(run)
    assert Run.from_events(run.events) == run
    return run
