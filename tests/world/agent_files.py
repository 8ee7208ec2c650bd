"""Reads the agent and workflow files of others, and runs one turn of each that loads against agentnb's strict server.

    python tests/world/agent_files.py FOLDER...                  each .yaml in the folders

Prints a row for each file: `runs`; `loads`, with what became of its run; or `refused`, with the reason and its line. Models
keep their wires and options and are called on this machine; a stand-in with the tools that a file names takes the place of each
MCP server. No program that a file names is started. The exit code is 1 if a file that loads does not run.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from agentnb import Workflow
from agentnb.errors import AgentnbError, WorkflowProblems
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.settings import KEY_VARIABLES, SERVERS
from agentnb.testing import LoopbackServer
from agentnb.tools.mcp.mcp_server import MCPServer, servers_among
from agentnb.workflow.form.step_tree import walk_all
from agentnb.workflow.form.workflow_spec import AgentStep

STAND_IN = Path(__file__).with_name("stand_in_server.py")
ANSWER = "The tide is low."
OBJECT = '{"name": "Ann", "age": 30, "email": "ann@example.org", "hobbies": []}'
SHOWN = 300
"""Characters of a reason that are printed."""


class Row(NamedTuple):
    """What became of a file."""

    file: str
    became: str
    """``runs``, ``loads`` or ``refused``."""
    reason: str


def tried(path: Path, name: str) -> Row:
    """Return what becomes of a file."""
    try:
        workflow = Workflow.from_yaml(path)
    except WorkflowProblems as error:
        first = error.problems[0]
        more = f" (and {len(error.problems) - 1} more)" if len(error.problems) > 1 else ""
        return Row(name, "refused", f"line {first.line}: {first.message}{more}")
    try:
        reason = one_turn(workflow)
    except AgentnbError as error:
        reason = f"{type(error).__name__}: {error}"
    return Row(name, "loads" if reason else "runs", reason)


def one_turn(workflow: Workflow) -> str:
    """Run the workflow; return why it did not end well, empty if it did."""
    with ExitStack() as stack:
        agents, loopbacks = dict(workflow.spec.agents), dict[str, LoopbackServer]()
        for name, agent in agents.items():
            model = agent.model or f"{next(iter(SERVERS))}:auto"
            provider, _, rest = model.partition(":")
            if provider not in loopbacks:
                script = OBJECT if agent.structured_output else ANSWER
                loopbacks[provider] = stack.enter_context(LoopbackServer([script], repeat=True, like=provider))
            url = loopbacks[provider].model(provider).partition("url=")[2]
            options = [one for one in rest.partition("?")[2].split("&") if one and not one.startswith(("url=", "key="))]
            here = "&".join([*options, f"url={url}", "key=STAND_IN_KEY"])
            agents[name] = replace(agent, model=f"{provider}:{rest.partition('?')[0]}?{here}")
        servers = Servers()
        stack.callback(servers.close)
        for server in servers_of(word for agent in agents.values() for word in agent.tools):
            servers.configuration.add(server)
        stack.enter_context(use_host(Host(servers=servers)))
        run = replace(workflow, spec=replace(workflow.spec, agents=agents)).run_sync("Which tide is it?", show=False)
        problems = [problem for one in loopbacks.values() for problem in one.problems]
        requests = sum(len(one.requests) for one in loopbacks.values())
        asked = sum(isinstance(step, AgentStep) for step in walk_all(workflow.spec.steps))
        if run.status != "completed" or problems or requests < asked:
            return f"{run.status}, {requests} requests: {'; '.join(problems) or run.error or run.text}"
    return ""


def servers_of(words: Iterator[str]) -> Iterator[MCPServer]:
    """Yield a stand-in with the tools that the words name for each server that they name."""
    tools: dict[str, list[str]] = {}
    for item in servers_among([word for word in words if word.startswith("mcp:")]):
        tools.setdefault(item.name, []).append(item.tool or "look_up")
    for name, names in tools.items():
        yield MCPServer(name, sys.executable, [str(STAND_IN), *dict.fromkeys(names)])


def main(folders: list[str]) -> int:
    """Print the table; return the exit code."""
    if not folders:
        print(__doc__)
        return 2
    os.environ.update(dict.fromkeys([*KEY_VARIABLES.values(), "STAND_IN_KEY"], "no-key-of-anybody"))
    files = [(Path(folder), path) for folder in folders for path in sorted(Path(folder).rglob("*.yaml"))]
    rows = []
    for folder, path in files:
        row = tried(path, str(path.relative_to(folder.parent)))
        rows.append(row)
        print(f"| {row.file} | {row.became} | {' '.join(row.reason.split())[:SHOWN]} |", flush=True)
    counts = Counter(row.became for row in rows)
    print(f"{len(rows)} files: " + ", ".join(f"{count} {became}" for became, count in counts.most_common()))
    return 1 if counts["loads"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
