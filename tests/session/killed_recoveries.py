"""Processes of their own that go on with runs whose process died: that die in turn, or that race for one run.

What becomes of a run is asked for as in `killed_runs`: one process imports everything once and forks a child for each fault.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "traces"))

from killed_runs import PATIENCE, Fault, Following, _arm, _in_a_child, _make_room, _tell, tools_in

from agentnb import recover
from agentnb.core.request import Request
from agentnb.errors import AgentnbError
from agentnb.models.model import StreamItem


def recoveries(faults: Sequence[tuple[Path, Fault]]) -> list[tuple[list[int], int, str]]:
    """For each log what the process that went on with it told, the signal that ended it, and the error it met."""
    asked = json.dumps([[str(path), asdict(fault)] for path, fault in faults])
    command = [sys.executable, __file__, "recover"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return [(heard, status, said) for heard, status, said in map(json.loads, done.stdout.splitlines())]


def _serve(asked: list[tuple[str, dict[str, Any]]]) -> None:
    for path, fault in asked:
        heard, status = _in_a_child(lambda pipe, path=path, fault=fault: _live(Path(path), Fault(**fault), pipe))
        lines = heard.splitlines()
        said = [line for line in lines if not line.isdigit()]
        print(json.dumps([[int(line) for line in lines if line.isdigit()], status, "".join(said)]), flush=True)


def _live(path: Path, fault: Fault, pipe: int) -> None:
    _arm(fault)
    tools = tools_in(path.parent)
    try:
        asyncio.run(recover(path, tools=tools, model=Following(), watch=lambda item: _tell(item, fault, pipe)))
    except AgentnbError as error:
        _make_room()
        os.write(pipe, f"{type(error).__name__}: {error}\n".encode())


# Two at once


class Held(Following):
    """Says that it was asked, and answers when it is told to."""

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        print("asked", flush=True)
        sys.stdin.readline()
        async for item in super().stream(request):
            yield item


class Rival:
    """A process that goes on with the run when it is told to, and says what becomes of that, a line each."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, __file__, "race", str(path)]
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
        said, _ = self._process.communicate("go\n" * 100, timeout=PATIENCE)
        return "".join(said.splitlines()[-1:])


def _race(path: Path) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        run = asyncio.run(recover(path, tools=tools_in(path.parent), model=Held()))
        print(run.status, flush=True)
    except AgentnbError as error:
        print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "race":
        _race(Path(sys.argv[2]))
    else:
        _serve(json.load(sys.stdin))
