"""The client that the official conformance suite starts: ``conformance_client.py ADDRESS``, with the scenario in a variable.

It runs an agent that makes the calls of the scenario, as a run of a person's would. Where the server wants a login, it logs in
with a browser that follows where it is led, and runs the agent again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.core.schema.form_fields import defaults
from agentnb.errors import ServerFailed
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.session.server_login import SECRET_PROMPT, in_lines, log_in
from agentnb.tools.mcp.connections.refusal import Refusal
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}
"""The call of each scenario that needs one."""
CALL_OF_LOGINS = ("test-tool", {})
CLIENT_OF_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The address of a document about the client, which stands for its registration: the suite's own."""
MAX_LOGINS = 3


def main(address: str, scenario: str) -> None:
    """Run the agent at the server of this address, and log in between where it wants that."""
    servers, server = Servers(), MCPServer("suite", address)
    for _ in range(MAX_LOGINS):
        refusal = ran(servers, server, scenario)
        if refusal is None or not refusal.takes_login:
            break
        log_in_at(servers, server, scenario, refusal.scope)
    servers.close()


def ran(servers: Servers, server: MCPServer, scenario: str) -> Refusal | None:
    """Run the agent once; return how the server refused it."""
    call = CALLS.get(scenario) or (CALL_OF_LOGINS if scenario.startswith("auth/") else None)
    calls = [[ToolCall(f"mcp_{server.name}_{call[0]}", call[1])]] if call else []
    agent = Agent(ScriptedModel([*calls, "Done."]), tools=[server], todos=False)
    failed = False
    try:
        with use_host(Host(servers=servers)):
            run = agent.run_sync("Go.", approve="auto", answer=answer)
        failed = any(result.is_error for one in run.rounds for result in one.results)
    except ServerFailed as error:
        print(error, file=sys.stderr)
        failed = True
    connection = servers.used[0]._connection
    refusal = connection.refusal if failed and connection is not None else None
    if failed and refusal is None:
        raise SystemExit("It failed, and not since the server refused it")
    return refusal


def answer(question: WaitingOnUser) -> Any:
    """Answer a question of the server as a person would: in the browser, or with the defaults of its form."""
    if question.url:
        browse(question.url)
        return "done"
    return defaults(question.schema)


def log_in_at(servers: Servers, server: MCPServer, scenario: str, scope: str) -> None:
    """Log in as a person would, with the client that the scenario names."""
    known = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    client = known.get("client_id", CLIENT_OF_DOCUMENT if scenario == "auth/basic-cimd" else "")
    told: list[str] = []

    def ask(prompt: str) -> str:
        return known.get("client_secret", "") if prompt == SECRET_PROMPT else browse(told[-1])

    live = servers.live(ServerTools(server.name, server=server), Path.cwd())
    tell = lambda *words: told.append(in_lines(*words))  # noqa: E731
    print(log_in(servers, live, tell, ask, scope=scope, client=client), file=sys.stderr)


def browse(told: str) -> str:
    """Open the address that the person was told, and go where it leads."""
    httpx2.get(told.rpartition("\n")[2], follow_redirects=True)
    return ""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        # The person's own logins are left alone.
        os.environ.update(XDG_DATA_HOME=folder, PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring")
        main(sys.argv[1], os.environ.get("MCP_CONFORMANCE_SCENARIO", ""))
