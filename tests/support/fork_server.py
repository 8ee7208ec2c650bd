"""A process that has loaded everything once, and forks a child for each piece of work: hundreds of real deaths take seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Self


class ForkServer:
    """Does work in children of a process without threads that has loaded these modules and packages: a child loads the rest.

    Work is a function of a module of the tests. Its parameters are plain JSON arguments, and the pipe for
    its output.
    """

    def __init__(self, *modules: str) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._stderr.close()

    def each(self, work: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> list[tuple[str, int]]:
        """Do the work with each of these arguments, in a process of its own; return what it told and which signal ended it."""
        return [self._ask(work, one) for one in arguments]

    def _ask(self, work: Callable[..., None], arguments: tuple[Any, ...]) -> tuple[str, int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([work.__module__, work.__name__, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._stderr.seek(0)
            raise AssertionError(self._stderr.read().decode())
        told, ended_by = json.loads(answer)
        return told, ended_by


def _serve(*modules: str) -> None:
    for one in modules:
        for below in walk_packages(getattr(import_module(one), "__path__", ()), f"{one}."):
            import_module(below.name)
    for line in sys.stdin:
        module, name, arguments = json.loads(line)
        work = partial(getattr(import_module(module), name), *arguments)
        print(json.dumps(_in_a_child(work)), flush=True)


def _in_a_child(work: Callable[[int], None]) -> tuple[str, int]:
    """Run the work in a child; return its output, and the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(writing)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        heard = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("A child ended otherwise than it was to")
    return heard, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


if __name__ == "__main__":
    _serve(*sys.argv[1:])
