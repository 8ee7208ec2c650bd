"""A real kernel to run cells in."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

PATIENCE = 60.0
"""Seconds after which a running cell fails its test."""

TOOLS = '''
%load_ext agentnb
import time
data = {"a": 1}

def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first
    """
    return a + b

def nap(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"

def broken(x: int) -> int:
    """Fail."""
    return 1 // 0
'''


def until_ready(client: BlockingKernelClient) -> None:
    """Wait until the kernel answers and its outputs arrive. The client's own way then listens for 0.2 s to no purpose."""
    end = time.monotonic() + PATIENCE
    while True:
        asked = client.kernel_info()
        with suppress(queue.Empty):  # asked before the kernel heard, or its outputs reached this client
            while client.get_iopub_msg(timeout=0.05)["parent_header"].get("msg_id") != asked:
                pass
            while client.get_shell_msg(timeout=PATIENCE)["parent_header"]["msg_id"] != asked:
                pass
            client.input("")  # its stdin channel may connect later: a question asked before would be lost
            client.execute("get_ipython().kernel.stdin_socket.poll(60_000)", silent=True)
            return
        assert time.monotonic() < end, "The kernel does not answer"


@dataclass
class Cell:
    """The displays and the end of a cell."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    status: str = ""
    error: str = ""
    asked: str = ""
    """The prompt of its ``input``."""
    seconds_after_interrupt: float = 0.0

    @property
    def printed(self) -> str:
        return "".join(output["text"] for output in self.outputs if output["type"] == "stream")

    @property
    def result(self) -> dict[str, Any]:
        return next((output["data"] for output in self.outputs if output["type"] == "execute_result"), {})

    @property
    def displays(self) -> list[dict[str, Any]]:
        """Bundles of the run's display, oldest first, without figures that tools drew."""
        bundles = [output["data"] for output in self.outputs if output["type"] in ("display_data", "update_display_data")]
        return [bundle for bundle in bundles if "agentnb-run" in bundle.get("text/html", "")]

    @property
    def listing(self) -> dict[str, Any]:
        """The list of runs, as ``%agent history`` displays it."""
        bundles = [output["data"] for output in self.outputs if output["type"] == "display_data"]
        return next(bundle for bundle in bundles if "agentnb-history" in bundle.get("text/html", ""))

    @property
    def shown(self) -> str:
        """The last state of the run's display, as text."""
        return self.displays[-1]["text/plain"] if self.displays else ""


class Kernel:
    """Runs cells in a kernel process and collects their displays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stuck = ""
        """The cell that did not end: those after it fail at once."""
        env = dict(os.environ)
        env.update(
            HOME=str(folder), IPYTHONDIR=str(folder / "ipython"), MPLCONFIGDIR=str(folder), PYDEVD_DISABLE_FILE_VALIDATION="1"
        )
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env=env)
        self.client = self.manager.client()
        self.client.start_channels()
        until_ready(self.client)

    def run(
        self,
        code: str,
        interrupt_when: Callable[[Cell], bool] | None = None,
        *,
        attended: bool = False,
        reply: str | None = None,
    ) -> Cell:
        """``attended``: a person can be asked, as in an open notebook; then a run has its live card.

        ``reply``: the text typed at a prompt of ``input``.
        """
        assert not self.stuck, f"An earlier cell does not end: {self.stuck}"
        request = self.client.execute(code, allow_stdin=attended)
        cell, started, interrupted = Cell(), time.monotonic(), 0.0
        if reply is not None:
            cell.asked = self.client.get_stdin_msg(timeout=PATIENCE)["content"]["prompt"]
            self.client.input(reply)
        while True:
            if time.monotonic() - started > PATIENCE:
                self.stuck = code
                raise AssertionError(f"The cell does not end: {code}")
            if interrupt_when is not None and not interrupted and interrupt_when(cell):
                interrupted = time.monotonic()
                self.manager.interrupt_kernel()
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "error":
                cell.error = "\n".join(content["traceback"])
            cell.outputs.append({"type": kind, **content})
        cell.seconds_after_interrupt = time.monotonic() - interrupted if interrupted else 0.0
        reply = self.client.get_shell_msg(timeout=PATIENCE)
        while reply["parent_header"]["msg_id"] != request:
            reply = self.client.get_shell_msg(timeout=PATIENCE)
        cell.status = reply["content"]["status"]
        return cell

    def value(self, expression: str) -> str:
        """Return the printed form of the expression (or tuple)."""
        cell = self.run(f"print(({expression}))")
        assert cell.status == "ok", cell.error
        return cell.printed.strip()

    def wait_for(self, expression: str) -> None:
        """Return as soon as the expression is true."""
        end = time.monotonic() + 30
        while self.value(expression) != "True":
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.05)

    def close(self) -> None:
        """Kill it at once: jupyter_client looks only every 0.1 s whether it has ended."""
        self.client.stop_channels()
        self.manager.signal_kernel(signal.SIGKILL)
        self.manager.provisioner.process.wait()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
