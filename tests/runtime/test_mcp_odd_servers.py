"""MCP servers with defects: only the defective parts are lost."""

from __future__ import annotations

import json
import queue
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asserted_sentences import Snapshot
from loopback_thread import Handler, LoopbackThread
from mcp import MCPError
from mcp_runs import odd, played, results, texts
from own_folder import use_own_folder

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.errors import ServerFailed, SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.questions.call_clock import CallClock
from agentnb.runtime.servers.servers import Servers
from agentnb.testing import LoopbackServer
from agentnb.tools.mcp.connections.server_catalogue import REFUSED
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools
from agentnb.tools.mcp.wire_names import wire_names

TOOLS = [
    {"name": "untyped", "inputSchema": {"properties": {"a": {"type": "integer"}}}},
    {"name": "get.it", "inputSchema": {"type": "object"}},
    {"name": "get_it", "inputSchema": {"type": "object"}},
    {"name": "list", "inputSchema": {"type": "array"}},
    {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
]
SPOKEN = {"capabilities": {"tools": {}}, "serverInfo": {"name": "o", "version": "1"}}
GET = {"name": "get", "inputSchema": {"type": "object"}}


def test_invalid_tools_are_left_out_with_a_warning() -> None:
    run = played([ToolCall("mcp_odd_untyped", {"a": 1})], [odd({"result": {"tools": TOOLS}}, {"content": "three"})])
    names = [tool.name for tool in run.tools]
    assert names[0] == "mcp_odd_untyped" and len(names) == 3
    assert texts(run) == ["three"]
    warned = " ".join(warning.message for warning in run.warned)
    assert all(f"{tool!r} of the MCP server odd is left out" in warned for tool in ("list", "slow"))
    assert "'get_it' of the MCP server odd is called mcp_odd_get_it_" in warned


def test_unsupported_schema_check_causes_a_warning(servers: Servers, snapshot: Snapshot) -> None:
    properties = {"a": {"pattern": "["}, "b": {"$ref": "#/$defs/b"}, "c": {"pattern": "^[\\w-.]+$"}}
    schema = {"type": "object", "properties": properties, "required": ["c"]}
    tools = odd({"result": {"tools": [{"name": "look", "inputSchema": schema}, GET]}}, {"content": "three"})
    for arguments, code in (({"a": "x", "b": 3, "c": "y.z"}, None), ({"c": "y z"}, "invalid_arguments")):
        run = played([ToolCall("mcp_odd_look", arguments)], [tools], servers, approve=None, answer=lambda question: "approve")
        assert results(run)[0].error_code == code
        assert [warning.message for warning in run.warned] == [snapshot]


def test_selecting_only_an_unusable_tool_does_not_end_the_run(snapshot: Snapshot) -> None:
    run = played([], [ServerTools("odd", "list", odd({"result": {"tools": TOOLS}}))])
    assert run.status == "completed" and [warning.message for warning in run.warned] == [snapshot]


def test_deny_rules_cover_all_spellings_and_allow_rules_one_tool(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    use_own_folder(monkeypatch, tmp_path)  # another server of this name was seen before, so permissions would ask
    dotted, plain = wire_names([("odd", "get.it"), ("odd", "get_it")]).values()
    every = ("mcp_odd_get_it", "mcp__odd__get_it", "mcp:odd/get_it", "odd/get_it", "mcp__odd__*", "mcp__odd", "mcp:odd")
    ran: dict[str, list[tuple[str, list[str]]]] = {
        "deny": [*[(rule, []) for rule in every], ("mcp:odd/get.it", [plain]), (plain, [dotted])],
        "ask": [("mcp_odd_get_it", []), ("odd/get.it", [plain])],
        "allow": [("mcp_odd_get_it", []), ("mcp:odd/get_it", [plain]), ("mcp:odd/get.it", [dotted]), (dotted, [dotted])],
    }
    for verdict, cases in ran.items():
        for rule, expected in cases:
            with subtests.test(verdict, rule=rule):
                agent = Agent(
                    ScriptedModel([[ToolCall(dotted), ToolCall(plain)], "Done."]),
                    tools=[odd({"result": {"tools": TOOLS}}, {"content": "three"})],
                    todos=False,
                    permissions={rule: verdict},
                )
                with use_host(Host(servers=servers)):
                    run = agent.run_sync("Go.", approve=None if verdict == "allow" else "auto")
                assert [result.name for result in results(run) if not result.is_error] == expected


def test_rule_in_another_programs_spelling_allows_nothing(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError) as raised:
        Agent(ScriptedModel(["Done."]), tools=[odd({})], permissions={"mcp__odd__get.it": "allow"})
    assert str(raised.value) == snapshot


def test_clashing_tools_of_two_servers_are_both_offered(servers: Servers) -> None:
    named = wire_names([("odd", "a_b"), ("odd_a", "b")])
    listed = [{"result": {"tools": [{"name": tool, "inputSchema": {"type": "object"}}]}} for tool in ("a_b", "b")]
    tools = [odd(each, {"content": tool}, name) for each, (name, tool) in zip(listed, named, strict=True)]
    run = played([[ToolCall(name) for name in named.values()]], tools, servers)
    assert texts(run) == ["a_b", "b"]


def test_answers_the_client_library_rejects_are_still_read(servers: Servers, subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, str, bool]] = {
        "a text": ("three", "three", True),
        "a list": ([{"type": "text", "text": "three"}], "three", True),
        "half a character": ({"content": "three \ud83d"}, "three \ufffd", True),
        "an error as a text": ({"error": "too busy"}, "too busy", False),
        "an error without a number": ({"error": {"code": "E1", "message": "too busy"}}, "too busy", False),
    }
    for name, (answer, words, is_result) in cases.items():
        with subtests.test(name):
            (result,) = results(played([ToolCall("mcp_odd_get")], [odd({"result": [GET]}, answer)], servers))
            assert words in result.text and result.error_code == (None if is_result else "tool_error")


def test_property_name_refused_by_providers_is_renamed_for_models_only() -> None:
    schema = {
        "type": "object",
        "properties": {"$filter": {"type": "string"}, "$top": {"type": "integer"}},
        "required": ["$filter"],
        "additionalProperties": False,
    }
    tools = [{"name": "mails", "inputSchema": schema}]
    given = [{"_filter": "read", "_top": 3}, {"_filter": "read", "_top": "many"}, {"$filter": "unread"}]
    for provider in ("openai", "openai-responses", "anthropic"):
        calls = [[ToolCall("mcp_odd_mails", arguments)] for arguments in given]
        with LoopbackServer([*calls, "Done."]) as strict:
            agent = Agent(strict.model(provider), tools=[odd({"result": {"tools": tools}})], todos=False)
            run = agent.run_sync("Go.", approve=lambda call, run: True)
        assert (run.status, strict.problems) == ("completed", [])
        assert [json.loads(texts(run)[place]) for place in (0, 2)] == [{"$filter": "read", "$top": 3}, {"$filter": "unread"}]
        assert [result.error_code for result in results(run)] == [None, "invalid_arguments", None]


def test_server_without_a_tool_list_causes_a_warning() -> None:
    run = played([], [odd({"error": {"code": -32601, "message": "Method not found"}})])
    assert (run.status, [warning.message for warning in run.warned]) == ("completed", ["The MCP server odd lists no tools"])


def answer_to(asked: dict[str, Any], results: dict[str, Any]) -> str:
    """Return the answer to a message by a server with these methods."""
    known = asked["method"] in results
    answer = {"result": results[asked["method"]]} if known else {"error": {"code": -32601, "message": "no"}}
    return json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **answer})


def test_unauthorized_request_names_the_required_login(servers: Servers, subtests: pytest.Subtests) -> None:
    wanted = 'Bearer resource_metadata="https://example.org/x"'
    status, refused = 401, ["initialize", "server/discover", "tools/call"]
    results = {"initialize": {**SPOKEN, "protocolVersion": "2025-06-18"}, "tools/list": {"tools": [GET]}, "tools/call": {}}

    class Shut(Handler):
        def do_POST(self) -> None:
            asked = self.sent()
            is_refused = asked["method"] in refused
            body = b"" if is_refused else answer_to(asked, results).encode()
            self.reply(status if is_refused else 200, body, WWW_Authenticate=wanted, Content_Type="application/json")

        def do_GET(self) -> None:
            self.reply(405)

        do_DELETE = do_GET

    with LoopbackThread(Shut) as there:
        shut = MCPServer("shut", f"http://127.0.0.1:{there.port}/mcp")
        for status, advice in ((401, "Log in: %agent mcp login shut"), (403, "Set the required header")):
            with subtests.test(status=status):
                with pytest.raises(ServerFailed) as raised:
                    played([], [shut], servers)
                assert f"it returns {status} " in raised.value.what and wanted in raised.value.what
                assert advice in str(raised.value)
        with subtests.test("what is answered meanwhile takes nothing from the words of a refusal"):
            refused[:] = ["tools/call"]
            (text,) = texts(played([ToolCall("mcp_shut_get")], [shut], servers))
            assert "it returns 403 " in text
            refused.clear()
            run = played([ToolCall("mcp_shut_get")], [shut], servers)
            live = servers.used[-1]
            told = [live.why(error) for error in (MCPError(REFUSED, ""), ValueError("another"))]
            assert "it returns 403 " in told[0] and (told[1], run.status) == ("another", "completed")


def test_server_with_the_older_transport_is_reachable() -> None:
    answers = queue.SimpleQueue[str]()
    results = {
        "initialize": {"protocolVersion": "1.0", "capabilities": {"tools": [], "resources": [], "prompts": []}},
        "resources/list": {"resources": [{"name": "no address"}, {"uri": "a:b", "name": "note"}, 5]},
        "resources/templates/list": [],
        "prompts/list": {"prompts": None},
        "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "three"}]},
    }

    class OfEvents(Handler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
            while answer := answers.get():
                self.wfile.write(f"event: message\ndata: {answer}\n\n".encode())
                self.wfile.flush()

        def do_POST(self) -> None:
            asked, is_there = self.sent(), self.path == "/messages"
            self.reply(202 if is_there else 405)
            if is_there and "id" in asked:
                answers.put(answer_to(asked, results))

    with LoopbackThread(OfEvents) as server:
        run = played([ToolCall("mcp_old_add", {})], [MCPServer("old", f"http://127.0.0.1:{server.port}/sse")])
        answers.put("")
    assert texts(run) == ["three"]
    names = [tool.name for tool in run.tools]
    assert names == ["mcp_old_add", "mcp_old_list_resources", "mcp_old_read_resource"], "odd lists cost their odd items"


def test_large_http_answer_is_read_completely() -> None:
    results = {
        "initialize": {**SPOKEN, "protocolVersion": "2025-06-18"},
        "tools/list": {"tools": [GET]},
        "tools/call": "z" * 2_000_000,
    }

    class Large(Handler):
        def do_POST(self) -> None:
            asked = self.sent()
            body = f"data: {answer_to(asked, results)}\n\n".encode() if "id" in asked else b""
            self.reply(200 if body else 202, body, Content_Type="text/event-stream")

    with LoopbackThread(Large) as server:
        run = played([ToolCall("mcp_odd_get")], [MCPServer("odd", f"http://127.0.0.1:{server.port}/mcp")])
    (text,) = texts(run)
    assert text.startswith("zzz") and "1,800,000 characters left out" in text


def test_client_without_the_older_transport_raises_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older(Handler):
        def do_POST(self) -> None:
            self.reply(405)

    monkeypatch.setitem(sys.modules, "mcp.client.sse", None)
    with (
        LoopbackThread(Older) as server,
        pytest.raises(ServerFailed, match="returns 405, like servers that use the older SSE transport"),
    ):
        played([], [MCPServer("old", f"http://127.0.0.1:{server.port}/sse")])


def test_server_progress_extends_the_time_limit_of_its_call(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    prolonged: list[float | None] = []
    monkeypatch.setattr(CallClock, "prolong", lambda clock: prolonged.append(clock.max_seconds))
    played([ToolCall("mcp_odd_get")], [replace(odd({"result": [GET]}), max_seconds=20)], servers)
    assert prolonged == [20]
    assert odd({}).max_seconds == 600


def test_progress_extends_a_call_only_up_to_a_limit() -> None:
    now, limits = [0.0], [8.0]
    clock = CallClock()
    clock._loop = SimpleNamespace(time=lambda: now[0], call_soon_threadsafe=lambda do, *given: do(*given))  # type: ignore[assignment]
    limit: Any = SimpleNamespace(when=lambda: limits[-1], reschedule=limits.append)
    clock.begin(limit, 8, 20)
    for time, until in ((5.0, 13.0), (10.0, 18.0), (15.0, 20.0), (19.0, 20.0)):
        now[0] = time
        clock.prolong()
        assert limits[-1] == until
    limits[:] = [8.0]
    clock.begin(limit, 8, None)
    clock.prolong()
    assert limits == [8.0], "a tool whose time progress does not prolong"
