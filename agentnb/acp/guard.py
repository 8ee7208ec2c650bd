"""Process that runs an agent and ends all its processes, even if the kernel is killed. Does not import agentnb.

python guard.py LIFELINE COMMAND...

``LIFELINE`` is the file descriptor of a pipe to the kernel: it is closed when the kernel closes its end or dies.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SECONDS_BETWEEN_LOOKS = 0.02


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parents end, if the system supports that (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if it has none or has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def is_within(pid: int, ancestor: int) -> bool:
    """True if a process is this one or one of its descendants."""
    while pid not in (0, ancestor):
        pid = parent_of(pid)
    return pid == ancestor


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if folder.name.isdigit():
            children.setdefault(parent_of(int(folder.name)), []).append(int(folder.name))
    processes, pending = [], [pid]
    while pending:
        below = children.get(pending.pop(), [])
        processes += below
        pending += below
    return processes


def end_all(group: int) -> None:
    """Kill the agent's process group and all descendants of this process, until none remains."""
    while True:
        for target in (-group, *descendants(os.getpid())):
            try:
                os.kill(target, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        select.select((), (), (), SECONDS_BETWEEN_LOOKS)


def main() -> int:
    """Run the command until it ends or the lifeline closes, then end all its processes."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    adopt_orphans()
    ended, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        agent = subprocess.Popen(command, start_new_session=True, close_fds=False)  # inherited descriptors may identify it
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror or error}\n")
        return 127
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # not earlier: the agent would inherit it
        signal.signal(number, signal.SIG_IGN)
    for stream in (0, 1):  # only the agent keeps them, so that the other side sees their end
        os.close(stream)
    code: int | None = None
    while code is None:
        ready, _, _ = select.select((lifeline, ended), (), ())
        if lifeline in ready and not os.read(lifeline, 1):
            break
        if ended in ready:
            os.read(ended, 4096)
        code = agent.poll()
    end_all(agent.pid)
    if code is not None and code < 0:
        with suppress(OSError):  # a signal without a handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
