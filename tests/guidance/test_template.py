"""Variables in guidance texts."""

from __future__ import annotations

import json

import pytest
from asserted_sentences import Snapshot
from ephemeral_text import own_set, reminder
from run_builder import a_round, begun, guidance_of, todo, todos_of
from scripted_runs import scripted, tool_run
from todo_calls import complete, start

from agentnb.core.messages import ToolCall
from agentnb.core.todos import TODO_TOOL, Todo
from agentnb.errors import SettingsError
from agentnb.guidance.template import NO_TODO, VARIABLES, check_variables, render
from agentnb.models.scripted import Line
from agentnb.tools.todos.board import TodoBoard

HOSTILE = "Read {{ max_rounds }} and {{ no_such }} and {x}"


@pytest.mark.req("R0.24")
def test_rounds_are_counted_from_one() -> None:
    assert render("{{ round }} of {{ max_rounds }}", tool_run()) == "1 of 9"
    assert render("{{ round }} of {{ max_rounds }}", tool_run(*begun(0))) == "1 of 9"
    assert render("{{ round }} of {{ max_rounds }}", tool_run(*a_round(0, "A."))) == "2 of 9"
    assert render("{{ round }} of {{ max_rounds }}", tool_run(*a_round(0, "A."), *begun(1))) == "2 of 9"


def test_unknown_limit_is_shown_as_a_question_mark() -> None:
    assert render("{{ max_rounds }}", tool_run(settings={})) == "?"


@pytest.mark.req("R0.51")
def test_next_todo_is_in_progress_or_the_first_not_started() -> None:
    def next_of(*todos: Todo) -> str:
        return render("{{ next_todo }}", tool_run(todos=todos))

    assert next_of(todo(1, "completed"), todo(2), todo(3, "in-progress", "Draw it")) == 'todo 3, "Draw it"'
    assert next_of(todo(1, "completed"), todo(2, "blocked"), todo(3), todo(4)) == 'todo 3, "Write story 3"'
    assert next_of(todo(7, title="Plot  the\nresult", description="As a\n\nline.")) == 'todo 7, "Plot the result": As a line.'
    assert next_of(todo(1, "completed")) == next_of() == NO_TODO


@pytest.mark.req("R0.51", "K0.11")
def test_completing_call_variable_completes_the_current_todo() -> None:
    board = TodoBoard([todo(4, "completed"), todo(6, "in-progress"), todo(7)])
    name, _, arguments = render("{{ completing_call }}", tool_run(todos=tuple(board))).partition(" ")
    assert name == TODO_TOOL
    run, _ = scripted(ToolCall(name, json.loads(arguments)), start(7), complete(7), "Done.", todos=board, guidance="off")
    assert run.rounds[0].completed == (6,)
    assert render("{{ completing_call }}", run) == NO_TODO


def test_open_todos_are_listed_one_per_line_with_status(snapshot: Snapshot) -> None:
    todos = (todo(1, "completed"), todo(2, "in-progress"), todo(3), todo(4, "blocked", blocked_reason="no key"))
    assert render("{{ open_todos }}", tool_run(todos=todos)).splitlines() == snapshot
    assert render("{{ open_todos }}", tool_run(todos=todos_of("completed"))) == NO_TODO


def test_all_todos_are_listed_under_a_heading_with_counts(snapshot: Snapshot) -> None:
    todos = (todo(1, "completed"), todo(2, "in-progress"))
    assert render("{{ todos }}", tool_run(todos=todos)).splitlines() == snapshot
    assert render("{{ todos }}", tool_run()) == NO_TODO


@pytest.mark.req("R0.79")
def test_ignored_variable_counts_consecutive_unfollowed_guidance() -> None:
    facts = [
        *a_round(0, "A."),
        *a_round(1, "B.", guidance=[guidance_of("text")]),
        *a_round(2, "C.", guidance=[guidance_of("text")]),
    ]
    assert render("{{ ignored }}", tool_run(*facts)) == "2"


def test_every_variable_may_be_used_in_a_set(subtests: pytest.Subtests) -> None:
    for name in VARIABLES:
        with subtests.test(name=name):
            field = f"{{{{ {name} }}}}"
            check_variables(field)
            assert render(f"<{field}>", tool_run()) not in (f"<{field}>", "<>")


def test_unknown_variable_is_refused_with_similar_ones(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        check_variables("Close {{ round }} and {{ open_todo }}.")
    with pytest.raises(SettingsError, match="Available: round, max_rounds"):
        check_variables("{{ zzz }}")


def test_other_text_is_unchanged(subtests: pytest.Subtests) -> None:
    for text in ["", "{x}", "{ round }", '{"a": {"b": 1}}', "{{ 3 }}", "{{ a.b }}", "$x$ {{}}", "100 %s {0}"]:
        with subtests.test(text=text):
            check_variables(text)
            assert render(text, tool_run()) == text


def test_substituted_text_is_not_expanded_again() -> None:
    todos = (todo(1, title=HOSTILE, description="{{ round }}"),)
    assert render("{{ next_todo }}|{{ round }}", tool_run(todos=todos)) == f'todo 1, "{HOSTILE}": {{{{ round }}}}|1'
    assert render("{{ open_todos }}", tool_run(todos=todos)) == f"1. [not-started] {HOSTILE}: {{{{ round }}}}"


def test_title_with_braces_is_sent_unchanged() -> None:
    replies: list[Line] = ["A.", "B.", start(1), complete(1), "C."]
    _, model = scripted(*replies, todos=TodoBoard([HOSTILE]), guidance=own_set(stronger="{{ next_todo }}"))
    text = "\n".join(reminder(request) for request in model.requests)
    assert HOSTILE in text
    assert text.count("{{") == text.count(HOSTILE) * 2


def test_malformed_variable_is_refused_with_the_correct_form(subtests: pytest.Subtests) -> None:
    for written in ["{{ next_todo }", "{{next_todo}}", "{{  next_todo }}", "{{ next_todo"]:
        with subtests.test(written=written):
            with pytest.raises(SettingsError, match=r"Write exactly \{\{ next_todo \}\}"):
                own_set(text=f"Do {written} now.")
