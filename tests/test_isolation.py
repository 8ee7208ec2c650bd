"""Isolation of every test: from other machines, folders and keys of other tests, and settings of this machine."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from agentnb import settings

ELSEWHERE = ("192.0.2.1", 80)
"""An address reserved for documentation."""
seen: list[Path] = []


def open_socket() -> None:
    with socket.socket() as one:
        one.connect(ELSEWHERE)


def ask_for_its_status() -> None:
    with socket.socket() as one:
        one.connect_ex(ELSEWHERE)


def open_in_a_loop() -> None:
    async def connect() -> None:
        await asyncio.open_connection(*ELSEWHERE)

    asyncio.run(connect())


@pytest.mark.parametrize("reach", [open_socket, ask_for_its_status, open_in_a_loop])
def test_test_that_reaches_another_machine_fails(reach: object) -> None:
    with pytest.raises(AssertionError, match=r"A test tried to reach 192\.0\.2\.1: only loopback is allowed"):
        reach()  # type: ignore[operator]


def test_loopback_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


@pytest.mark.parametrize("left", ["a file", "another"])
def test_files_and_kernel_state_of_a_test_are_isolated(left: str) -> None:
    assert list(Path().iterdir()) == [] and not settings.has_key("anthropic")
    Path(left).touch()
    settings.keep_key("anthropic", "sk-test-0123456789")
    assert Path.cwd() not in seen
    seen.append(Path.cwd())


def test_requested_folder_becomes_the_working_folder(tmp_path: Path) -> None:
    assert Path.cwd() == tmp_path.resolve()


def test_limits_and_keys_of_this_machine_are_ignored() -> None:
    assert [name for name in os.environ if name.startswith(("AGENT_MAX", "COMPACT_", "TOOLS_")) or name.endswith("_KEY")] == []
