"""The card of a tool call."""

from __future__ import annotations

import re
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from msgspec.structs import replace

from agentnb.agent.agent import Agent
from agentnb.core.display_data import Table
from agentnb.core.messages import Image, Text, ToolCall, ToolResult
from agentnb.core.request import role_of
from agentnb.core.run.rounds import DUPLICATE, MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN, CallRecord
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import call_line
from agentnb.display.form import Form
from agentnb.display.parts.tool_card import ICONS, ToolCard, tool_body_html, tool_card, tool_card_html
from agentnb.display.texts.call_labels import WHY_REJECTED, outcome
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import gates
from agentnb.tools.function import tool

CALL = ToolCall("load", {"path": "penguins.csv"}, "call-1")
TABLE = Table(("a",), ((1,),), 1, 1)


def answered(
    *parts: Text | Image, call: ToolCall = CALL, seconds: float = 0.0, display: Table | None = None, **how: Any
) -> CallRecord:
    return CallRecord(call, ToolResult(call.id, call.name, parts, **how), seconds, display=display)


def picture() -> Image:
    file = BytesIO()
    PIL.Image.new("RGB", (4, 3)).save(file, "PNG")
    return Image("image/png", file.getvalue())


RUNNING = CallRecord(CALL)
OK = answered(Text("344 rows"), seconds=0.038)
FAILED = answered(Text("boom"), is_error=True, error_code="tool_error")
TIMED_OUT = answered(Text("The time limit"), is_error=True, error_code="time_limit")
NOT_RUN = answered(Text("Not run"), is_error=True, error_code="limit_reached")
STOPPED = answered(Text("stopped"), is_error=True, error_code="cancelled")
BLOCKED = answered(
    Text(f"{DUPLICATE}: load was not run again, because the same call was made 2 times in a row. Use its result."),
    is_error=True,
    error_code=DUPLICATE,
)
BLOCKED = replace(BLOCKED, rule="consecutive")
ALL = {"running": RUNNING, "ok": OK, "failed": FAILED, "stopped": STOPPED, "blocked": BLOCKED}


def summary(html: str) -> str:
    """Return the words in the header of a card."""
    match = re.search(r"<summary.*?</summary>", html, re.DOTALL)
    assert match is not None
    return unescape(re.sub(r"<[^>]+>", "", match.group(0)))


def body(html: str) -> str:
    return html.partition("</summary>")[2]


def is_open(html: str) -> bool:
    return " open" in html.partition(">")[0]


@pytest.mark.req("R0.74")
def test_card_has_all_fields_of_a_call() -> None:
    call = ToolCall("bash", {"command": "ls\n-l", "limit": 3}, "call-7", {"signature": "x"})
    record = answered(Text("no"), call=call, seconds=1.5, display=TABLE, is_error=True, error_code="timeout")
    assert tool_card(record, effects={"read", "execute"}, parent="plan") == ToolCard(
        name="bash",
        status="failed",
        call_id="call-7",
        details=("command: ls -l", "limit: 3"),
        display=TABLE,
        seconds=1.5,
        category="execute",
        icon=ICONS["execute"],
        parent="plan",
        metadata={"signature": "x", "error_code": "timeout"},
    )


@pytest.mark.req("R0.74")
def test_card_category_is_planning_or_the_tool_effect(subtests: pytest.Subtests) -> None:
    cases = [
        ("todo_operations", None, "planning"),
        ("think", {"network"}, "planning"),
        ("load", None, "work"),
        ("load", set(), "work"),
        ("load", {"read"}, "read"),
        ("load", {"read", "write"}, "write"),
    ]
    for name, effects, category in cases:
        with subtests.test(name=name, effects=effects):
            card = tool_card(CallRecord(ToolCall(name), role=role_of(name)), effects)
            assert (card.category, card.icon) == (category, ICONS[category]) and len(card.icon) == 1


@pytest.mark.req("R0.73")
def test_running_call_has_a_card_with_an_empty_body() -> None:
    html = tool_card_html(RUNNING, Form(live=True))
    assert summary(html) == 'load path="penguins.csv" … running'
    assert re.sub(r"<[^>]+>", "", body(html)) == "" and html.startswith("<details") and 'data-status="running"' in html


@pytest.mark.req("R0.73")
def test_title_is_the_tool_name_whatever_the_outcome(subtests: pytest.Subtests) -> None:
    for live in [True, False]:
        for status, record in ALL.items():
            with subtests.test(live=live, status=status):
                html = tool_card_html(record, Form(live=live))
                assert summary(html).startswith('load path="penguins.csv" ')
                assert re.findall(r"agentnb-tool-name[^>]*>([^<]*)<", html) == ["load"] and f'data-status="{status}"' in html


@pytest.mark.req("R0.73")
def test_status_is_shown_by_mark_words_and_time() -> None:
    told = {status: summary(tool_card_html(record, Form())).partition('csv" ')[2] for status, record in ALL.items()}
    assert told == {
        "running": "… running",
        "ok": "344 rows",
        "failed": "✗ failed boom",
        "stopped": "■ stopped by you ",
        "blocked": "⊘ rejected: repeated call ",
    }
    assert outcome(TIMED_OUT) == "■ cut off by the time limit"
    assert outcome(NOT_RUN) == "⊘ not run: limit reached"


def test_duration_is_shown_from_a_tenth_of_a_second() -> None:
    assert "ms" not in summary(tool_card_html(answered(Text("x"), seconds=0.099), Form()))
    assert summary(tool_card_html(answered(Text("x"), seconds=0.1), Form())).endswith("x 100 ms")
    assert "99 ms" not in call_line(answered(Text("x"), seconds=0.099)) and "100 ms" in call_line(
        answered(Text("x"), seconds=0.1)
    )


def test_failure_kind_is_shown_unless_the_tool_failed_itself() -> None:
    assert outcome(answered(is_error=True, error_code="invalid_arguments")) == "✗ failed: invalid arguments"
    assert outcome(answered(is_error=True)) == "✗ failed"
    assert outcome(answered(Text("no"), is_error=True, error_code=DUPLICATE)) == "⊘ rejected: repeated call"


def test_call_blocked_by_a_gate_shows_the_reason() -> None:
    def look() -> str:
        return "the same"

    run = Agent(ScriptedModel([*[ToolCall("look")] * 3, "Done."]), tools=[look]).run_sync("go")
    assert run.rounds[2].records[0].rule == "consecutive"
    assert outcome(run.rounds[2].records[0]) == "⊘ rejected: repeated call"


def test_every_gate_rule_has_a_description() -> None:
    source = "".join(path.read_text("utf-8") for path in Path(gates.__file__).parent.glob("*.py"))
    rules = set(re.findall(r'return "(\w+)", f?"', source)) | set(re.findall(r'blocked_as_duplicate\(call, "(\w+)"', source))
    assert rules | {MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN} == set(WHY_REJECTED)


@pytest.mark.req("R0.74")
def test_card_category_comes_from_the_declared_effects() -> None:
    @tool(effects=["write", "read"])
    def put() -> str:
        return "put"

    run = Agent(ScriptedModel([[ToolCall("put")], "Done."]), tools=[put], todos=False).run_sync("go")
    assert [one.effects for one in run.tools] == [("read", "write")]
    live = LiveCard()
    for event in run.events:
        live.take(event)
    html = next(one["html"]["call:0"] for one in live.whole()["rounds"])
    for shown in (run_html(run), running_html(Run.from_events(run.events[:-2])), page_html(run), html):
        assert re.search(f'<span [^>]*title="write"[^>]*>{ICONS["write"]}</span>', shown)


def test_cards_with_pictures_or_tables_start_unfolded(subtests: pytest.Subtests) -> None:
    cases = {
        "running": (RUNNING, False, False),
        "ok": (OK, False, False),
        "failed": (FAILED, False, False),
        "stopped": (STOPPED, False, False),
        "blocked": (BLOCKED, False, False),
        "picture": (answered(Text("a picture"), picture()), True, True),
        "table": (answered(Text("a frame"), display=TABLE), True, False),
        "objects": (answered(Text('[{"a": 1}, {"a": 2}]')), True, False),
        "data": (answered(Text('{"a": 1}')), False, False),
    }
    for name, (record, live, static) in cases.items():
        with subtests.test(name):
            assert is_open(tool_card_html(record, Form(live=True))) is live
            assert is_open(tool_card_html(record, Form())) is static
            assert is_open(tool_card_html(record, Form(), is_open=True))
            assert not is_open(tool_card_html(record, Form(live=True), is_open=False))


def test_card_with_a_hidden_picture_starts_folded() -> None:
    html = tool_card_html(answered(Text("a picture"), picture()), Form(pictures=False, live=True))
    assert not is_open(html) and "<img" not in html


def test_arguments_too_long_for_the_header_are_in_the_body() -> None:
    assert "penguins.csv" not in body(tool_card_html(OK, Form()))
    code = "import pandas\n" + "x = 1\n" * 30
    html = tool_card_html(answered(Text("ok"), call=ToolCall("run", {"code": code}, "c")), Form())
    assert code in unescape(body(html)) and "result" in body(html)
    running = tool_card_html(CallRecord(ToolCall("run", {"code": code}, "c")), Form(live=True))
    assert code in unescape(body(running)) and "result" not in body(running)


def test_written_todos_are_listed_in_the_body() -> None:
    call = ToolCall("todo_operations", {"operation": "write", "todoList": [{"id": 1, "title": "Load it"}]}, "c")
    html = tool_card_html(answered(Text("ok"), call=call), Form())
    assert "write 1 todo" in summary(html) and "Load it" in body(html)


def test_folds_and_result_slots_have_stable_names() -> None:
    record = CallRecord(CALL, FAILED.result, traceback="Traceback")
    html = tool_card_html(record, Form(live=True), key="call:3:0")
    assert re.findall(r'data-fold="([^"]+)"', html) == ["call:3:0", "call:3:0:traceback"]
    assert 'data-fold="call:3:0"' in html and 'data-fill="all:call-1"' in html
    assert "data-fill" not in tool_card_html(record, Form(), key="call:3:0")
    assert "data-fold" not in tool_card_html(record, Form())


def test_show_all_button_loads_the_complete_body() -> None:
    call = ToolCall("write", {"text": "x" * 9_000}, "c")
    record = answered(Text("y" * 9_000), call=call)
    html = tool_card_html(record, Form(live=True), key="call:0:0")
    assert html.count("Show all 9,000 characters") == 2 and 'data-fill="all:c"' in html
    whole = tool_body_html(record, Form(whole=True, live=True))
    assert "x" * 9_000 in whole and "y" * 9_000 in whole and "<button" not in whole
    assert "data-fill" not in tool_card_html(CallRecord(call), Form(live=True))


def test_hostile_names_and_arguments_are_escaped() -> None:
    hostile = '"><script>alert(1)</script>'
    call = ToolCall(hostile, {hostile: hostile}, hostile)
    html = tool_card_html(
        answered(Text(hostile), call=call), Form(live=True), key="call:0:0", where="run.rounds[0].results[0].text"
    )
    assert "<script" not in html and hostile in summary(html)
    assert len(summary(tool_card_html(CallRecord(ToolCall("x" * 10_000, {"a": "y" * 10_000})), Form()))) < 500


def test_card_size_is_bounded_by_its_content() -> None:
    html = tool_card_html(answered(Text("x" * 1_000_000), call=ToolCall("f", {"a": "y" * 1_000_000}, "c")), Form(live=False))
    assert len(html) < 20_000


def test_header_summarizes_the_result_of_a_call(subtests: pytest.Subtests) -> None:
    cases = {
        "a table": (answered(Text("a\n1"), display=TABLE), "1 row, 1 column"),
        "a text": (answered(Text("344 rows\nand more")), "344 rows and more"),
        "a failure": (answered(Text("boom\nat line 1"), is_error=True, error_code="tool_error"), "boom"),
        "a picture": (answered(Text("Figure 1"), picture()), ""),
    }
    for name, (record, expected) in cases.items():
        with subtests.test(name):
            match = re.search(r'<span class="agentnb-tool-(?:result|error)[^>]*>(.*?)</span>', tool_card_html(record, Form()))
            assert unescape(match.group(1) if match else "") == expected
