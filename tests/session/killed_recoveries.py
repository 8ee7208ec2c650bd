"""Recovering processes that die in turn, or compete for a run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from fork_server import ForkServer
from killed_runs import PATIENCE, Fault, Following, arm, make_room, tell, tools_in

from agentnb import recover
from agentnb.core.request import Request
from agentnb.errors import AgentnbError
from agentnb.models.model import StreamItem


def recoveries(server: ForkServer, faults: Sequence[tuple[Path, Fault]]) -> list[tuple[list[int], int, str]]:
    """Recover each log in a process; return its reported events, signal and error."""
    outcomes = []
    for heard, ended_by in server.each(_go_on, [(str(path), asdict(fault)) for path, fault in faults]):
        reported = [line for line in heard.splitlines() if line.isdigit()]
        errors = [line for line in heard.splitlines() if not line.isdigit()]
        outcomes.append((list(map(int, reported)), ended_by, "".join(errors)))
    return outcomes


def _go_on(log: str, wanted: dict[str, Any], pipe: int) -> None:
    path, fault = Path(log), Fault(**wanted)
    arm(fault)
    tools = tools_in(path.parent)
    try:
        asyncio.run(recover(path, tools=tools, model=Following(), watch=lambda item: tell(item, fault, pipe)))
    except AgentnbError as error:
        make_room()
        os.write(pipe, f"{type(error).__name__}: {error}\n".encode())


# Competing processes


class Held(Following):
    """Reports a request, and answers on command."""

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        print("asked", flush=True)
        sys.stdin.readline()
        async for item in super().stream(request):
            yield item


class Rival:
    """A process that recovers the run on command and reports each step in a line."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, __file__, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.hears() == "ready"

    def hears(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def say(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate(timeout=PATIENCE)

    def end(self) -> str:
        output, _ = self._process.communicate("go\n" * 100, timeout=PATIENCE)
        return "".join(output.splitlines()[-1:])


def _race(path: Path) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        run = asyncio.run(recover(path, tools=tools_in(path.parent), model=Held()))
        print(run.status, flush=True)
    except AgentnbError as error:
        print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    _race(Path(sys.argv[1]))
