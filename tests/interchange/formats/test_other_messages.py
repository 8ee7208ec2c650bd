"""Messages shared by several formats: LangChain's, and the contents of Google's API."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.core.log.events import Origin
from agentnb.core.messages import Image, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import gemini_contents, langchain_messages
from agentnb.interchange.formats.steps import Reply, Result, Step, SystemPrompt, UserMessage, write_steps


def test_langchain_messages_are_read_in_each_form(subtests: pytest.Subtests) -> None:
    function = {"name": "look", "arguments": '{"at": 1}'}
    forms: list[tuple[dict[str, Any], Step]] = [
        ({"type": "human", "content": "a"}, UserMessage([Text("a")])),
        ({"type": "human", "data": {"content": [{"type": "text", "text": "a"}]}}, UserMessage([Text("a")])),
        ({"id": ["langchain", "SystemMessage"], "type": "constructor", "kwargs": {"content": "s"}}, SystemPrompt("s")),
        ({"role": "user", "content": "a"}, UserMessage([Text("a")])),
        ({"type": "ai", "content": "b", "name": "Critic"}, Reply([Text("b")], [], "Critic")),
        ({"type": "AIMessageChunk", "content": "b"}, Reply([Text("b")], [])),
        (
            {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": {"at": 1}, "id": "c"}]},
            Reply([], [ToolCall("look", {"at": 1}, "c")]),
        ),
        (
            {"type": "ai", "content": "", "invalid_tool_calls": [{"name": "look", "args": "{", "id": "c"}]},
            Reply([], [ToolCall("look", "{", "c")]),
        ),
        (
            {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [{"id": "c", "function": function}]}},
            Reply([], [ToolCall("look", '{"at": 1}', "c")]),
        ),
        (
            {"type": "ai", "content": "b", "additional_kwargs": {"reasoning_content": "hm"}},
            Reply([Thinking("hm"), Text("b")], []),
        ),
        (
            {
                "type": "ai",
                "content": "b",
                "usage_metadata": {"input_tokens": 5, "output_tokens": 2, "output_token_details": {"reasoning": 1}},
                "response_metadata": {"finish_reason": "stop", "model_name": "m"},
            },
            Reply([Text("b")], [], usage=Usage(5, 2, reasoning=1), stop_reason="stop", metadata={"model_name": "m"}),
        ),
        (
            {"type": "tool", "content": "no", "tool_call_id": "c", "name": "look", "status": "error"},
            Result("c", [Text("no")], "look", is_error=True),
        ),
    ]
    for message, step in forms:
        with subtests.test(message=message):
            assert langchain_messages.is_message(message) and langchain_messages.message_steps(message) == [step]


def test_google_message_contents_are_read(subtests: pytest.Subtests) -> None:
    call = {"functionCall": {"name": "look", "args": {"at": 1}, "id": "c"}}
    forms: list[tuple[dict[str, Any], list[Step]]] = [
        ({"role": "user", "parts": [{"text": "a"}]}, [UserMessage([Text("a")])]),
        (
            {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
            [UserMessage([Image("image/png", b"hi")])],
        ),
        ({"role": "user", "parts": [{"fileData": {"fileUri": "x"}}]}, [UserMessage([Text("[file: x]")])]),
        (
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "b"}, call]},
            [Reply([Thinking("hm"), Text("b")], [ToolCall("look", {"at": 1}, "c")])],
        ),
        (
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "7"}, "id": "c"}}]},
            [Result("c", [Text("7")], "look")],
        ),
        (
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"error": "no"}}}]},
            [Result("", [Text("no")], "look", is_error=True)],
        ),
    ]
    for content, steps in forms:
        with subtests.test(content=content):
            assert gemini_contents.is_content(content) and gemini_contents.steps_of([content]) == steps


def test_every_kind_of_step_is_written_to_the_run() -> None:
    writer = RunWriter(Origin("by_hand"), model="m")
    steps: list[Step] = [SystemPrompt("s"), UserMessage([Text("a")]), Reply([Text("b")], [ToolCall("f", {}, "c")])]
    write_steps(writer, [*steps, Result("c", [Text("r")], is_error=True, seconds=2.0)])
    run = writer.finish()
    record = run.rounds[0].records[0]
    assert (run.system, run.prompt, run.rounds[0].text) == ("s", "a", "b")
    assert record.result is not None and (record.result.text, record.result.is_error, record.seconds) == ("r", True, 2.0)
