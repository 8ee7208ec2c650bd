"""Ends the program at once on a second Ctrl-C, even if a function holds the interpreter.

Python records a signal and handles it the next time Python code runs; in ``sum(range(10**13))`` that is never. A shell
alongside this process also receives each Ctrl-C typed in the terminal: it prints a message at the first, and kills the process
at the second.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MESSAGE = "Stopping. Ctrl-C again ends agentnb at once; agentnb recover resumes the run"
_SCRIPT = """
exec 3<&0
count=0
trap 'count=$((count + 1)); [ $count -gt 1 ] || echo "$2" >&2' INT
cat <&3 >/dev/null &
while [ $count -lt 2 ]; do wait && exit; done
kill -KILL "$1"
"""
"""``cat`` exits when the process does, because the process holds the only other end of the pipe; ``wait`` also returns at each
signal."""
SECONDS = 1.0
"""Seconds that the shell has to exit."""


@contextmanager
def second_interrupt_kills(message: str = MESSAGE) -> Iterator[None]:
    """Kill the process at the second Ctrl-C within this block. Logs that have been written are kept.

    ``message``: text written to standard error at the first Ctrl-C.
    """
    shell = shutil.which("sh") if hasattr(os, "killpg") else None
    if shell is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    try:
        words = [shell, "-c", _SCRIPT, "agentnb", str(os.getpid()), message]
        watcher = subprocess.Popen(words, stdin=reading, stdout=subprocess.DEVNULL)
    except OSError:  # no process can be started
        watcher = None
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        if watcher is not None:
            with suppress(subprocess.TimeoutExpired):
                watcher.wait(SECONDS)
