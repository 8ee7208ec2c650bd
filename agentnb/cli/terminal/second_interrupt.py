"""Second Ctrl-C: ends the program at once, even if a function holds the interpreter.

Python records a signal and handles it when its own code runs next, which in ``sum(range(10**13))`` is never. A shell beside
this process receives each Ctrl-C of the terminal as well: it prints a message at the first, and kills the process at the
second.
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
"""``cat`` ends with the process, which holds the only other end of its pipe; ``wait`` also returns at each signal."""
SECONDS = 1.0
"""Seconds that the shell has to end."""


@contextmanager
def second_interrupt_kills(message: str = MESSAGE) -> Iterator[None]:
    """Kill the process at the second Ctrl-C within this block. Written logs are kept.

    ``message``: text that the first Ctrl-C writes to standard error.
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
