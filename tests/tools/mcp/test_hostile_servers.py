"""What servers write reaches nobody as control characters or as a key, and lists or schemas without an end are bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import types as t

from agentnb.core.schema.nesting import MAX_DEPTH
from agentnb.settings import Key
from agentnb.tools.mcp.connections.catalogue import MAX_PAGES, tools_of
from agentnb.tools.mcp.connections.connection import MAX_LINE_CHARACTERS, MAX_LINES, StderrTail
from agentnb.tools.mcp.connections.live_server import LiveServer, reason
from agentnb.tools.mcp.questions import CallQuestions
from agentnb.tools.mcp.server import MCPServer
from agentnb.tools.mcp.server_tool import MAX_SCHEMA_BYTES, MCPTool, problem_of

HOSTILE = "be\x1b[31m ca\U000e0041reful"
SHOWN = "be[31m careful"
SECRET = "tide-7f3a9b21c4"
FORM = t.ElicitRequestFormParams(message=HOSTILE, requested_schema={"type": "object", "properties": {}})


class Hostile:
    """A server whose every text holds control characters: progress, a question, and at last an error."""

    server = MCPServer("bench", "program")
    work_dir = Path()
    refusal = None
    why = staticmethod(reason)

    async def request(self, make: Any, questions: Any) -> Any:
        return await make(SimpleNamespace(session=self))

    async def call_tool(self, *_: Any, progress_callback: Any, input_responses: Any, **__: Any) -> Any:
        await progress_callback(1, 2, HOSTILE)
        if input_responses is None:
            asked = t.ElicitRequest(params=FORM)
            return t.InputRequiredResult(input_requests={"a": asked})
        raise RuntimeError(HOSTILE)


def described(schema: dict[str, Any]) -> t.Tool:
    return t.Tool(name="look", title=HOSTILE, description=HOSTILE, input_schema=schema)


def test_texts_of_a_server_have_no_control_characters() -> None:
    seen: list[str] = []

    async def ask(message: str, schema: Any) -> dict[str, Any]:
        seen.append(message)
        return {}

    context: Any = SimpleNamespace(ask=ask, progress=lambda done, total, message: seen.append(message))
    live: Any = Hostile()
    tool = MCPTool(live, described({"type": "object"}), "mcp_bench_look")
    outcome = asyncio.run(tool.run({}, context))
    assert seen == [SHOWN] * 3, "progress, the question, progress"
    assert not outcome.ok and SHOWN in outcome.problem
    assert (tool.spec.description, tool.title) == (SHOWN, SHOWN)
    assert reason(ExceptionGroup("of tasks", [RuntimeError(f"{HOSTILE}\n")])) == SHOWN, "also where it refuses to start"


@pytest.mark.req("R1.44")
def test_question_without_words_has_some() -> None:
    asked: list[str] = []

    async def ask(message: str, schema: Any) -> dict[str, Any]:
        asked.append(message)
        return {}

    context: Any = SimpleNamespace(ask=ask)
    answer = asyncio.run(CallQuestions(context, Hostile.server).elicit(FORM.model_copy(update={"message": " \x1b\n"})))
    assert (asked, answer.action) == (["Additional input required."], "accept")


def test_standard_error_keeps_its_end_without_keys_and_control_characters() -> None:
    async def tail() -> tuple[str, ...]:
        found = StderrTail()
        found.writer.write("first\n" * 100 + "a" * 10_000 + f"\n{HOSTILE}\nkey {SECRET}\nno end")
        found.writer.flush()
        found.close()
        return found.lines

    Key("planted", SECRET, "a test")
    lines = asyncio.run(tail())
    assert lines[-3:] == (SHOWN, "key [key]", "no end")
    assert len(lines) == MAX_LINES + 1 and lines[-4] == "a" * MAX_LINE_CHARACTERS


def test_list_without_an_end_is_read_no_further() -> None:
    asked = 0

    async def list_tools(**_: Any) -> t.ListToolsResult:
        nonlocal asked
        asked += 1
        assert asked <= MAX_PAGES
        return t.ListToolsResult(tools=[described({"type": "object"})], next_cursor="more")

    client: Any = SimpleNamespace(list_tools=list_tools)
    assert len(asyncio.run(tools_of(client))) == MAX_PAGES


def test_schemas_that_no_model_takes_are_a_problem(subtests: pytest.Subtests) -> None:
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        deep = {"properties": {"a": deep}}
    for name, schema, is_problem in (
        ("usual", {"type": "object"}, False),
        ("deep", deep, True),
        ("large", {"type": "object", "description": "a" * MAX_SCHEMA_BYTES}, True),
        ("unreadable", {"type": "object", "properties": {str(i): {"type": "any"} for i in range(100)}}, True),
        ("pattern of JavaScript", {"type": "object", "properties": {"q": {"pattern": "^[\\w-.]+$"}}}, False),
    ):
        with subtests.test(name):
            assert bool(problem_of(t.Tool.model_construct(name="look", input_schema=schema))) == is_problem


def test_question_outside_any_call_is_cancelled(tmp_path: Path) -> None:
    elsewhere: Any = None
    live = LiveServer(Hostile.server, lambda server: server, elsewhere, tmp_path)
    assert asyncio.run(live._elicit(FORM)).action == "cancel"
