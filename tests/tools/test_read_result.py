"""The tool with which a model reads the rest of a truncated result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentnb.core.messages import Text, ToolResult
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.defaults import READ_CHARACTERS
from agentnb.tools.read_result import READ_TOOL, SPEC, ResultReader
from agentnb.tools.tool import ToolContext, ToolOutcome

TEXT = "".join(chr(ord("a") + number % 26) for number in range(10_000))


def find(handle: str) -> ToolResult | None:
    return ToolResult("c1", "look", (Text(TEXT),)) if handle == "c1" else None


def called(arguments: Any) -> ToolOutcome:
    reader = ResultReader(find, 5_000)
    return asyncio.run(reader.run(arguments, ToolContext("r", "c2", Path.cwd(), call_in_thread)))


def text(outcome: ToolOutcome) -> str:
    return outcome.as_result("c2", READ_TOOL).text


@pytest.mark.req("R0.76")
def test_result_contains_the_piece_its_position_and_next_offset() -> None:
    assert text(called({"handle": "c1", "offset": 100, "length": 50})) == (
        f"[characters 100 to 150 of 10,000; continue with offset=150]\n{TEXT[100:150]}"
    )
    assert text(called({"handle": "c1", "offset": 9_990})) == f"[characters 9,990 to 10,000 of 10,000, the end]\n{TEXT[-10:]}"


@pytest.mark.req("R0.76")
def test_any_requested_range_returns_a_bounded_piece(subtests: pytest.Subtests) -> None:
    cases = [
        ({}, 0, READ_CHARACTERS),
        ({"length": 10**9}, 0, 5_000),
        ({"offset": 10, "length": 0}, 10, 11),
    ]
    for arguments, start, end in cases:
        with subtests.test(arguments=arguments):
            assert text(called({"handle": "c1", **arguments})).partition("\n")[2] == TEXT[start:end]


@pytest.mark.req("R0.76")
def test_unreadable_range_is_an_error_with_the_reason(subtests: pytest.Subtests) -> None:
    cases = [
        ({"handle": "c9"}, "unknown_handle", "'c9'"),
        ({"handle": "c1", "offset": 10_000}, "past_the_end", "10,000 characters"),
        ({"handle": "c1", "offset": "there"}, "invalid_arguments", "offset"),
        ({"handle": "c1", "offset": -1}, "invalid_arguments", "offset"),
        ({"handle": "c1", "offset": None}, "invalid_arguments", "offset"),
        ({"handle": "c1", "length": True}, "invalid_arguments", "length"),
        ({"handle": 1}, "invalid_arguments", "handle"),
        ({}, "invalid_arguments", "handle"),
        ('{"handle": ', "invalid_arguments", "handle"),
    ]
    for arguments, code, words in cases:
        with subtests.test(arguments=arguments):
            outcome = called(arguments)
            assert not outcome.ok and outcome.error_code == code and words in text(outcome)


def test_read_result_tool_is_read_only_and_parallel_safe() -> None:
    reader = ResultReader(find, 5_000)
    assert reader.parallel_safe and reader.spec == SPEC and reader.spec.name == READ_TOOL
