"""The program at a real terminal: its output and typed input."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from fork_server import ForkServer
from waiting import PATIENCE

from agentnb.cli import main

CTRL_C, CTRL_D = "\x03", "\x04"
PROMPT = re.compile(r"\n(?:(?:Answer|Press Enter|\w+ \()[^\n]*: |[^\n]*\[y/N\] )$")

ROOMS = ("agent", "cli", "core", "models", "runtime", "store", "tools", "workflow")


class Terminal:
    """``agentnb`` with a terminal for standard input and standard error; standard output is a pipe.

    It is forked from a process that has loaded it.
    """

    def __init__(self, server: ForkServer, *argv: str) -> None:
        self._master, slave = pty.openpty()
        self.shown = ""
        """All that was written to the terminal, with what was typed there."""
        self._read = 0
        environment = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
        work = (os.ttyname(slave), str(Path.cwd()), environment, argv)
        self._told = ""

        def live() -> None:
            ((self._told, _),) = server.each(run_program, [work])
            os.close(slave)  # reading from the terminal ends

        self._program = threading.Thread(target=live)
        self._program.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._master)  # ends a program that is still there
        self._program.join(PATIENCE)

    def terminate(self) -> None:
        """End the program, which has asked, with SIGTERM."""
        os.kill(os.tcgetpgrp(self._master), signal.SIGTERM)

    def type(self, text: str) -> str:
        """Type a line, or a key with Ctrl, when it asks for one; return the output since the last."""
        before = self.asked()
        self._read = len(self.shown)
        os.write(self._master, text.encode() if text in (CTRL_C, CTRL_D) else f"{text}\n".encode())
        return before

    def asked(self, text: str = "") -> str:
        """Wait until it asks for a line after this text; return the output since the last typed line."""
        end = time.monotonic() + PATIENCE
        while not PROMPT.search(self.shown, self._read) or text not in self.shown[self._read :]:
            assert self._more(end), f"nothing was asked:\n{self.shown}"
        return self.shown[self._read :]

    def ended(self) -> tuple[int, str]:
        """Return the exit code and standard output."""
        end = time.monotonic() + PATIENCE
        while self._more(end):
            pass
        self._program.join(PATIENCE)
        out, _, code = self._told.rpartition("\n")
        return int(code or -1), out

    def _more(self, end: float) -> bool:
        """Read the next output; return False if the program has closed the terminal."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"nothing more came:\n{self.shown}"
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux reports this when no process has the terminal open
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


Program = Callable[..., Terminal]


@contextmanager
def programs() -> Iterator[Program]:
    """Yield what starts the program with its arguments."""
    with ForkServer("terminal", *(f"agentnb.{room}" for room in ROOMS)) as server:
        yield partial(Terminal, server)


def run_program(terminal: str, folder: str, environment: dict[str, str], argv: list[str], pipe: int) -> None:
    """Be ``agentnb``, with this terminal and standard output to the pipe, which tells the exit code in its last line."""
    os.setsid()
    opened = os.open(terminal, os.O_RDWR)
    fcntl.ioctl(opened, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches it
    for place, stream in enumerate((opened, pipe, opened)):
        os.dup2(stream, place)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    code = main(argv)
    print(f"\n{code}", end="", flush=True)
