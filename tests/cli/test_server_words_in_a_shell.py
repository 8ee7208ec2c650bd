"""MCP servers named in a shell: ``--tools mcp:NAME``, and MODULE:NAME with a server."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from mcp_runs import PROGRAM, is_alive, process_of
from shell_calls import Call, last_run, module, written

STEP = "workflow: [{{id: where, type: tool, name: {name}}}]\n"
MODULE = f"""
import sys
from agentnb.tools.mcp.mcp_server import MCPServer
bench = MCPServer("bench", sys.executable, args=[{PROGRAM!r}])
several = [bench]
"""


def test_exec_can_use_named_servers(
    cli: Call, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests, snapshot: Any
) -> None:
    monkeypatch.setenv("MCP_SERVERS", json.dumps([{"name": "bench", "command": sys.executable, "args": [PROGRAM]}]))
    name = module(MODULE)
    cases = {
        "configured": ("mcp_bench_where", ["--tools", "mcp:bench"]),
        "by the file": ("mcp:bench/where", []),
        "in a module": ("mcp_bench_where", ["--tools", f"{name}:bench"]),
        "in a list": ("mcp_bench_where", ["--tools", f"{name}:several"]),
    }
    for case, (step, options) in cases.items():
        with subtests.test(case):
            done = cli("exec", written("where.yaml", STEP.format(name=step)), "--approve", "auto", *options)
            assert done.code == 0, done.err
            assert not is_alive(process_of(last_run().step_records["where"].output["result"]))
    for case, options in {"not configured": ["--tools", "mcp:bank"], "no name": ["--tools", "mcp:"]}.items():
        with subtests.test(case):
            done = cli("exec", written("where.yaml", STEP.format(name="mcp_bank_where")), *options)
            assert (done.code, done.err) == (2, snapshot(case))


def test_validate_accepts_tools_of_named_servers(cli: Call) -> None:
    path = written("where.yaml", STEP.format(name="mcp_bench_where"))
    assert cli("validate", path, "--tools", "mcp:bench").code == 0
    assert cli("validate", path, "--tools", "mcp:bank").code != 0
