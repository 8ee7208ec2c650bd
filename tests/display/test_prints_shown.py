"""Prints of tools, shown at their calls."""

from __future__ import annotations

import pytest
from live_calls import changed_by

from agentnb.core.log import events as e
from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run.rounds import CallRecord
from agentnb.display.card.text import MAX_PRINTED, printed_lines
from agentnb.display.form import Form
from agentnb.display.parts.tool_card import tool_card_html

CALL = ToolCall("read", {"path": "a"}, "c1")
DONE = ToolResult("c1", "read", (Text("found"),))
FAILED = ToolResult("c1", "read", (Text("lost"),), True, "tool_error")


def test_card_shows_escaped_printed_output_before_the_result(subtests: pytest.Subtests) -> None:
    for result in (DONE, FAILED):
        with subtests.test(is_error=result.is_error):
            html = tool_card_html(CallRecord(CALL, result, printed="one\n<b>two</b>\x1b[31m\n"), Form())
            assert "<b>two" not in html and "&lt;b&gt;two&lt;/b&gt;" in html and "\x1b" not in html
            assert html.index("printed</div>") < html.index("one\n") < html.index("result</div>")
    assert "printed" not in tool_card_html(CallRecord(CALL, DONE), Form())


def test_printed_output_is_separated_by_a_line_from_the_arguments() -> None:
    long = ToolCall("read", {"text": "many words " * 40}, "c1")
    for call, lines in ((CALL, 1), (long, 2)):
        assert tool_card_html(CallRecord(call, DONE, printed="one\n"), Form()).count("tool-apart") == lines


def test_long_printed_output_is_truncated_except_in_live_cards() -> None:
    record = CallRecord(CALL, DONE, printed="x" * 20_000)
    assert "Show all 20,000 characters" in tool_card_html(record, Form(live=True))
    assert len(tool_card_html(record, Form())) < 10_000 < len(tool_card_html(record, Form(whole=True)))
    where = tool_card_html(record, Form(), where="run.rounds[0].results[0].text")
    assert "run.rounds[0].records[0].printed" in where


def test_text_form_shows_the_last_printed_lines() -> None:
    record = CallRecord(CALL, DONE, printed="".join(f"line {n}\n" for n in range(10)))
    assert list(printed_lines(record)) == [
        f"       | {10 - MAX_PRINTED} earlier lines printed",
        *[f"       | line {n}" for n in range(10 - MAX_PRINTED, 10)],
    ]


def test_live_card_redraws_only_the_call_that_printed() -> None:
    changed = changed_by(e.ToolPrinted("c1", "first\nlast <i>\n"), CALL)
    assert list(changed) == ["call:0"] and 'tool-printing">last &lt;i&gt;</div>' in changed["call:0"]
