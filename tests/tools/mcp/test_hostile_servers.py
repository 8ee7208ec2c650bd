"""Hostile servers: no control characters or keys in texts, and bounded lists and schemas."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp import MCPError
from mcp import types as t
from pydantic import ValidationError

from agentnb.core.schema.json_schema import MAX_REPAIRS
from agentnb.core.schema.nesting import MAX_DEPTH
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.settings import Key
from agentnb.tools.mcp.call_questions import CallQuestions
from agentnb.tools.mcp.connections import stderr_tail
from agentnb.tools.mcp.connections.lenient_results import BARE, readable_message
from agentnb.tools.mcp.connections.live_server import LiveServer, _asker, reason
from agentnb.tools.mcp.connections.server_catalogue import CLOSED, MAX_PAGES, tools_of
from agentnb.tools.mcp.connections.stderr_tail import _PIPE_BYTES, MAX_LINE_CHARACTERS, MAX_LINES, StderrTail
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.server_tool import MAX_SCHEMA_BYTES, MCPTool, tools_of_server

HOSTILE = "be\x1b[31m ca\U000e0041reful"
SHOWN = "be[31m careful"
SECRET = "tide-7f3a9b21c4"
FORM = t.ElicitRequestFormParams(message=HOSTILE, requested_schema={"type": "object", "properties": {}})


class Hostile:
    """A server with control characters in every text: progress, a question, and an error."""

    server = MCPServer("bench", "program")
    work_dir = Path()
    refusal = staticmethod(lambda error: None)
    why = staticmethod(reason)
    set_aside: dict[str, str] = {}

    async def request(self, make: Any, asker: Any) -> Any:
        async def call_tool(*_: Any, progress_callback: Any) -> Any:
            await progress_callback(1, 2, HOSTILE)
            await asker(FORM)
            raise RuntimeError(HOSTILE)

        return await make(SimpleNamespace(call_tool=call_tool))


def described(schema: dict[str, Any]) -> t.Tool:
    return t.Tool(name="look", title=HOSTILE, description=HOSTILE, input_schema=schema)


def test_control_characters_are_removed_from_server_texts() -> None:
    seen: list[str] = []

    async def ask(message: str, schema: Any) -> dict[str, Any]:
        seen.append(message)
        return {}

    context: Any = SimpleNamespace(ask=ask, progress=lambda done, total, message: seen.append(message))
    live: Any = Hostile()
    tool = MCPTool(live, described({"type": "object"}), "mcp_bench_look")
    outcome = asyncio.run(tool.run({}, context))
    assert seen == [SHOWN] * 2, "progress, the question"
    assert not outcome.ok and SHOWN in outcome.problem
    assert (tool.spec.description, tool.title) == (SHOWN, SHOWN)
    assert reason(ExceptionGroup("of tasks", [RuntimeError(f"{HOSTILE}\n")])) == SHOWN, "also if it refuses to start"


@pytest.mark.req("R1.44")
def test_question_without_text_gets_a_default_text() -> None:
    asked: list[str] = []

    async def ask(message: str, schema: Any) -> dict[str, Any]:
        asked.append(message)
        return {}

    context: Any = SimpleNamespace(ask=ask)
    answer = asyncio.run(CallQuestions(context).elicit(FORM.model_copy(update={"message": " \x1b\n"})))
    assert (asked, answer.action) == (["Additional input required."], "accept")


def test_standard_error_tail_is_kept_without_keys_or_control_characters() -> None:
    async def tail() -> tuple[str, ...]:
        found = StderrTail()
        found.writer.write("first\n" * 100 + "a" * 10_000 + f"\n{HOSTILE}\nkey {SECRET}\nno end")
        found.writer.flush()
        found.close()
        return found.lines

    Key("planted", SECRET, "a test")
    lines = asyncio.run(tail())
    assert lines[-3:] == (SHOWN, "key [key]", "no end")
    assert len(lines) == MAX_LINES and lines[-4] == "a" * MAX_LINE_CHARACTERS


def test_truncated_standard_error_shows_no_part_of_a_key() -> None:
    async def tail() -> tuple[str, ...]:
        found = StderrTail()
        for text in (f"{SECRET}\n", "a" * (_PIPE_BYTES - 5)):  # the cut is within the key
            found.writer.write(text)
            found.writer.flush()
            await asyncio.sleep(0.01)
        found.close()
        return found.lines

    Key("planted", SECRET, "a test")
    assert asyncio.run(tail()) == ("a" * MAX_LINE_CHARACTERS,)


@pytest.mark.parametrize(
    ("pieces", "content"),
    [
        ((f"first\nkey {SECRET[:5]}", f"{SECRET[5:]}\n{HOSTILE}"), "first\nkey [key]\nbe[31m careful\n"),
        (("one\n", "x" * 50, "y" * 60 + "\n", "end\n"), "one\n" + "x" * 50 + "y" * 60 + "\nend\n"),
        (("one\n", "x" * 40_000, "y" * 40_000 + "\n", "end"), "one\n[...]\nend\n"),
        (("a\nfirst line\n", "second line\nb\n", "first line\nc\n"), "a\n[key]\nb\nfirst line\nc\n"),
        ((), ""),
    ],
)
def test_standard_error_file_has_whole_lines_without_keys(
    pieces: tuple[str, ...], content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stderr_tail, "MAX_FILE_BYTES", 100)
    path = tmp_path / "stderr.txt"

    def append(lines: bytes) -> Path:
        with path.open("ab") as file:
            file.write(lines)
        return path

    async def write() -> Path | None:
        found = StderrTail(append)
        for piece in pieces:
            found.writer.write(piece)
            found.writer.flush()
            await asyncio.sleep(0.01)
        found.close()
        assert "second line" not in found.lines
        return found.file

    Key("planted", SECRET, "a test")
    Key("two lines", "first line\nsecond line", "a test")
    assert asyncio.run(write()) == (path if content else None)
    assert (path.read_text() if content else "") == content


def test_late_question_of_a_finished_call_is_cancelled() -> None:
    asked: list[Any] = []

    async def ask() -> Any:
        over, live = asyncio.Event(), cast(Any, SimpleNamespace(_askers=[]))

        async def asker(params: Any) -> None:
            asked.append(params)

        async def late() -> Any:
            await over.wait()
            return await LiveServer._elicit(live, None, FORM)

        token = _asker.set(asker)
        live._askers.append(asker)
        question = asyncio.ensure_future(late())  # the client creates tasks within the call
        live._askers.remove(asker)
        _asker.reset(token)
        over.set()
        return await question

    assert asyncio.run(ask()).action == "cancel" and not asked


def test_response_with_a_huge_number_is_read() -> None:
    with pytest.raises(ValidationError) as caught:
        t.jsonrpc_message_adapter.validate_json('{"jsonrpc": "2.0", "id": 3, "result": [%s]}' % ("9" * 5_000))
    assert readable_message(caught.value) == {"jsonrpc": "2.0", "id": 3, "result": {BARE: ["9" * 5_000]}}


def test_listing_of_endless_tool_pages_stops_at_a_limit() -> None:
    asked = 0

    async def list_tools(**_: Any) -> t.ListToolsResult:
        nonlocal asked
        asked += 1
        assert asked <= MAX_PAGES
        return t.ListToolsResult(tools=[described({"type": "object"})], next_cursor="more")

    client: Any = SimpleNamespace(list_tools=list_tools)
    assert len(asyncio.run(tools_of(client))) == MAX_PAGES


def test_unsupported_tool_listing_is_empty_and_a_failed_one_raises() -> None:
    cases: list[tuple[t.ToolsCapability | None, int, str, bool]] = [
        (None, -32603, "not implemented", True),
        (t.ToolsCapability(), -32601, "no", True),
        (t.ToolsCapability(), -32603, "no database", False),
        (None, -32000, CLOSED, False),
    ]
    for tools, code, message, is_empty in cases:

        async def list_tools(code: int = code, message: str = message, **_: Any) -> None:
            raise MCPError(code=code, message=message)

        client: Any = SimpleNamespace(list_tools=list_tools, server_capabilities=SimpleNamespace(tools=tools))
        with nullcontext() if is_empty else pytest.raises(MCPError):
            assert asyncio.run(tools_of(client)) == ()


def test_allow_rule_excludes_tools_with_a_lookalike_name() -> None:
    live: Any = Hostile()
    tools = [described({"type": "object"}).model_copy(update={"name": name}) for name in ("look", "look\x07")]
    reached = [
        Rule.read("mcp:bench/look", "allow").is_about(tool.spec.name, tool) for tool in tools_of_server(live, tools).usable
    ]
    assert reached == [True, False]


def test_tool_name_avoids_those_of_excluded_tools() -> None:
    live: Any = SimpleNamespace(server=Hostile.server, set_aside={"look_at": "it runs only as a task"})
    offered = tools_of_server(live, [described({"type": "object"}).model_copy(update={"name": "look.at"})])
    assert offered.usable[0].spec.name.startswith("mcp_bench_look_at_") and list(offered.left_out) == ["look_at"]


def test_unusable_schemas_are_reported_as_a_problem(subtests: pytest.Subtests) -> None:
    live: Any = Hostile()
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        deep = {"properties": {"a": deep}}
    for name, schema, is_problem in (
        ("usual", {"type": "object"}, False),
        ("deep", deep, True),
        ("large", {"type": "object", "description": "a" * MAX_SCHEMA_BYTES}, True),
        ("unreadable", {"type": "object", "properties": {str(i): {"type": "any"} for i in range(MAX_REPAIRS + 1)}}, True),
        ("pattern of JavaScript", {"type": "object", "properties": {"q": {"pattern": "^[\\w-.]+$"}}}, False),
    ):
        with subtests.test(name):
            tool = t.Tool.model_construct(name="look", input_schema=schema, annotations=None)
            offered = tools_of_server(live, [tool, described({"type": "object"}).model_copy(update={"name": "other"})])
            assert [tool_.tool_name for tool_ in offered.usable] == ["other"] if is_problem else ["look", "other"]
            assert list(offered.left_out) == ["look"] * is_problem


def test_question_outside_any_call_is_cancelled(tmp_path: Path) -> None:
    book: Any = None
    live = LiveServer(Hostile.server, book, tmp_path)
    assert asyncio.run(live._elicit(None, FORM)).action == "cancel"
