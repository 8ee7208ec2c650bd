"""The plan in a prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core.messages import ToolCall
from agentnb.core.todos import Todo, format_list
from agentnb.models.simulated.plan_parser import Entry, PlanItem, calls_of, read_listing, read_plan, short_title

ARGUMENTS = {"load": ("path", "sep", "rows"), "now": ()}


def calls(*code: str) -> list[ToolCall]:
    return calls_of(PlanItem("", code), ARGUMENTS)


def test_prompt_without_a_list_has_no_plan(subtests: pytest.Subtests) -> None:
    cases = ["", "Do it.", "`load('x')`", "# Title\n\ntext", "    - code, not a list"]
    for prompt in cases:
        with subtests.test(prompt):
            assert read_plan(prompt) == ()


def test_any_markdown_list_is_a_plan(subtests: pytest.Subtests) -> None:
    for mark in ["- ", "* ", "+ ", "1. ", "1) "]:
        with subtests.test(mark):
            assert read_plan(f"Please\n\n{mark}load it `load('x')`\n") == (PlanItem("load it load('x')", ("load('x')",)),)


def test_items_of_several_lists_keep_their_order() -> None:
    assert [item.title for item in read_plan("- a\n- b\n\nThen:\n\n1. c\n2. d\n")] == ["a", "b", "c", "d"]


def test_item_precedes_its_sublist() -> None:
    assert [item.title for item in read_plan("- a\n  - a1\n  - a2\n- b\n")] == ["a", "a1", "a2", "b"]


def test_an_item_may_have_several_lines_and_paragraphs() -> None:
    (item,) = read_plan("- **one** `now()`\n  two\n\n  three `load('x')`\n")
    assert item == PlanItem("one now() two three load('x')", ("now()", "load('x')"))


def test_literal_arguments_become_json_values(subtests: pytest.Subtests) -> None:
    cases = [
        ("load('a.csv')", {"path": "a.csv"}),
        ("load('a.csv', ';', 3)", {"path": "a.csv", "sep": ";", "rows": 3}),
        ("load('a.csv', rows=-3)", {"path": "a.csv", "rows": -3}),
        ("load(rows=[1, (2, 3)], path=None)", {"rows": [1, [2, 3]], "path": None}),
        ("load({'a': {1}})", {"path": {"a": [1]}}),
        ("load(b'x')", {"path": "b'x'"}),
        ("load(path={1: True})", {"path": {"1": True}}),
        (" load( 'x' ) ", {"path": "x"}),
        ("load(other=1)", {"other": 1}),
    ]
    for code, arguments in cases:
        with subtests.test(code):
            assert calls(code) == [ToolCall("load", arguments)]


NO_CALLS = [
    "load",
    "load(",
    "load(x)",
    "load(open('x'))",
    "load(**{'path': 1})",
    "load(*['x'])",
    "load(1, 2, 3, 4)",
    "now(1)",
    "other('x')",
    "a.load('x')",
    "load('x') + 1",
    "load('x'); now()",
    "load('\x00')",
    "",
    "(" * 500,
]


def test_only_tool_calls_with_literals_are_parsed(subtests: pytest.Subtests) -> None:
    for code in NO_CALLS:
        with subtests.test(code):
            assert calls(code) == []


def test_calls_are_in_text_order() -> None:
    assert [call.name for call in calls("now()", "nonsense", "load('x')")] == ["now", "load"]


@examples(100)
@given(st.text(max_size=60))
def test_any_prompt_can_be_parsed(prompt: str) -> None:
    for item in read_plan(f"- {prompt}\n- `{prompt}`"):
        calls_of(item, ARGUMENTS)


def test_todo_list_is_parsed_as_the_tool_prints_it() -> None:
    todos = (
        Todo(1, "Load the table", "completed"),
        Todo(2, "Describe", "in-progress", description="with `now()`\nand `load('x')`"),
        Todo(30, "Wait", "blocked", blocked_reason="for Ann"),
    )
    listing = f"Todos (1 of 3 completed):\n{format_list(todos)}"
    text = f"Updated: 1 applied.\n- 2. [in-progress] quoted\n\n{listing}\n\n4. [open] Not of it"
    entries = read_listing(text)
    assert entries == (
        Entry(1, "completed", "Load the table"),
        Entry(2, "in-progress", "Describe: with `now()` and `load('x')`"),
        Entry(30, "blocked", "Wait (blocked: for Ann)"),
    )
    assert [entry.is_open for entry in entries] == [False, True, True]
    assert [title in entry.titles for entry, title in zip(entries, ("Load the", "Describe", "Wait"), strict=True)] == [
        False,
        True,
        True,
    ]
    assert entries[1].as_item().code == ("now()", "load('x')")


def test_last_of_two_lists_in_a_text_counts() -> None:
    text = "Todos (0 of 1 completed):\n1. [not-started] Old\n\nTodos (0 of 1 completed):\n2. [not-started] New"
    assert read_listing(text) == (Entry(2, "not-started", "New"),)


def test_text_without_a_list_differs_from_an_empty_list(subtests: pytest.Subtests) -> None:
    cases = [("", None), ("No list here", None), ("There are no todos. Write some.", ()), ("There is no list to update.", ())]
    for text, entries in cases:
        with subtests.test(text):
            assert read_listing(text) == entries


def test_titles_are_limited_to_60_characters(subtests: pytest.Subtests) -> None:
    for length in [1, 59, 60, 61, 500]:
        with subtests.test(length=length):
            title = short_title("x" * length)
            assert len(title) <= 60 and (title == "x" * length) == (length <= 60)
