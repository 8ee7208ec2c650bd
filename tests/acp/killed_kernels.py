"""Kernels that run the fake agent and are killed, forked from a process that has imported what they need."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from fake_entry import FAKE
from fork_server import ForkServer

from agentnb import Agent, Experiment, Store
from agentnb.acp.known_agents import known_agents

ROOMS = ("acp", "agent", "core", "experiments", "runtime", "store", "tools")
SECONDS = 100
"""After them, a kernel that would wait for ever says where."""


class Kernel:
    """A kernel in a folder. ``told`` has a line for each event, or piece of text, that its run reported."""

    def __init__(self, server: ForkServer, work: Any, folder: Path, prompt: str, variables: dict[str, str]) -> None:
        told = folder / "told"
        os.mkfifo(told)
        arguments = (str(folder), prompt, {**os.environ, **variables})
        self._process = threading.Thread(target=server.each, args=(work, [arguments]))
        self._process.start()
        self.told = told.open()
        self._pid = int(self.told.readline())

    def kill(self) -> list[str]:
        """Kill it, and return the lines that were not read yet."""
        os.kill(self._pid, signal.SIGKILL)
        with self.told:
            rest = self.told.readlines()
        self._process.join()
        return rest


@contextmanager
def _kernel(folder: str, variables: dict[str, str]) -> Iterator[TextIO]:
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    known_agents()["fake"] = FAKE
    with Path("told").open("w", buffering=1) as told:
        print(os.getpid(), file=told)
        yield told


def runs(folder: str, prompt: str, variables: dict[str, str], pipe: int) -> None:
    """Run a prompt."""
    with _kernel(folder, variables) as told:

        def tell(item: object) -> None:
            print(type(item).__name__, getattr(item, "seq", ""), file=told)

        Agent(acp="fake", work_dir=".").run_sync(prompt, watch=tell, store=Store("runs"), approve="auto")


def experiments(folder: str, prompt: str, variables: dict[str, str], pipe: int) -> None:
    """Run a prompt in a sandbox, with the task in the folder named by the variable."""
    with _kernel(folder, variables):
        rows = [{"id": "t", "prompt": prompt, "work_dir": str(Path(folder, "task"))}]
        Experiment(rows, {"theirs": {"acp": "fake"}}, folder=False).run_sync(show=False)
