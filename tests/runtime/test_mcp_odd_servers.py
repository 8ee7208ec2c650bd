"""Servers that are not quite right cost what is wrong with them, and no run."""

from __future__ import annotations

import json
import queue
import sys
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest
from loopback_thread import LoopbackThread
from mcp_runs import played, results, texts

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.errors import ServerFailed
from agentnb.runtime.questions.call_clock import CallClock
from agentnb.testing import LoopbackServer
from agentnb.tools.mcp.server import MCPServer

ODD = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                  "serverInfo": {"name": "odd", "version": "1"}}},
        "tools/list": json.loads(sys.argv[1]),
        "tools/call": {"result": json.loads(sys.argv[2]) or {"content": json.dumps(asked.get("params", {}).get("arguments"))}},
    }
    answer = answers.get(asked.get("method"), {"error": {"code": -32601, "message": "Method not found"}})
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
TOOLS = [
    {"name": "untyped", "inputSchema": {"properties": {"a": {"type": "integer"}}}},
    {"name": "get.it", "inputSchema": {"type": "object"}},
    {"name": "get_it", "inputSchema": {"type": "object"}},
    {"name": "list", "inputSchema": {"type": "array"}},
    {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
]


def odd(listed: dict[str, Any], result: Any = None) -> MCPServer:
    """Return a server with this answer to the request for its tools, and this result of each call."""
    return MCPServer("odd", sys.executable, args=["-c", ODD, json.dumps(listed), json.dumps(result)])


def test_bad_tools_are_left_out_with_a_warning_and_the_others_work() -> None:
    run = played([ToolCall("mcp_odd_untyped", {"a": 1})], [odd({"result": {"tools": TOOLS}}, {"content": "three"})])
    names = [tool.name for tool in run.tools]
    assert names[0] == "mcp_odd_untyped" and len(names) == 3
    assert texts(run) == ["three"]
    warned = " ".join(warning.message for warning in run.warned)
    assert all(f"{tool!r} of the MCP server odd is left out" in warned for tool in ("list", "slow"))
    assert "'get_it' of the MCP server odd is called mcp_odd_get_it_" in warned


def test_property_whose_name_providers_refuse_has_another_for_models_only() -> None:
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


def test_server_without_a_list_of_tools_is_a_warning() -> None:
    run = played([], [odd({"error": {"code": -32601, "message": "Method not found"}})])
    assert (run.status, [warning.message for warning in run.warned]) == ("completed", ["The MCP server odd lists no tools"])


def test_refused_request_names_the_login_that_the_server_wants(subtests: pytest.Subtests) -> None:
    wanted = 'Bearer resource_metadata="https://example.org/x"'

    class Handler(BaseHTTPRequestHandler):
        status = 401

        def refuse(self) -> None:
            self.send_response(Handler.status)
            self.send_header("WWW-Authenticate", wanted)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_DELETE = refuse

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackThread(Handler) as server:
        for status in (401, 403):
            with subtests.test(status=status):
                Handler.status = status
                with pytest.raises(ServerFailed) as raised:
                    played([], [MCPServer("shut", f"http://127.0.0.1:{server.port}/mcp")])
                assert f"it answers {status} " in raised.value.what and wanted in raised.value.what
                assert "as a header" in str(raised.value)


def test_server_of_the_older_transport_is_reached_at_its_address() -> None:
    answers = queue.SimpleQueue[str]()
    results = {
        "initialize": {
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "o", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "three"}]},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
            while answer := answers.get():
                self.wfile.write(f"event: message\ndata: {answer}\n\n".encode())
                self.wfile.flush()

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_there = self.path == "/messages"
            self.send_response(202 if is_there else 405)
            self.send_header("Content-Length", "0")
            self.end_headers()
            if is_there and "id" in asked:
                known = asked["method"] in results
                answer = {"result": results[asked["method"]]} if known else {"error": {"code": -32601, "message": "no"}}
                answers.put(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}))

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackThread(Handler) as server:
        run = played([ToolCall("mcp_old_add", {})], [MCPServer("old", f"http://127.0.0.1:{server.port}/sse")])
        answers.put("")
    assert texts(run) == ["three"]


def test_progress_prolongs_a_call_up_to_its_bound() -> None:
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
