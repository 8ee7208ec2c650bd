"""Fixtures: the fake agent, under a name of its own in the table of known agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_entry import FAKE
from fork_server import ForkServer

from agentnb import Agent
from agentnb.acp.known_agents import KnownAgent, known_agents


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
    from killed_kernels import ROOMS  # imports much

    with ForkServer("killed_kernels", *(f"agentnb.{room}" for room in ROOMS)) as server:
        yield server
