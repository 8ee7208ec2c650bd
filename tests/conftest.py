"""What every test gets: no network but loopback, no keys, a folder of its own."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from agentnb import settings

LIMITS = (
    "AGENT_MAX_ITERATIONS",
    "AGENT_MAX_TOKENS",
    "AGENT_MAX_MESSAGES",
    "COMPACT_ENABLED",
    "COMPACT_THRESHOLD",
    "COMPACT_KEEP_RECENT",
    "TOOLS_ENABLED",
)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """No way out of this machine."""

    def checked(original):  # type: ignore[no-untyped-def]
        def call(self: socket.socket, address: object) -> object:
            if self.family != socket.AF_UNIX and isinstance(address, tuple) and address[0] not in LOOPBACK:
                raise AssertionError(f"A test tried to reach {address[0]}: only loopback is allowed")
            return original(self, address)

        return call

    monkeypatch.setattr(socket.socket, "connect", checked(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", checked(socket.socket.connect_ex))


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test works in a folder of its own, without keys that another has kept."""
    monkeypatch.chdir(tmp_path)
    for variable in LIMITS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(settings, "_held", settings._Held())
