"""Processes of a command: all ended after its end, a timeout or a stop."""

from __future__ import annotations

import asyncio
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import bash_calls
import pytest
from bash_calls import call_bash, has_ended

from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.shell.process_tree import descendants_of, holders_of
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.tool import ToolContext, ToolOutcome

SHELL = Shell()
STARTED_APART = (
    f"{shlex.quote(sys.executable)} -ISc 'import subprocess, sys;"
    ' child = subprocess.Popen(["sleep", "999"], start_new_session=True); print(child.pid)\''
)

STARTED_SILENTLY = (
    f"{shlex.quote(sys.executable)} -ISc 'import subprocess;"
    ' child = subprocess.Popen(["sleep", "999"], start_new_session=True, stdout=subprocess.DEVNULL,'
    " stderr=subprocess.DEVNULL); print(child.pid, flush=True); child.wait()'"
)


@pytest.mark.req("R2.23")
def test_leftover_processes_are_killed(tmp_path: Path, subtests: pytest.Subtests) -> None:
    commands = {
        "background": "sleep 999 & echo $!",
        "holds no output": "sleep 999 >/dev/null 2>&1 & echo $!",
        "ignores signals": "(trap '' TERM HUP INT; sleep 999) & echo $!",
        "session of its own": "setsid -f sh -c 'echo $$ > first; exec sleep 999'; while ! [ -s first ]; do :; done; cat first",
        "session of its own, silent": "setsid -f sh -c 'echo $$ > pid; exec sleep 999' >/dev/null 2>&1; "
        "while ! [ -s pid ]; do :; done; cat pid",
        "without inherited descriptors": STARTED_APART,
    }
    for case, command in commands.items():
        with subtests.test(case):
            outcome = call_bash(SHELL, tmp_path, command)
            assert outcome.ok, outcome.text
            assert has_ended(int(outcome.text.split()[-1]))


@pytest.mark.req("R2.21", "R2.22", "R2.23")
def test_timeout_kills_all_processes_and_keeps_output(tmp_path: Path, subtests: pytest.Subtests) -> None:
    commands = {
        "of the group": "sleep 999 & echo $!; wait",
        "of another session": STARTED_APART + "; sleep 999",
        "below another session": STARTED_SILENTLY,
    }
    context = ToolContext("r-1", "toolu_1", tmp_path, call_in_thread)

    async def outcomes() -> list[ToolOutcome]:
        calls = ({"command": command, "timeout": 1} for command in commands.values())
        return await asyncio.gather(*(SHELL.tools[0].run(call, context) for call in calls))

    for case, outcome in zip(commands, asyncio.run(outcomes()), strict=True):
        with subtests.test(case):
            first, number = outcome.text.splitlines()[:2]
            assert (outcome.ok, outcome.error_code, first) == (False, "timeout", "Command timed out after 1 seconds")
            assert has_ended(int(number))


@pytest.mark.req("R2.23")
def test_stop_kills_the_command(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def stopped() -> int:
        context = ToolContext("r-1", "toolu_1", tmp_path, call_in_thread)
        task = asyncio.create_task(SHELL.tools[0].run({"command": "sleep 999 & echo $! > fifo; wait"}, context))
        number = int(await asyncio.to_thread(fifo.read_text))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return number

    assert has_ended(asyncio.run(stopped()))


def test_command_has_its_own_process_group(tmp_path: Path) -> None:
    number, group = call_bash(SHELL, tmp_path, "ps -o pid=,pgid= -p $$").text.split()
    assert number == group
    assert int(group) != os.getpgid(0)


def test_command_has_no_terminal(tmp_path: Path) -> None:
    program = "import os; from pathlib import Path; terminal = os.open(os.ttyname(0), os.O_RDWR)\n"  # now it is the caller's
    program += "from bash_calls import Shell, call_bash; call = call_bash(Shell(), Path.cwd(), 'read answer < /dev/tty')\n"
    program += "os.close(os.open('/dev/tty', os.O_RDWR)); print(call.text)"
    variables = {**os.environ, "PYTHONPATH": str(Path(bash_calls.__file__).parent)}
    own, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", program], stdin=terminal, stdout=-1, env=variables, start_new_session=True, check=True
    )
    os.close(own)
    os.close(terminal)
    assert b"No such device or address" in done.stdout


def test_kernel_descriptors_do_not_leak(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        os.set_inheritable(descriptor, True)
        targets = call_bash(SHELL, tmp_path, "readlink /proc/$$/fd/*").text
    finally:
        os.close(descriptor)
    assert str(tmp_path) not in targets
    assert targets.split("\n")[0] == "/dev/null"


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    call_bash(SHELL, tmp_path, "true")
    before = sorted(Path("/proc/self/fd").iterdir())
    for command in ("true", "sleep 999 &", "exit 3"):
        call_bash(SHELL, tmp_path, command)
    call_bash(SHELL, tmp_path / "missing", "true")
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_pipe_holders_are_only_processes_that_can_write_it(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    number = os.fstat(reading).st_ino
    try:
        assert holders_of([number]) == (), "without this process itself"
        assert descendants_of(os.getpid()) is not None
    finally:
        os.close(reading)
        os.close(writing)
