"""Fixtures: the fake agent, under a name of its own in the table of known agents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fork_server import ForkServer

from agentnb import Agent
from agentnb.acp.known_agents import KnownAgent, known_agents

PROGRAM = Path(__file__).with_name("fake_agent.py")
IMPORTED = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); from fake_agent import Agent; Agent().serve()"
"""Runs the program as a module, which Python compiles once. (A sandbox shows the files that the command names.)"""
FAKE = KnownAgent(
    command=(sys.executable, "-c", IMPORTED, str(PROGRAM)),
    asks_in="default",
    usage="turn",
    errors="error",
    install="nothing to install",
    terminals=True,
    asks_about=("read", "write", "execute", "network"),
)


@pytest.fixture(autouse=True)
def table() -> Iterator[dict[str, KnownAgent]]:
    """The known agents, with ``fake`` among them."""
    known = known_agents()
    before = dict(known)
    known["fake"] = FAKE
    yield known
    known.clear()
    known.update(before)


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., Agent]:
    """Return a factory of agents backed by the fake agent, in a folder of the test."""
    return lambda **settings: Agent(acp="fake", work_dir=tmp_path, **settings)


@pytest.fixture(scope="session")
def kernels() -> Iterator[ForkServer]:
    """The process that kernels are forked from."""
    from kernels import ROOMS  # imports much

    with ForkServer("kernels", *(f"agentnb.{room}" for room in ROOMS)) as server:
        yield server
