"""The second Ctrl-C ends the program at once, also where a function holds the interpreter and no Python code runs.

Python notes a signal and handles it when its own code runs next, which in ``sum(range(10**13))`` is never. A shell beside this
process gets each Ctrl-C of the terminal as well: it says so at the first, and kills the process at the second.
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
"""``cat`` ends when the process does, as that alone holds the other end of its pipe; ``wait`` returns at each signal too."""
SECONDS = 1.0
"""How long the shell gets to end."""


@contextmanager
def second_interrupt_kills(message: str = MESSAGE) -> Iterator[None]:
    """Have the second Ctrl-C within this block kill the process. What its logs have is kept.

    ``message``: what the first one writes to standard error.
    """
    shell = shutil.which("sh") if hasattr(os, "killpg") else None
    if shell is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    try:
        words = [shell, "-c", _SCRIPT, "agentnb", str(os.getpid()), message]
        watcher = subprocess.Popen(words, stdin=reading, stdout=subprocess.DEVNULL)
    except OSError:  # no further process is to be had
        watcher = None
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        if watcher is not None:
            with suppress(subprocess.TimeoutExpired):
                watcher.wait(SECONDS)
