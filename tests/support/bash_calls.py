"""Calls of the tool ``bash``, and whether the processes that they started have ended."""

from __future__ import annotations

import asyncio
import functools
import os
import select
import shutil
from pathlib import Path
from typing import Any

import pytest
from missing_parts import skip_without

from agentnb.errors import SettingsError
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.shell.sandbox import check_sandbox
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.tool import ToolContext, ToolOutcome

PATIENCE = 30.0


def call_bash(shell: Shell, folder: Path, command: str, **arguments: Any) -> ToolOutcome:
    """Call the tool by itself, in a loop of its own."""
    context = ToolContext("r-1", "toolu_1", folder, call_in_thread)
    return asyncio.run(shell.tools[0].run({"command": command, **arguments}, context))


def has_ended(number: int) -> bool:
    """Wait for the end of a process; False if it lives on."""
    try:
        descriptor = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE)[0])
    finally:
        os.close(descriptor)


@functools.cache
def sandbox_problem(has_network: bool = False) -> str:
    """Return why there is no sandbox on this machine; empty if there is one."""
    try:
        check_sandbox(has_network=has_network)
    except SettingsError as error:
        return str(error)
    return ""


def skip_without_sandbox(has_network: bool = False) -> None:
    """Skip the test, with the reason, where the machine has no sandbox."""
    if problem := sandbox_problem(has_network=has_network).partition("\n")[0]:
        if shutil.which("bwrap") is None:
            skip_without("bubblewrap", problem)
        pytest.skip(problem)
