"""The program at a real terminal: its output and typed input."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

from waiting import PATIENCE

CTRL_C, CTRL_D = "\x03", "\x04"
PROMPT = re.compile(r"\n(?:(?:Answer|Press Enter|\w+ \()[^\n]*: |[^\n]*\[y/N\] )$")


class Terminal:
    """``agentnb`` with a terminal for standard input and standard error; standard output is a pipe."""

    def __init__(self, *argv: str) -> None:
        self._master, slave = pty.openpty()
        self.shown = ""
        """All that was written to the terminal, with what was typed there."""
        self._read = 0
        environment = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *argv],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            start_new_session=True,
            env=environment,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)

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
        assert self.process.stdout is not None
        out = self.process.stdout.read().decode()
        return self.process.wait(PATIENCE), out

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


_PROGRAM = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches it
from agentnb.cli import main
sys.exit(main())
"""
