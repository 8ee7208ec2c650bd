"""The process that runs an agent and ends all that it began, also when the kernel is killed. It imports nothing of agentnb.

    python guard.py LIFELINE COMMAND...

``LIFELINE`` is the file descriptor of a pipe whose other end the kernel holds: it closes when the kernel closes it, or dies.
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
    """Become the parent of all descendants whose own parent ends, where the system can do that (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """Return the processes below this one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            children.setdefault(int(status.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    processes, pending = [], [pid]
    while pending:
        below = children.get(pending.pop(), [])
        processes += below
        pending += below
    return processes


def end_all(group: int) -> None:
    """Kill what has not ended: the group of the agent, and all below this process, until nothing is left."""
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
    """Run the command until it ends, or the lifeline is cut; then end all that it began."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    adopt_orphans()
    ended, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        agent = subprocess.Popen(command, start_new_session=True, close_fds=False)  # by what it inherits, others may know it
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror or error}\n")
        return 127
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # not before: the agent would inherit that
        signal.signal(number, signal.SIG_IGN)
    for stream in (0, 1):  # the agent's alone: its end is then seen at the other side
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
        with suppress(OSError):  # of a signal that nobody handles
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
