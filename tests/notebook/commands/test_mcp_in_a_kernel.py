"""A server started by a cell, and the kernel of that cell: restarted, killed, shut down."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from mcp_runs import PROGRAM, is_alive, process_of, wait_until_ended
from real_kernel import Kernel

SERVER = shlex.join([sys.executable, PROGRAM])
CELL = """
%load_ext agentnb
from agentnb import ToolCall
from agentnb.models import ScriptedModel

asks = ScriptedModel([ToolCall("mcp_bench_where", {}), "Done."])
"""


def started(kernel: Kernel) -> int:
    """Return the process of a server that a cell started and left running for the next one."""
    assert kernel.run(f"{CELL}\n%agent mcp add bench {SERVER}").status == "ok"
    cell = kernel.run("%%agent -m asks -t mcp:bench --approve auto -o run\nWhere are you?")
    assert cell.status == "ok", cell.error
    process = process_of(kernel.value("run.rounds[0].results[0].text").strip("'\""))
    assert is_alive(process)
    return process


@pytest.mark.nightly("by day servers end with processes that are killed")
@pytest.mark.req("R2.25")
def test_server_ends_when_its_kernel_restarts_dies_or_stops(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    try:
        for now in (False, True):
            server = started(kernel)
            kernel.manager.restart_kernel(now=now)
            kernel.client.wait_for_ready(timeout=60)
            wait_until_ended(server)
        server = started(kernel)
        kernel.manager.shutdown_kernel()
        wait_until_ended(server)
    finally:
        kernel.close()
