"""Tables for display: plain data in a log."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from run_builder import Story

from agentnb.core.display_data import Table, plain_number
from agentnb.core.log import events as e
from agentnb.core.log.wire import decode, encode
from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.detect.run import Run

CALL = ToolCall("look", {}, "1")
RESULT = ToolResult("1", "look", (Text("two rows"),))
TABLE = Table(("name", "mass"), ((0, "a", 1.5), (1, None, 2.0)), 2, 2, ("",))


def finished(**fields: Any) -> e.ToolFinished:
    event = Story().begun().replied(CALL).add(e.ToolFinished, result=RESULT, **fields).events[-1]
    assert isinstance(event, e.ToolFinished)
    return event


@pytest.mark.req("R0.73", "R0.74")
def test_table_survives_the_log_in_its_call_record() -> None:
    story = Story().begun().replied(CALL).add(e.ToolStarted, call=CALL).add(e.ToolFinished, result=RESULT, display=TABLE)
    run = Run.from_events([decode(encode(event)) for event in story.events])
    (record,) = run.rounds[0].records
    assert record.display == TABLE
    assert record.result == RESULT


def test_call_without_a_table_is_logged_without_display() -> None:
    assert "display" not in json.loads(encode(finished()))
    assert "display" in json.loads(encode(finished(display=TABLE)))


def test_log_line_older_than_tables_is_read() -> None:
    event = decode(
        b'{"kind":"tool_finished","seq":3,"at":"2026-05-04T12:00:00Z","run_id":"r","result":%s}'
        % json.dumps({"type": "tool_result", "call_id": "1", "name": "look"}).encode()
    )
    assert isinstance(event, e.ToolFinished) and event.display is None


def test_map_texts_changes_only_the_texts() -> None:
    table = Table(("name",), (("row", "x", 1, 1.5, True, None),), 7, 9, ("label",), gap=1)
    changed = table.map_texts(str.upper)
    assert changed == Table(("NAME",), (("ROW", "X", 1, 1.5, True, None),), 7, 9, ("LABEL",), gap=1)
    assert [type(cell) for cell in changed.rows[0]] == [str, str, int, float, bool, type(None)]


def test_unsupported_cell_values_become_text() -> None:
    odd: Any = (Decimal("1.50"), [1], float("nan"), float("inf"), 2**70)
    table = Table(("a",) * 5, (odd,), 1, 5).map_texts(str)
    assert table.rows == (("1.50", "[1]", None, "inf", str(2**70)),)
    assert decode(encode(finished(display=table))).display == table  # type: ignore[union-attr]


def test_numbers_that_fit_json_are_kept(subtests: pytest.Subtests) -> None:
    for value, cell in [(1, 1), (-0.5, -0.5), (2**53, str(2**53)), (float("nan"), None), (float("-inf"), "-inf")]:
        with subtests.test(value=value):
            assert plain_number(value) == cell
