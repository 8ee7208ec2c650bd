"""MCP servers that break the protocol: runs neither end nor hang, and the servers stay usable."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest
from loopback_thread import Handler, LoopbackThread
from mcp_runs import calls, played, results, texts

from agentnb.core.redaction import redact
from agentnb.errors import ServerFailed
from agentnb.runtime.servers.servers import Servers, keep_secret
from agentnb.tools.mcp.connections import live_server, server_connection
from agentnb.tools.mcp.mcp_server import MCPServer

BASE = """
import json, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
tools = [{"name": "go", "inputSchema": {"type": "object"}}]
lists = 0
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        about = {"name": "hostile", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        send(id=number, result={"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about})
    elif method == "tools/list":
        lists += 1
        LISTED
    elif method == "tools/call":
        CALLED
        send(id=number, result={"content": [{"type": "text", "text": "went"}]})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "no"})
"""
LISTED = 'send(id=number, result={"tools": tools})'


def hostile(listed: str = LISTED, called: str = "pass") -> MCPServer:
    program = BASE.replace("LISTED", listed).replace("CALLED", called)
    return MCPServer("bench", sys.executable, args=["-c", program], timeout=20)


def test_invalid_bytes_do_not_end_the_message_stream(servers: Servers) -> None:
    server = hostile(called=r'sys.stdout.buffer.write(b"\xff\xfe loading\n"); sys.stdout.flush()')
    run = played([calls(("go", {})), calls(("go", {}))], [server], servers)
    assert texts(run) == ["went", "went"]


def test_tool_change_from_server_listing_no_tools_does_not_hang(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "START_SECONDS", 1.0)
    changed = 'send(method="notifications/tools/list_changed")'
    server = hostile(listed=f"if lists == 1: {LISTED}", called=changed)
    run = played([calls(("go", {}))], [MCPServer("bench", server.command_or_url, args=server.args, timeout=1)], servers)
    assert texts(run) == ["went"]
    assert run.status == "completed"
    assert any("bench" in str(warning) for warning in run.warnings)


def test_tool_with_a_hostile_schema_does_not_break_the_run(servers: Servers) -> None:
    schemas = """
deep = {"type": "string"}
for _ in range(400): deep = {"type": "object", "properties": {"a": deep}}
odd = {"q": {"type": "string", "pattern": "^[\\\\w-.]+$"}, "n": {"minimum": 0, "exclusiveMinimum": True}}
tools += [{"name": "deep", "inputSchema": deep}, {"name": "odd", "inputSchema": {"type": "object", "properties": odd}}]
"""
    asked: list[Any] = []
    server = hostile()
    (program,) = [arg for arg in server.args if "tools = " in arg]
    program = program.replace("lists = 0", f"{schemas}lists = 0")
    named = MCPServer("bench", server.command_or_url, args=["-c", program], timeout=20)
    run = played(
        [calls(("odd", {"q": "a.b", "n": 1})), calls(("go", {}))],
        [named],
        servers,
        approve=None,
        answer=lambda question: asked.append(question) or "approve",
    )
    assert texts(run) == ["went", "went"] and len(asked) == 2
    assert [tool.name for tool in run.tools] == ["mcp_bench_go", "mcp_bench_odd"]
    assert any("'deep'" in str(warning) for warning in run.warnings)


class Forgetful(LoopbackThread):
    """An MCP server over HTTP that can forget its sessions, and may not answer their end."""

    def __init__(self) -> None:
        self.sessions, self.called = 0, 0
        self.forgotten: tuple[int, Any] = 404, None
        """The status and body for an unknown session."""
        self.answers_farewell = threading.Event()
        outer = self

        class OfSessions(Handler):
            def do_GET(self) -> None:
                outer._reply(self, 405)

            def do_DELETE(self) -> None:
                outer.answers_farewell.wait(60)
                outer._reply(self, 200)

            def do_POST(self) -> None:
                outer._answer(self, self.sent())

        super().__init__(OfSessions)

    def _answer(self, handler: Handler, message: dict[str, Any]) -> None:
        method, number = message["method"], message.get("id")
        if method == "initialize":
            self.sessions += 1
            about = {"name": "forgetful", "version": "1"}
            result: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
        elif handler.headers.get("Mcp-Session-Id") not in (None, str(self.sessions)):
            self._reply(handler, *self.forgotten)
            return
        elif method == "tools/list":
            result = {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            self.called += 1
            result = {"content": [{"type": "text", "text": f"session {self.sessions}"}]}
        else:
            self._reply(handler, 202 if number is None else 400)
            return
        self._reply(handler, 200, {"jsonrpc": "2.0", "id": number, "result": result})

    def _reply(self, handler: Handler, status: int, body: Any = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        handler.reply(status, data, Content_Type="application/json", Mcp_Session_Id=str(self.sessions))


def test_restarted_http_server_is_reconnected_and_called_once(servers: Servers, subtests: pytest.Subtests) -> None:
    def refused(words: str, code: int = -32000) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "error": {"code": code, "message": words}, "id": None}

    with Forgetful() as there:
        there.answers_farewell.set()
        server = MCPServer("bench", f"http://127.0.0.1:{there.port}/mcp", timeout=20)
        assert texts(played([calls(("go", {}))], [server], servers)) == ["session 1"]
        for forgotten in (
            (404, None),
            (404, refused("Session not found", -32001)),
            (404, refused("Not Found: Unknown Mcp-Session-Id header")),
            (400, refused("Bad Request: No valid session ID provided")),
            (400, refused("Bad Request: No valid session ID provided", -32600)),
            (400, refused("Bad Request: Server not initialized")),
            (400, "Invalid or missing session ID"),
            (400, {"error": "Session '7f3a-01' doesn't exist"}),
            (401, "Unauthorized: Session not found"),
            (503, refused("session expired, initialize again")),
        ):
            with subtests.test(str(forgotten)):
                there.forgotten = forgotten
                there.sessions += 1  # the server has forgotten the previous session
                new, before = f"session {there.sessions + 1}", there.called
                run = played([calls(("go", {})), calls(("go", {}))], [server], servers)
                assert texts(run) == [new, new] and not any(result.is_error for result in results(run))
                assert there.called == before + 2
        for words, code in (("Bad Request: unsupported session option", -32602), ("Method not found", -32601)):
            with subtests.test(words):
                there.forgotten = (404 if code == -32601 else 400, refused(words, code))
                there.sessions += 1
                (result,) = results(played([calls(("go", {}))], [server], servers))
                assert result.is_error and words in result.text
                there.sessions -= 1


def test_http_server_that_ignores_session_end_is_abandoned(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "CLOSE_SECONDS", 0.2)
    with Forgetful() as there:
        server = MCPServer("bench", f"http://127.0.0.1:{there.port}/mcp", timeout=20)
        assert texts(played([calls(("go", {}))], [server], servers)) == ["session 1"]
        there.sessions += 1
        try:
            assert texts(played([calls(("go", {}))], [server], servers)) == ["session 3"]
        finally:
            there.answers_farewell.set()


def test_alphabetic_key_in_a_header_is_redacted_without_its_scheme() -> None:
    keep_secret(MCPServer("a", "http://localhost/mcp", headers={"Authorization": "Bearer lowtideharbourlight"}))
    assert "lowtideharbour" not in redact("You sent lowtideharbourlight, which is wrong")


def test_server_error_is_shortened_and_stripped_of_terminal_controls(servers: Servers) -> None:
    error = '{"code": -32000, "message": "\\x1b[2J" + "z" * 1_000_000}'
    with pytest.raises(ServerFailed) as raised:
        played([], [hostile(listed=f"send(id=number, error={error})")], servers)
    run = played([calls(("go", {}))], [hostile(called=f"send(id=number, error={error}); continue")], servers)
    for told in (str(raised.value), texts(run)[0]):
        assert "zzz" in told
        assert len(told) < 10_000
        assert "\x1b" not in told


def test_connection_closed_error_code_does_not_close_the_connection(servers: Servers) -> None:
    server = hostile(called='send(id=number, error={"code": -32000, "message": "no such tide"}); continue')
    run = played([calls(("go", {}))], [server], servers)
    assert [result.error_code for result in results(run)] == ["tool_error"]
    assert "no such tide" in texts(run)[0]
    program = [*server.args][1].replace('{"listChanged": True}}', '{}, "resources": {}}').replace("-32601", "-32000")
    assert texts(played([calls(("go", {}))], [MCPServer("bench", sys.executable, args=["-c", program])], servers))
