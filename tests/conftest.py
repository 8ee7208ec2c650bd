"""Isolation of every test: loopback only, no keys, and an own folder."""

from __future__ import annotations

import os
import shutil
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
from agentnb.runtime.questions.saved_rules import rules_folder

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
    """Handle interrupts even where the shell ignores them, as it does for background jobs."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Turn an escaping interrupt into a failure of the test, if it requests ``no_escape``."""
    try:
        return (yield)
    except KeyboardInterrupt as error:
        if "no_escape" not in pyfuncitem.fixturenames:
            raise
        raise AssertionError("An interrupt left the test") from error


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """Block other machines, and unset the limits of the environment."""

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
    """Keep tests, and programs that they start, from writing files of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders for tests that request none, reused with their servers until a test leaves files in one."""
    return [tmp_path_factory.mktemp("folder")]


@pytest.fixture(autouse=True)
def own_folder(request: pytest.FixtureRequest, folders: list[Path]) -> Iterator[None]:
    """Run each test in its own folder, which is ``tmp_path`` if requested, without the keys and rules of another test."""
    before, rules = settings._held, rules_folder()
    settings._held = settings._Held()
    if "tmp_path" in request.fixturenames:
        os.chdir(request.getfixturevalue("tmp_path"))
    else:
        if not folders[-1].exists() or any(folders[-1].iterdir()):
            folders.append(Path(mkdtemp(dir=folders[0].parent)))
        os.chdir(folders[-1])
    yield
    os.chdir(folders[0].parent)  # a test may have deleted its folder
    shutil.rmtree(rules, ignore_errors=True)  # the next test may use the folder for which this one saved a rule
    settings._held = before
