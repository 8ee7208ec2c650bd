"""What every test gets: no network but loopback, no keys, a folder of its own."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from certificates import certificates_read_once  # noqa: F401  # fixtures, used by all tests below
from keyrings import locked, memory  # noqa: F401
from mcp_runs import forked, forked_where_used, servers  # noqa: F401
from run_fixtures import no_escape, own_limiters, skipped, virtual_time  # noqa: F401

from agentnb import settings

LIMITS = (
    "AGENT_MAX_ITERATIONS",
    "AGENT_MAX_TOKENS",
    "AGENT_MAX_MESSAGES",
    "COMPACT_ENABLED",
    "COMPACT_THRESHOLD",
    "COMPACT_KEEP_RECENT",
    "TOOLS_ENABLED",
    "MCP_SERVERS",
)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@pytest.fixture(scope="session", autouse=True)
def interrupts_arrive() -> None:
    """Take interrupts even where the shell that started the tests ignores them, as it does for a job in its background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Have an interrupt that leaves a test fail it, and not end the process of the tests, if it asks for ``no_escape``."""
    try:
        return (yield)
    except KeyboardInterrupt as error:
        if "no_escape" not in pyfuncitem.fixturenames:
            raise
        raise AssertionError("An interrupt left the test") from error


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """Close the ways out of this machine, and forget the limits that its environment sets."""

    def checked(original):  # type: ignore[no-untyped-def]
        def call(self: socket.socket, address: object) -> object:
            if self.family != socket.AF_UNIX and isinstance(address, tuple) and address[0] not in LOOPBACK:
                raise AssertionError(f"A test tried to reach {address[0]}: only loopback is allowed")
            return original(self, address)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", checked(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", checked(socket.socket.connect_ex))
        for variable in LIMITS:
            patch.delenv(variable, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the tests of this process, and programs that they start, keep no file of the person who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders of tests that ask for none: the last one serves until a test leaves something in it, with its servers."""
    return [tmp_path_factory.mktemp("folder")]


@pytest.fixture(autouse=True)
def own_folder(request: pytest.FixtureRequest, folders: list[Path]) -> Iterator[None]:
    """Each test works in a folder of its own, which is ``tmp_path`` if it asks for that, and without the keys of another."""
    before = settings._held
    settings._held = settings._Held()
    if "tmp_path" in request.fixturenames:
        os.chdir(request.getfixturevalue("tmp_path"))
    else:
        if not folders[-1].exists() or any(folders[-1].iterdir()):
            folders.append(Path(mkdtemp(dir=folders[0].parent)))
        os.chdir(folders[-1])
    yield
    os.chdir(folders[0].parent)  # a test may have deleted its own
    settings._held = before
