"""Answers of the simulated model for a JSON Schema."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agentnb import Agent, Matrix
from agentnb.core.messages import Message, Text, ToolResult, user
from agentnb.core.request import Request
from agentnb.core.schema.json_schema import schema_problems
from agentnb.models.simulated.planner import COMPLETE, Move
from agentnb.models.simulated.shaped_answer import shape_answer

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answer(schema: dict[str, Any], *results: ToolResult, text: str = "Done.") -> Any:
    messages = [user("go"), *(Message("tool", (result,)) for result in results)]
    return msgspec.json.decode(shape_answer(Move("answer", text), schema, Request("", messages)))


def test_generated_answer_matches_its_schema(subtests: pytest.Subtests) -> None:
    for schema in (
        {"type": "string"},
        {"type": "string", "minLength": 9, "maxLength": 12},
        {"type": "string", "maxLength": 2},
        {"type": "string", "format": "date-time"},
        {"enum": ["a", "b"]},
        {"const": None},
        {"type": "integer", "minimum": 7},
        {"type": "integer", "exclusiveMinimum": 7},
        {"type": "number", "maximum": -3},
        {"type": "boolean"},
        {"type": ["null", "string"]},
        {"type": "array", "items": NUMBER, "minItems": 2},
        {"anyOf": [NUMBER, {"type": "null"}]},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": NUMBER}},
        {**NUMBER, "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "string", "format": "uuid"}}},
        {"properties": {"own": {"default": 3}}, "required": ["own", "other"]},
        {},
    ):
        with subtests.test(str(schema)):
            assert list(schema_problems(schema, answer(schema))) == []


def test_recursive_schema_has_an_answer() -> None:
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert answer(endless) is not None
    assert answer({"$ref": "#"}) is None and answer({"$ref": "#/$defs/gone"}) is None


def test_latest_matching_result_becomes_the_answer() -> None:
    texts = ['{"n": 1}', '{"n": 2}', '{"n": "x"}', "words"]
    results = [ToolResult(str(number), "tool", (Text(text),)) for number, text in enumerate(texts)]
    failed = ToolResult("9", "tool", (Text('{"n": 9}'),), is_error=True)
    assert answer(NUMBER, *results, failed) == {"n": 2}
    assert answer(NUMBER, ToolResult("1", "tool", (Text("[" * 500),))) == {"n": 0}


def test_completion_marker_follows_the_shaped_answer() -> None:
    request = Request("", [user("go")])
    assert shape_answer(Move("answer", f"Done.\n\n{COMPLETE}"), NUMBER, request) == f'{{"n":0}}\n\n{COMPLETE}'
    assert shape_answer(Move("step", "Step 1 of 2: add."), NUMBER, request) == "Step 1 of 2: add."
    run = Agent("simulated:disciplined", output=NUMBER, policy=Matrix(workflow_mode=True)).run_sync("go")
    assert (run.stop_reason, run.output) == ("workflow_complete", {"n": 0})


def test_chatty_model_without_valid_output_fails() -> None:
    run = Agent("simulated:chatty?p=1&heed=0", output=NUMBER, todos=False).run_sync("- Say it")
    assert run.status in ("failed", "completed") and (run.output is None) == (run.status == "failed")
    assert all(isinstance(part, Text) for message in run.messages for part in message.parts)
