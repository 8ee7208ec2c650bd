"""What every test gets: no network but loopback, no home directory, no keys, a folder of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

LOOPBACK = ("127.0.0.1", "::1", "localhost")
VARIABLES = ("AGENTNB_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--browser", action="store_true", help="also run the tests that need a browser")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the browser tests out, and say so, unless they are asked for."""
    if config.getoption("--browser"):
        return
    left_out = [item for item in items if item.get_closest_marker("browser")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home that is empty, no keys, and no way out of this machine."""
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "USERPROFILE", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(home))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def checked(original):  # type: ignore[no-untyped-def]
        def call(self: socket.socket, address: object) -> object:
            if self.family != socket.AF_UNIX and isinstance(address, tuple) and address[0] not in LOOPBACK:
                raise AssertionError(f"A test tried to reach {address[0]}: only loopback is allowed")
            return original(self, address)

        return call

    monkeypatch.setattr(socket.socket, "connect", checked(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", checked(connect_ex))
    yield


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
