"""A run as HTML: its content, and no text becomes markup."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from html.parser import HTMLParser
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hostile import check_is_harmless
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from property_settings import examples
from run_builder import begun, run_of
from scripted_runs import add, play

from agentnb.agent.agent import Agent
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.core.todos import Todo
from agentnb.detect.run import Run
from agentnb.display.card.finished import answer_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import ROUNDS_WHILE_RUNNING
from agentnb.display.card.transcript import FIRST_ROUNDS
from agentnb.display.defaults import MAX_SAVED_ROUNDS
from agentnb.display.form import Form
from agentnb.display.markup import Html
from agentnb.display.parts.head import MARKS, chip_html
from agentnb.display.parts.round_pieces import round_pieces
from agentnb.display.parts.todo_list import todos_html
from agentnb.models import ScriptedModel
from agentnb.tools.todos.board import TodoBoard

HOSTILE = ["<script>x</script>", "<img src=x onerror=x>", '"><svg onload=x>', "</div></details><b>", "<style>*{}</style>"]


made = partial(play, tools=[add], prompt="Go.")


class Words(HTMLParser):
    """Collects the text of elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data


def test_limited_run_names_the_limit_and_what_to_type() -> None:
    shown = run_html(made(ToolCall("add", {"a": 1}), "x", max_rounds=1))
    assert "Limit reached: 1 round<" in shown and "agent.run(PROMPT, continue_from=run)<" in shown


def test_answer_is_outside_the_folds() -> None:
    html = run_html(made(ToolCall("add", {"a": 1}), "It is 3."))
    assert html.index("It is 3.") < html.index("<details")
    assert html.count("It is 3.") == 1


def test_run_with_open_todos_shows_a_warning() -> None:
    run = made("Done.\n[WORKFLOW_COMPLETE]", todos=TodoBoard(["One"]))
    assert run.status == "completed"
    assert "Done, todos open" in Words(run_html(run)).text
    assert 'class="agentnb-chip agentnb-warn"' in chip_html(run) and MARKS["warn"] in chip_html(run)


def test_prompt_is_shown_only_on_request() -> None:
    run = made(ToolCall("add", {"a": 1}), "It is 3.")
    assert "Asked: Go." in Words(run_html(run, prompt=True)).text
    assert "Asked" not in Words(run_html(run)).text  # the cell above shows it


def test_long_prompt_is_folded_but_kept_in_full() -> None:
    for prompt in ("word " * 200 + "end", "line\n" * 9 + "end"):
        folded = run_html(play("Done.", prompt=prompt), prompt=True)
        title, _, text = folded.partition("</summary>")
        assert title.count("word") < 60 and "<details" in title and "end</div></details>" in text
    assert "<details" not in run_html(play("Done.", prompt="Short."), prompt=True).partition("Done.")[0]


def test_very_long_run_keeps_first_and_last_rounds() -> None:
    count = FIRST_ROUNDS + 3 + MAX_SAVED_ROUNDS
    run = made(*[ToolCall("add", {"a": n}) for n in range(count - 1)], "Done.", max_rounds=count)
    assert len(run.rounds) == count and run.is_answered
    html = run_html(run)
    kept = re.findall(r'data-round="(\d+)"', html)
    assert kept == [str(index) for index in (*range(FIRST_ROUNDS), *range(FIRST_ROUNDS + 3, count))]
    assert Words(html).text.count("3 rounds left out") == 1 and 'save_trace(run, "run.html")' in Words(html).text
    assert "3 rounds left out" not in page_html(run) and page_html(run).count("data-round=") == count


def test_thinking_is_shown_folded_before_the_text(snapshot: Snapshot) -> None:
    message = Message("assistant", (Thinking("  I weigh <b>it</b>. "), Thinking(" "), Thinking("Yes."), Text("It is so.")))
    run = run_of(*begun(0), (e.ModelReplied, {"message": message}))
    pieces = round_pieces(run.rounds[0], Form())
    assert list(pieces) == ["thinking", "text"]
    thinking = pieces["thinking"]
    check_is_harmless(thinking)
    assert Words(thinking).text == snapshot
    assert thinking.startswith("<details") and " open" not in thinking.partition(">")[0]
    opened = round_pieces(run.rounds[0], Form(folds={"thinking:0": True}))["thinking"]
    assert " open" in opened.partition(">")[0]
    silent = replace(run.rounds[0], reply=Message("assistant", (Thinking(" "), Text("It is so."))))
    assert list(round_pieces(silent, Form())) == ["text"]


def test_run_with_one_round_expands_only_to_its_details() -> None:
    html = run_html(made("Hello."))
    assert html.count('class="agentnb-part"') == 1 and ">Details</summary>" in html


@pytest.mark.req("R0.74")
@examples(60)
@given(st.text(max_size=200))
def test_hostile_text_never_becomes_markup(text: str) -> None:
    run = made([text, ToolCall("add", {"a": text})], text)
    growing = Run.from_events(run.events[:-3])
    assert growing.should_continue
    for html in (run_html(run, prompt=True), answer_html(text), running_html(growing, streaming=text, hint=text)):
        check_is_harmless(html)


def test_hostile_answer_is_shown_verbatim(subtests: pytest.Subtests) -> None:
    for hostile in HOSTILE:
        with subtests.test(hostile=hostile):
            html = answer_html(hostile)
            check_is_harmless(html)
            assert Words(html).text.strip() == hostile


def test_entity_in_an_answer_becomes_a_character_not_a_tag() -> None:
    html = answer_html("&lt;b&gt;")
    check_is_harmless(html)
    assert Words(html).text.strip() == "<b>" and "<b>" not in html


@pytest.mark.req("R0.74")
def test_hostile_text_is_escaped_everywhere(subtests: pytest.Subtests) -> None:
    """Covers arguments, names, results, errors, tracebacks, the model name and the reason of a failure."""

    def refuse(text: str) -> str:
        """Refuse."""
        raise ValueError(text + text)

    for hostile in [*HOSTILE, "&lt;b&gt;"]:
        with subtests.test(hostile=hostile):
            replies = [
                [hostile, ToolCall(hostile, {hostile: hostile}), ToolCall("refuse", {"text": hostile})],
                RuntimeError(hostile),
            ]
            model = ScriptedModel(replies, name=f"scripted:{hostile}")
            run = asyncio.run(Agent(model, tools=[refuse]).run(hostile))
            growing = Run.from_events(run.events[:-1])
            assert growing.should_continue
            for html in (run_html(run, prompt=True), running_html(growing, streaming=hostile)):
                check_is_harmless(html)
                text = Words(html).text
                assert text.count(hostile) >= 8 and f"ValueError: {hostile}{hostile}" in text


def test_long_running_run_shows_only_its_last_rounds() -> None:
    run = made(*[ToolCall("add", {"a": n}) for n in range(40)], "Done.")
    growing = Run.from_events(run.events[:-3])
    assert growing.should_continue
    shown = running_html(growing)
    first = len(growing.rounds) - ROUNDS_WHILE_RUNNING
    assert f"{first} earlier rounds" in shown
    assert re.findall(r'data-round="(\d+)"', shown) == [str(index) for index in range(first, first + ROUNDS_WHILE_RUNNING)]
    assert run_html(run).count("data-round=") == 41


def test_finished_rounds_are_rendered_only_once() -> None:
    run = made(*[ToolCall("add", {"a": n}) for n in range(3)], "Done.")
    drawn: dict[int, Html] = {}
    growing = Run()
    for event in run.events:
        growing.apply(event)
        assert running_html(growing, drawn=drawn) == running_html(growing)
    assert sorted(drawn) == [0, 1, 2, 3]
    drawn[0] = Html("as it was drawn")
    assert "as it was drawn" in running_html(growing, drawn=drawn)


def test_running_run_shows_state_streamed_text_and_hint() -> None:
    run = made(ToolCall("add", {"a": 1}), "Done.")
    text = Words(running_html(Run.from_events(run.events[:-3]), streaming="It is <3>", hint="Look elsewhere")).text
    assert "It is <3>" in text and "Look elsewhere" in text and "Done" not in text


def test_message_before_the_first_round_is_shown() -> None:
    run = run_of((e.CommandReceived, {"command": "say", "text": "And <b>the roof</b>."}))
    assert run.should_continue and not run.rounds
    for html in (running_html(run), run_html(run)):
        check_is_harmless(html)
        assert "You: And <b>the roof</b>." in Words(html).text


def test_todo_status_is_shown_in_words_beside_its_mark(subtests: pytest.Subtests) -> None:
    cases = [
        ("not-started", "○ open: Plot it"),
        ("in-progress", "◐ Plot it (in progress)"),
        ("completed", "✓ done: Plot it"),
        ("blocked", "⊘ Plot it (blocked: no data)"),
    ]
    for status, expected in cases:
        with subtests.test(status=status):
            html = todos_html((Todo(1, "Plot it", status, blocked_reason="no data"),), live=False)
            check_is_harmless(html)
            assert Words(html).text.endswith(expected)
            assert f'aria-hidden="true">{expected[0]} </span>' in html  # a screen reader reads only the words


@pytest.mark.parametrize("status", ["not-started", "completed"])
def test_editable_todo_has_an_accessible_state(status: Any) -> None:
    html = todos_html((Todo(1, "Plot it", status),), live=True)
    assert 'role="checkbox"' in html and f'aria-checked="{"true" if status == "completed" else "false"}"' in html


def test_todo_buttons_name_their_action_and_todo() -> None:
    html = todos_html((Todo(1, "Load it", "completed"), Todo(7, "Plot it", "not-started")), live=True)
    buttons = {tuple(re.findall(r' data-(?:do|id|key)="([^"]*)"', button)) for button in re.findall(r"<button[^>]*>", html)}
    assert {("tick", "1", "tick:1"), ("tick", "7", "tick:7")} <= buttons
    assert all(len(one) == 3 and one[2] == f"{one[0]}:{one[1]}" for one in buttons)
