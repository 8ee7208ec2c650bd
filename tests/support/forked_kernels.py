"""Kernels forked from a process which has imported ipykernel and agentnb: one such process for each that starts kernels.

To start and to import takes most of what a kernel costs. A fork has all of it done, and is as good as a kernel that was just
started: a process of its own, with nothing in it that another test has made.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, TextIO

LOADED_BY_KERNELS = (
    "agentnb.notebook.completion",
    "agentnb.notebook.experiments.magic",
    "agentnb.notebook.ipython_extension",
    "agentnb.notebook.magics",
    "agentnb.notebook.panel.area",
    "agentnb.notebook.shown_values",
    "agentnb.notebook.workflow_magic",
    "faulthandler",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "anywidget",
    "docstring_parser",
    "fast_sugiyama",
    "jedi",  # at the first completion
    "markdown_it",
    "nh3",
    "ruamel.yaml",
    "sqlite3",
    "tornado.platform.asyncio",
)
"""Modules that a kernel loads while it starts, or with its first run: those that `test_light_start.py` allows."""
LOADED_BY_CELLS = ("mcp", "pandas")
"""Modules that take half a second, and that many cells load: a notebook that wants to see who loads them is forked without."""


class Forked:
    """A forked kernel: what jupyter_client wants of the process that it has started."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs. Its parent process reaps it."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        while self.poll() is None:
            time.sleep(0.005)
        return 0

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def launch(command: list[str], *, env: dict[str, str], cwd: str, imported: tuple[str, ...] = (), **_: Any) -> Any:
    """Start a kernel, in place of `jupyter_client.launcher.launch_kernel`. ``imported``: as of `server`."""
    process = server(imported)
    process.stdin.write(json.dumps({"arguments": command[command.index("-f") :], "env": env, "cwd": cwd}) + "\n")
    process.stdin.flush()
    return Forked(int(process.stdout.readline()))


@cache
def server(imported: tuple[str, ...] = ()) -> Any:
    """The process that kernels are forked from. ``imported``: modules that they have besides those that all of them have."""
    process = subprocess.Popen([sys.executable, __file__, *imported], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, process)
    return process


def _end(process: Any) -> None:
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def serve(asked: TextIO, told: TextIO, imported: list[str]) -> None:
    """Fork a kernel for each line, and tell its number."""
    sys.path.pop(0)  # this folder: a kernel does not have it
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # read when ipykernel is imported: kernels end when this process has
    import ipykernel.kernelapp
    import psutil

    for name in (*LOADED_BY_KERNELS, *imported):
        importlib.import_module(name)
    isinstance((), Mapping)  # asked at the first line of a log, and slow once
    gc.collect()
    gc.freeze()  # else each kernel goes through, and copies, all of it, and so for half a second at its end
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a kernel has ended
    for line in iter(asked.readline, ""):
        begun, begin = os.pipe()
        with warnings.catch_warnings(action="ignore"):  # of threads beside a fork: those of libraries have nothing to do here
            pid = os.fork()
        if not pid:
            _become_kernel(begin, **json.loads(line))
            ipykernel.kernelapp.launch_new_instance()
            return
        os.close(begin)
        os.read(begun, 1)
        os.close(begun)
        told.write(f"{pid}\n")
        told.flush()
    for kernel in psutil.Process().children():
        kernel.kill()  # at an end of its own, it would complain where the tests print that the folder of its history has gone


def _become_kernel(begin: int, arguments: list[str], env: dict[str, str], cwd: str) -> None:
    os.setsid()  # as jupyter_client does it: signals go to the group
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(env, JPY_PARENT_PID=str(os.getppid()))
    os.chdir(cwd)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.argv = ["ipykernel_launcher", *arguments]
    os.close(begin)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what kernels print must not get among the answers
    serve(sys.stdin, answers, sys.argv[1:])
