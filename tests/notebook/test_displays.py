"""How a run is told: text, HTML, live views."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.run import Run
from agentnb.errors import StoreError
from agentnb.models import ScriptedModel
from agentnb.notebook import wording
from agentnb.notebook.answer import Answer
from agentnb.notebook.html import answer_html, run_html
from agentnb.notebook.text import run_text
from agentnb.notebook.views import DisplayView, TerminalView

ALLOWED = {"div", "span", "details", "summary", "pre", "b"}


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def made(*replies: Any, **settings: Any) -> Run:
    return asyncio.run(Agent(ScriptedModel(replies), tools=[add], **settings).run("Go."))


class Tags(HTMLParser):
    """Gathers tags, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_finished_run_says_how_it_ended_and_what_it_took() -> None:
    text = run_text(made(["Adding.", ToolCall("add", {"a": 1})], "It is 3."))
    assert text.startswith("Done: 2 rounds, 1 tool call, ")
    assert "add(a=1)" in text and "→ 3" in text and "It is 3." in text


def test_a_limited_run_says_the_limit_and_what_to_type() -> None:
    run = made(ToolCall("add", {"a": 1}), "x", max_rounds=1)
    for shown in (run_text(run), run_html(run)):
        assert "max_rounds = 1" in shown and "%%agent --continue" in shown


def test_the_answer_stands_outside_what_is_folded() -> None:
    html = run_html(made(ToolCall("add", {"a": 1}), "It is 3."))
    assert html.index("It is 3.") < html.index("<details")
    assert html.count("It is 3.") == 1


def test_a_run_of_one_round_has_nothing_to_fold() -> None:
    assert "<details" not in run_html(made("Hello."))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_no_text_becomes_markup(text: str) -> None:
    run = made([text, ToolCall("add", {"a": text})], text)
    for html in (run_html(run), answer_html(text)):
        tags = Tags(html)
        assert tags.tags <= ALLOWED
        assert tags.attributes <= {"style", "class", "open"}


@pytest.mark.parametrize(
    "hostile", ["<script>x</script>", "<img src=x onerror=x>", '"><svg onload=x>', "</div></details><b>", "&lt;b&gt;"]
)
def test_hostile_text_is_shown_as_it_was_written(hostile: str) -> None:
    tags = Tags(answer_html(hostile))
    assert tags.tags == {"div"} and tags.text == hostile


def test_control_characters_are_made_visible() -> None:
    assert wording.clean("a\x1b[31m\x00\u202eb\tc\nd\r\ne") == "a\ufffd[31m\ufffd\ufffdb\tc\nd\ne"


def test_long_results_are_cut_with_their_length() -> None:
    assert wording.cut("x" * 30, 10) == "x" * 10 + " … (20 more characters)"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0001, "under 1 ms"), (0.038, "38 ms"), (0.9996, "1.0 s"), (2.44, "2.4 s"), (187, "3:07")]
)
def test_durations_read_naturally(seconds: float, words: str) -> None:
    assert wording.duration(seconds) == words


def test_an_answer_is_its_text_and_shows_itself_as_words() -> None:
    from IPython.lib.pretty import pretty

    answer = Answer("It's <3>")
    assert answer == "It's <3>" and pretty(answer) == "It's <3>"
    assert "&lt;3&gt;" in answer._repr_html_()


def test_a_terminal_gets_lines_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([["Adding.", ToolCall("add", {"a": 1})], "It is 3."])
    asyncio.run(Agent(model, tools=[add]).run("Go.", watch=TerminalView()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Adding." and "add(a=1)" in lines[1] and lines[2] == "It is 3." and lines[3].startswith("Done: 2 rounds")


def test_a_view_shows_the_same_run_that_the_log_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data)

    def display(data: dict[str, str], **_: Any) -> Handle:
        shown.append(data)
        return Handle()

    monkeypatch.setattr("agentnb.notebook.views.display", display)
    run = asyncio.run(
        Agent(ScriptedModel([["Adding.", ToolCall("add", {"a": 1})], "It is 3."]), tools=[add]).run("Go.", watch=DisplayView())
    )
    assert shown[-1]["text/html"] == run_html(run, last_text=False)
    assert shown[-1]["text/plain"] == run_text(run, last_text=False)


HOSTILE = ["<script>x</script>", "<img src=x onerror=x>", '"><svg onload=x>', "</div></details><b>", "<style>*{}</style>"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_only_text_wherever_it_stands(hostile: str) -> None:
    """In arguments and their names, tool names, results, errors, tracebacks, the model's name and the reason of a failure."""

    def refuse(text: str) -> str:
        """Refuse."""
        raise ValueError(text + hostile)

    replies = [[hostile, ToolCall(hostile, {hostile: hostile}), ToolCall("refuse", {"text": hostile})], RuntimeError(hostile)]
    model = ScriptedModel(replies, name=f"scripted:{hostile}")
    run = asyncio.run(Agent(model, tools=[refuse]).run(hostile))
    tags = Tags(run_html(run))
    assert tags.tags <= ALLOWED
    assert tags.attributes <= {"style", "class", "open"}
    assert hostile in tags.text


def test_a_long_run_that_goes_on_shows_its_last_rounds_only() -> None:
    run = made(*[ToolCall("add", {"a": n}) for n in range(40)], "Done.")
    growing = Run.from_events(run.events[:-3])
    assert growing.should_continue
    for shown in (run_html(growing), run_text(growing)):
        assert "earlier rounds" in shown and shown.count("add") <= 2 * 13
    assert run_text(run).count("add(a=") == 40


def test_a_terminal_gets_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(Agent(ScriptedModel(["a\x1b[2Jb"])).run("Go.", watch=TerminalView()))
    assert "\x1b" not in capsys.readouterr().out


def test_a_view_shows_also_how_a_run_ended_whose_log_could_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        """Has room for four events."""

        room = 4

        async def open(self, run_id: str, *, nested: bool = False) -> Full:
            return self

        def append(self, event: object) -> None:
            self.room -= 1
            if self.room < 0:
                raise OSError("no room")

        def close(self) -> None:
            pass

    shown: list[str] = []
    handle = type("Handle", (), {"update": lambda self, data, raw: shown.append(data["text/plain"])})()
    monkeypatch.setattr("agentnb.notebook.views.display", lambda data, **_: handle)
    model = ScriptedModel([ToolCall("add", {"a": 1}), "Done."])
    with pytest.raises(StoreError):
        asyncio.run(Agent(model, tools=[add]).run("Go.", store=Full(), watch=DisplayView()))
    assert shown[-1].startswith("Failed: 1 round, 1 tool call") and "could not be written" in shown[-1]


def test_calls_that_the_stop_ended_are_not_said_to_have_failed() -> None:
    live = Agent(ScriptedModel([ToolCall("wait")]), tools=[wait]).start("Go.")
    while not live.run.rounds or not live.run.rounds[-1].records:
        pass
    live.stop()
    text = run_text(live.result(30))
    assert "■ stopped" in text and "failed" not in text


async def wait() -> None:
    """Wait."""
    await asyncio.Event().wait()
