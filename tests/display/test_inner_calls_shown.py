"""Calls made by a tool: inside its card, in text and in the table of calls."""

from __future__ import annotations

from run_builder import RunBuilder, begun

from agentnb import tables
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.run.rounds import CallRecord
from agentnb.display.card.text import run_text
from agentnb.display.form import Form
from agentnb.display.parts.tool_card import MAX_INNER, tool_card_html

OUTER = ToolCall("total", {}, "c1")


def inner_call(number: int) -> CallRecord:
    call = ToolCall("add", {"n": number}, f"c1.{number}")
    return CallRecord(call, ToolResult(call.id, "add", (Text(f"found <{number}>"),)))


def test_inner_calls_are_shown_in_their_parent_card_in_order() -> None:
    html = tool_card_html(CallRecord(OUTER, inner=(inner_call(1),)), Form(live=True), key="call:0:0")
    assert html.count("<details") == 2 and "found &lt;1&gt;" in html and 'data-call="c1.1"' in html
    many = CallRecord(OUTER, inner=tuple(inner_call(n) for n in range(MAX_INNER + 5)))
    html = tool_card_html(many, Form())
    assert "5 earlier calls" in html and html.count("<details") == MAX_INNER + 1
    assert tool_card_html(many, Form(whole=True)).count("<details") == MAX_INNER + 6


def test_inner_calls_appear_as_text_lines_and_table_rows() -> None:
    story = RunBuilder().extend(*begun(0)).add(e.ModelReplied, message=Message("assistant", (OUTER,)))
    story.add(e.ToolStarted, call=OUTER).add(e.ToolStarted, call=inner_call(1).call, parent_call="c1")
    story.add(e.ToolFinished, result=inner_call(1).result, parent_call="c1")
    story.add(e.ToolFinished, result=ToolResult("c1", "total", (Text("1"),)))
    run = story.add(e.RoundFinished, index=0, status="success").run
    assert "↳ add(" in run_text(run)
    table = tables.tool_calls(run)
    assert list(table["call_id"]) == ["c1", "c1.1"] and list(table["position"]) == [0, 0]
    assert table["parent_call"].isna().tolist() == [True, False] and table["parent_call"][1] == "c1"
