"""The runs that ship with agentnb fail as their names say, and the healthy one does not."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot

from agentnb import Run, examples, load_trace
from agentnb.core.todos import open_todos
from agentnb.errors import SettingsError


def decisions(run: Run) -> list[tuple[int, int]]:
    """For each round: how many tools were called, and how many repeats of an answer were said."""
    return [(len(one.calls), int(one.said_before is not None)) for one in run.rounds]


@pytest.mark.req("R0.32")
def test_example_complex_fails_repeats_one_summary_five_times() -> None:
    run = load_trace("complex-fails")
    assert decisions(run) == [(3, 0), (1, 0), (0, 0), (0, 1), (0, 1), (0, 1), (0, 1)]


@pytest.mark.req("R0.85")
def test_example_simple_fail_leaves_a_todo_open() -> None:
    run = load_trace("simple-fail")
    assert [len(one.calls) for one in run.rounds] == [1, 2, 2, 2, 2, 0]
    assert [todo.id for todo in open_todos(run.todos)] == [5] and run.todos[4].status == "not-started"


@pytest.mark.req("R0.86")
def test_example_didnt_close_out_ends_with_todo_in_progress() -> None:
    run = load_trace("didnt-close-out")
    assert [len(one.calls) for one in run.rounds] == [1, 2, 2, 2, 0]
    assert [(todo.id, todo.status) for todo in open_todos(run.todos)] == [(3, "in-progress")]


def test_healthy_example_completes_every_todo() -> None:
    run = load_trace("healthy")
    searches = [record for one in run.rounds for record in one.records if record.call.name == "web_search"]
    assert len(searches) == len({str(record.call.arguments) for record in searches}) == 12
    assert sum(bool(one.calls) for one in run.rounds) == 8 and len(run.todos) == 4 and not open_todos(run.todos)
    assert not any(one.said_before for one in run.rounds) and not any(one.todo_violations for one in run.rounds)


def test_examples_have_short_names_and_file_names(snapshot: Snapshot) -> None:
    for name, file in examples.FILES.items():
        assert examples.path(name) == examples.path(file) and load_trace(name).id == load_trace(file).id
    with pytest.raises(SettingsError, check=snapshot.worded):
        examples.path("simple")
