"""MCP servers in cells: ``-t mcp:NAME``, variables that hold one, completion, the panel, ``%agent tools``, recovery."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_runs import PROGRAM, bench, is_alive, process_of

SET_UP = f"""
import sys
from agentnb import Agent
from agentnb.models import ScriptedModel
from agentnb.core.messages import ToolCall
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.notebook.choices import available_choices
from agentnb.notebook.ipython_extension import session_of
session = session_of(get_ipython())
session.servers.configuration.add(MCPServer("bench", sys.executable, args=[{PROGRAM!r}]))
mine = MCPServer("bench", sys.executable, args=[{PROGRAM!r}, "mine"])
def look() -> str:
    '''Look.'''
    return "seen"
both = [mine, look]
def asks():
    return ScriptedModel([[ToolCall("mcp_bench_where", {{}})], "Done."])
model = asks()
"""
CELL = "model = asks()\nget_ipython().run_cell_magic('agent', '-m model {options} --approve auto', 'Look.')"
TEXT = "[part.text for each in run.rounds for result in each.results for part in result.parts][0]"


@pytest.fixture
def noted(kernel: Any) -> Any:
    """A kernel with a configured server."""
    assert kernel.run(SET_UP).status == "ok"
    yield kernel
    kernel.run("session.servers.close()")


def test_cell_can_name_servers_as_tools(noted: Any, subtests: pytest.Subtests) -> None:
    processes: dict[str, int] = {}
    for options in ("-t mcp:bench", "-t mcp:bench/where look", "-t mine", "-t look both"):
        with subtests.test(options):
            done = noted.run(CELL.format(options=options))
            assert done.status == "ok", done.error
            processes[options] = process_of(noted.value(TEXT).strip("'"))
            assert is_alive(processes[options])
    assert len(set(processes.values())) == 2, "one configured, one in a variable"


def test_server_name_mistakes_suggest_valid_names(noted: Any, subtests: pytest.Subtests, snapshot: Any) -> None:
    for options in ("-t mcp:bank", "-t mcp:bench/wher", "-t mcp:"):
        with subtests.test(options):
            failed = noted.run(f"%%agent -m model {options} --approve auto\nLook.")
            assert failed.status == "error"
            assert failed.error == snapshot(options, PROGRAM=bench().target)


def test_server_names_are_completed_and_suggested(noted: Any) -> None:
    def complete(code: str) -> list[str]:
        reply = noted.client.complete(code, len(code), reply=True, timeout=30)
        return reply["content"]["matches"]

    assert "mcp:bench" in complete("%%agent -t mc")
    assert {"mine", "both"} <= {*complete("%%agent -t mi"), *complete("%%workflow -t bo")}
    assert complete("%agent tools mcp:bench/w") == []
    noted.run(CELL.format(options="-t mcp:bench"))
    assert {"mcp:bench/where", "mcp:bench/wait"} <= {*complete("%agent tools mcp:bench/w")}
    assert "mcp:bench/add" in complete("%%workflow -t look mcp:bench/")

    offered = "{one['name']: one['about'] for one in available_choices(session, {'mine': mine}, [])['tools']}"
    assert noted.value(f"'mcp:bench' in {offered}, 'mine' in {offered}") == "(True, True)"
    assert PROGRAM in noted.value(f"{offered}['mcp:bench']")


def test_server_tools_are_listed_and_dry_runs_start_none(noted: Any) -> None:
    assert "mcp:bench" in noted.run("%agent tools").printed
    assert "are listed when the run starts" in noted.run("%agent tools mcp:bench").printed
    dry = noted.run("%%agent -m simulated:disciplined -t mcp:bench look --dry\nLook.")
    assert dry.status == "ok", dry.error
    assert "mcp:bench: " in dry.printed and "look: " in dry.printed
    assert noted.value("session.servers.used") == "()"
    noted.run(CELL.format(options="-t mcp:bench"))
    shown = noted.run("%agent tools mcp:bench/add").printed
    assert shown.startswith("mcp_bench_add: Add two numbers.") and "stats" not in shown


def test_continued_run_and_history_name_servers(noted: Any) -> None:
    noted.run(CELL.format(options="-t mcp:bench look"))
    noted.run("model = ScriptedModel(['Done.'])")
    continued = noted.run("%%agent -m model --continue\nGo on.")
    assert "-t look mcp:bench" in continued.printed
    assert noted.run("%agent history").status == "ok"
    assert noted.value("run.own_tools") == "[]"


def test_runs_and_workflows_are_recovered_with_servers(noted: Any, subtests: pytest.Subtests) -> None:
    step = "workflow:\n  - {id: ok, type: human, ask: Go?, confirm: true}\n  - {id: a, type: tool, name: mcp_bench_where}\n"
    kept = "store=session.store, suspend=True"
    agents = {
        "configured": f"Agent(asks(), tools=['mcp:bench', look], todos=False).run_sync('Go.', {kept})",
        "in a variable": f"Agent(asks(), tools=[mine, look], todos=False).run_sync('Go.', {kept})",
        "a workflow": f"Workflow.from_yaml({step!r}, tools=['mcp:bench']).run_sync(approve='auto', {kept})",
    }
    for name, code in agents.items():
        with subtests.test(name):
            noted.run(f"from agentnb import Workflow\nheld = {code}\nmodel = ScriptedModel(['Done.'])")
            assert noted.value("held.is_suspended") == "True"
            model = "" if "workflow" in name else "-m model "
            done = noted.run(
                f"get_ipython().run_line_magic('agent', f'answer {{held.id}} {model}{{held.waiting[0].id}} yes')\n"
                "whole = session.store.load(held.id)"
            )
            assert done.status == "ok", done.error
            assert noted.value("whole.status, len(whole.warned)") == "('completed', 0)"
