"""Custom account limiters, such as limiters shared by several processes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from counted_limiter import limited_by
from quick_models import ask

from agentnb.models.transport.connections import Account, Endpoint, limiter_of
from agentnb.models.transport.limiter import Limiter
from agentnb.settings import Key
from agentnb.testing import LoopbackServer


class Noting:
    """A limiter that only records its calls."""

    def __init__(self, account: Account) -> None:
        self.name = account.provider
        self.account = account
        self.told: list[str] = []

    @asynccontextmanager
    async def place(self, most: float = math.inf, longest: float = math.inf) -> AsyncIterator[float]:
        self.told.append("comes")
        yield 0.0
        self.told.append("leaves")

    def went_well(self) -> None:
        self.told.append("went well")

    def was_refused(self, seconds: float, asked: float | None = None) -> None:
        self.told.append("was refused")


@pytest.fixture
def made() -> Iterator[list[Noting]]:
    """The limiters that were made."""
    found: list[Noting] = []

    def make(account: Account) -> Noting:
        found.append(Noting(account))
        return found[-1]

    with limited_by(make):
        yield found


def test_calls_of_the_same_account_share_a_limiter(made: list[Noting]) -> None:
    with LoopbackServer(["Hello.", "Hello."]) as server:
        ask(server, "compatible")
        ask(server, "compatible")
    assert [item.told for item in made] == [["comes", "leaves", "went well"] * 2]


def test_limiter_is_created_once_per_account_without_its_key(made: list[Noting]) -> None:
    endpoint = Endpoint("openai", None, Key("MY_KEY", "sk-one-of-those-long-keys", "this kernel"), "MY_KEY")
    assert limiter_of(endpoint) is limiter_of(endpoint) is made[0]
    assert made[0].account == Account("openai", "MY_KEY", None)


def test_calls_outside_the_scope_use_the_process_limiters() -> None:
    endpoint = Endpoint("openai", None, None)
    usual = limiter_of(endpoint)
    with limited_by(Noting):
        assert isinstance(limiter_of(endpoint), Noting)
    assert limiter_of(endpoint) is usual and isinstance(usual, Limiter)
