"""Running and waiting calls in their cards: their progress, and their reason to wait."""

from __future__ import annotations

import pytest
from live_calls import changed_by
from run_builder import RunBuilder, begun

from agentnb.core.log import events as e
from agentnb.core.log.events import Progress, ToolProgress
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.run.rounds import CallRecord
from agentnb.display.card.text import call_line
from agentnb.display.form import Form
from agentnb.display.parts.tool_card import tool_card_html
from agentnb.display.texts import call_labels

CALL = ToolCall("read", {}, "c1")
HALF = Progress(5, 10, "page <5>")


def test_progress_bar_stays_until_the_call_succeeds(subtests: pytest.Subtests) -> None:
    failed, stopped = ToolResult("c1", "read", (), True, "tool_error"), ToolResult("c1", "read", (), True, "cancelled")
    for result, shown in [(None, True), (failed, True), (stopped, True), (ToolResult("c1", "read"), False)]:
        record = CallRecord(CALL, result, progress=HALF)
        with subtests.test(call_labels.state(record)):
            html = tool_card_html(record, Form())
            assert ('value="5" max="10"' in html and "5 of 10: page &lt;5&gt;" in html) == shown
            assert ("5 of 10: page <5>" in call_line(record)) == shown
    assert "<progress" not in tool_card_html(CallRecord(CALL), Form())


def test_progress_bar_without_a_known_total_is_indeterminate() -> None:
    html = tool_card_html(CallRecord(CALL, progress=Progress(1234.5)), Form())
    assert "<progress" in html and "max=" not in html and "1,234" in html
    assert call_labels.progress(Progress(3, 12_000)) == "3 of 12,000"


def test_live_card_redraws_only_the_call_with_progress() -> None:
    changed = changed_by(ToolProgress("c1", HALF), CALL)
    assert list(changed) == ["call:0"] and "5 of 10" in changed["call:0"]


def test_call_waiting_for_approval_is_not_shown_as_running() -> None:
    story = RunBuilder().extend(*begun(0)).add(e.ModelReplied, message=Message("assistant", (CALL,)))
    story.add(e.ToolAdmitted, call=CALL, reason="approval")
    (record,) = story.run.rounds[0].records
    assert (call_labels.state(record), call_labels.outcome(record)) == ("waiting", "… waiting for you")
    assert 'data-status="waiting"' in tool_card_html(record, Form())
    story.add(e.ToolStarted, call=CALL)
    assert call_labels.state(story.run.rounds[0].records[0]) == "running"
