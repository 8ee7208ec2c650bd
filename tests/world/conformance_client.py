"""The client that the official conformance suite starts: ``conformance_client.py ADDRESS``, with the scenario in a variable.

It runs an agent that makes the calls of the scenario, as a run of a person's would.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.schema.form_fields import defaults
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, hosted
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.server import MCPServer

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}
"""The call of each scenario that needs one."""


def main(address: str, scenario: str) -> None:
    """Run the agent at the server of this address."""
    calls = [[ToolCall(f"mcp_suite_{name}", arguments)] for name, arguments in [CALLS[scenario]]] if scenario in CALLS else []
    servers = Servers()
    agent = Agent(ScriptedModel([*calls, "Done."]), tools=[MCPServer("suite", address)], todos=False)
    with hosted(Host(servers=servers)):
        agent.run_sync("Go.", approve="auto", answer=lambda question: defaults(question.schema))
    servers.close()


if __name__ == "__main__":
    main(sys.argv[1], os.environ.get("MCP_CONFORMANCE_SCENARIO", ""))
