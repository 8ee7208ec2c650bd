"""Terminals of an agent: commands that agentnb runs on its behalf, in the same way as those of its own shell."""

from __future__ import annotations

import asyncio
import math
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from agentnb.acp.agent_process import guard_words
from agentnb.commands.program_call import HARMLESS_NAME
from agentnb.core.messages import JsonObject
from agentnb.core.redaction import redact
from agentnb.tools.builtin.files.confined import confine
from agentnb.tools.builtin.shell.bounded_output import BoundedOutput, Bounds
from agentnb.tools.builtin.shell.shell_group import Shell, command_outcome, run_command
from agentnb.tools.builtin.shell.shell_process import ProcessResult
from agentnb.tools.defaults import MAX_TERMINAL_BYTES
from agentnb.tools.rendering import success
from agentnb.tools.tool import ToolContext, ToolOutcome, ToolRefused

SHELLS = ("bash", "sh")
MOVE = re.compile(r"cd ('[^']*'|[\w./@%+,:=-]+) && (.+)", re.DOTALL)
"""Prefix that changes the folder in kimi's commands."""
OF_SHELL = "SHELL"
"""Variable that bash sets itself."""
PLAIN_NAMES = ("TERM", "GIT_TERMINAL_PROMPT")
"""Variables, in addition to `HARMLESS_NAME`, that do not affect programs; others become part of the judged command."""


FOLDERS = ("cwd", "workdir", "working_directory", "directory")
PLACES = (*FOLDERS, "env")
"""Argument names for the folder and the variables, as used by different agents."""


class Command(NamedTuple):
    """A command for a terminal."""

    line: str
    """Command for bash, including variables that may influence programs."""
    folder: str
    """Folder in which to run, relative to the working folder; ``.`` for the working folder itself."""
    variables: str
    """Lines that set the other variables."""

    @property
    def judged(self) -> str:
        """The command for rules and the person."""
        return _in_folder(self.line, self.folder)

    @property
    def whole(self) -> str:
        """The complete script for bash."""
        move = "" if self.folder == "." else f"cd {shlex.quote(self.folder)} || exit\n"
        return f"{self.variables}{move}{self.line}"


def command_of(request: Mapping[str, Any], work_dir: Path) -> Command:
    """Return the command in a terminal request. Raises `ToolRefused` for a folder outside the working folder."""
    words, folder = [str(word) for word in request.get("args") or ()], str(request.get("cwd") or work_dir)
    line = " ".join([str(request["command"]), *map(shlex.quote, words)])
    if PurePath(str(request["command"])).name in SHELLS and len(words) == 2 and words[0] == "-c":
        line = words[1]
        if moved := MOVE.fullmatch(line):
            folder, line = str(Path(folder, *shlex.split(moved[1]))), moved[2]
    target = confine(folder, work_dir)
    exports, is_plain = _exports((variable["name"], variable["value"]) for variable in request.get("env") or ())
    return Command(line, target.relative, exports) if is_plain else Command(exports + line, target.relative, "")


def placed_command(command: str, arguments: Mapping[str, Any], work_dir: Path) -> str:
    """Return the command of a call that an agent runs itself, with the folder and the variables that the arguments name."""
    exports, is_plain = _exports(_variables(arguments.get("env") or []))
    command = command if is_plain else exports + command
    for folder in filter(None, map(arguments.get, FOLDERS)):
        try:
            command = _in_folder(command, confine(str(folder), work_dir).relative)
        except ToolRefused:  # outside the working folder
            command = _in_folder(command, str(folder))
    return command


def _variables(given: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and values of variables, in any of the forms that agents use."""
    for item in given.items() if isinstance(given, Mapping) else given if isinstance(given, list) else [given]:
        pair = (item.get("name"), item.get("value")) if isinstance(item, Mapping) else item
        name, value = pair if isinstance(pair, tuple) else str(pair).partition("=")[::2]
        yield str(name), str(value)


def _in_folder(command: str, folder: str) -> str:
    return command if folder == "." else f"cd {shlex.quote(folder)} && {command}"


def _exports(variables: Iterable[tuple[str, str]]) -> tuple[str, bool]:
    """Return lines that set these variables, and whether none of them influences programs."""
    pairs = [(name, value) for name, value in variables if name != OF_SHELL]
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in pairs)
    return lines, all(HARMLESS_NAME.fullmatch(name) or name in PLAIN_NAMES for name, _ in pairs)


class _Output(BoundedOutput):
    """Output within both the agent's limit and the limit for results."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(Bounds(0, max_bytes))
        self.of_result = BoundedOutput()

    def add(self, data: bytes) -> None:
        """Append the next bytes."""
        super().add(data)
        self.of_result.add(data)


class Terminal:
    """A command that runs until it ends or is killed. Used on one event loop."""

    def __init__(self, shell: Shell, context: ToolContext, command: str, max_bytes: int) -> None:
        """``max_bytes``: maximum output to keep, counted from its end."""
        self._output = _Output(max_bytes)
        self._exit_code: int | None = -signal.SIGKILL
        """Exit code, or the negative number of a signal, initially that of a kill; or None if the command could not
        be started.
        """
        self._note = ""
        self._refused: ToolRefused | None = None
        self._work = asyncio.ensure_future(self._run(shell, context, command))

    async def _run(self, shell: Shell, context: ToolContext, command: str) -> None:
        """Run the command under a guard that ends it when the kernel ends."""
        lifeline, held = os.pipe()
        try:
            guard = guard_words(lifeline)
            result, self._note = await run_command(shell, context, command, math.inf, self._output, guard, (lifeline,))
            self._exit_code = result.exit_code
        except ToolRefused as refused:
            self._exit_code, self._refused = None, refused
        finally:
            os.close(lifeline)
            os.close(held)

    async def check_started(self) -> None:
        """Raise `ToolRefused` if the command could not be started."""
        await asyncio.sleep(0)  # the first step of the task starts it
        if self._refused is not None:
            raise self._refused

    def when_over(self, callback: Callable[[], None]) -> None:
        """Call a function once the command has ended."""
        self._work.add_done_callback(lambda _: callback())

    async def wait(self) -> None:
        """Wait for the end of the command and all its processes."""
        await asyncio.wait((self._work,))

    def kill(self) -> None:
        """Kill the command and all its processes."""
        self._work.cancel()

    @property
    def status(self) -> JsonObject | None:
        """Exit status in the protocol's form, or None while the command is running."""
        if not self._work.done():
            return None
        code = self._exit_code
        if code is not None and code < 0:
            return {"exitCode": None, "signal": signal.Signals(-code).name}
        return {"exitCode": code, "signal": None}

    @property
    def report(self) -> JsonObject:
        """Output so far in the protocol's form, with known keys removed."""
        report = {"output": redact(self._output.end), "truncated": self._output.omitted_bytes > 0}
        return report if self.status is None else {**report, "exitStatus": self.status}

    @property
    def outcome(self) -> ToolOutcome:
        """Outcome in the form that the tool ``bash`` returns."""
        text = self._output.of_result.text
        if not self._work.done():
            return success("\n".join(filter(None, (text.removesuffix("\n"), "[The command is still running.]"))))
        if self._refused is not None:
            return self._refused.outcome
        return command_outcome(ProcessResult(self._exit_code, text, ""), self._note, math.inf)


class Terminals:
    """Terminals of a session."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._by_id: dict[str, Terminal] = {}
        self._count = 0

    def get(self, terminal_id: Any) -> Terminal | None:
        """Return a terminal by id, or None."""
        return self._by_id.get(str(terminal_id))

    async def open(self, context: ToolContext, command: str, max_bytes: Any) -> tuple[str, Terminal]:
        """Run a command in a new terminal, and return its id and the terminal. Raises `ToolRefused`.

        ``max_bytes``: how much output to keep, at most `MAX_TERMINAL_BYTES`, which is also the default.
        """
        most = min(max(int(max_bytes), 0), MAX_TERMINAL_BYTES) if isinstance(max_bytes, int) else MAX_TERMINAL_BYTES
        terminal = Terminal(self._shell, context, command, most)
        await terminal.check_started()
        self._count += 1
        terminal_id = f"terminal-{self._count}"
        self._by_id[terminal_id] = terminal
        return terminal_id, terminal

    async def answer(self, method: str, terminal_id: str) -> JsonObject | None:
        """Answer a request about a terminal, or return None if the terminal is unknown."""
        terminal = self._by_id.get(terminal_id)
        if terminal is None:
            return None
        if method == "terminal/output":
            return terminal.report
        if method in ("terminal/kill", "terminal/release"):
            terminal.kill()
        await terminal.wait()
        if method == "terminal/release":
            self._by_id.pop(terminal_id, None)
        return (terminal.status or {}) if method == "terminal/wait_for_exit" else {}

    async def close(self) -> None:
        """Kill running commands."""
        for terminal in self._by_id.values():
            terminal.kill()
        for terminal in [*self._by_id.values()]:
            await terminal.wait()
