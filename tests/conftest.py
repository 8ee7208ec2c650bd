"""What every test gets: no network but loopback, no keys, a folder of its own."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from agentnb import settings

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SDK_VARIABLES = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
"""What the SDKs read on their own."""
KEYS = ("AGENTNB_MODEL", *settings.KEY_VARIABLES.values(), *settings.URL_VARIABLES.values(), *SDK_VARIABLES)

os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"  # no test asks this machine's; kernels inherit it


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
    """Each test works in a folder of its own, without keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(settings, "_held", settings._Held())
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
