"""Two hosts in one process, each with its own limits for model calls."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scripted_runs import bare

from agentnb import Run, ToolCall
from agentnb.models import ScriptedModel
from agentnb.models.transport.connections import Account, CallLimits
from agentnb.models.transport.limiter import CallLimiter
from agentnb.runtime.host.host import Host, use_host
from agentnb.testing import LoopbackServer
from agentnb.tools.tool import ToolContext

CALLS = 3


class AtOnce:
    """A limiter for so many parallel calls; with `CALLS`, each waits until all are admitted."""

    def __init__(self, most: int) -> None:
        self.name = f"{most} at once"
        self.calls = self.peak = 0
        self._free = asyncio.Semaphore(most)
        self._all_in = asyncio.Barrier(most)

    @asynccontextmanager
    async def place(self, most: float = math.inf, longest: float = math.inf) -> AsyncIterator[float]:
        async with self._free:
            self.calls += 1
            self.peak = max(self.peak, self.calls)
            await self._all_in.wait()
            try:
                yield 0.0
            finally:
                self.calls -= 1

    def went_well(self) -> None: ...

    def was_refused(self, seconds: float, asked: float | None = None) -> None: ...


def test_hosts_have_separate_limits() -> None:
    async def runs_of(host: Host, model: str) -> list[Run]:
        with use_host(host):
            return await asyncio.gather(*[bare(model).run("Go", show=False) for _ in range(CALLS)])

    async def both(model: str) -> list[AtOnce]:
        limiters = [AtOnce(1), AtOnce(CALLS)]

        def limits_of(limiter: CallLimiter) -> CallLimits:
            return CallLimits(lambda account: limiter)

        runs = await asyncio.gather(*[runs_of(Host(limits=limits_of(limiter)), model) for limiter in limiters])
        assert {run.text for found in runs for run in found} == {"Done."}
        return limiters

    with LoopbackServer(["Done."] * 2 * CALLS) as server:
        limiters = asyncio.run(both(server.model("compatible")))
    assert [limiter.peak for limiter in limiters] == [1, CALLS]


def test_nested_and_background_runs_have_the_limits_of_their_host() -> None:
    accounts: list[Account] = []

    def make(account: Account) -> AtOnce:
        accounts.append(account)
        return AtOnce(1)

    async def delegate(context: ToolContext) -> str:
        """Begin a run."""
        return str((await context.start_run(bare(server.model("compatible")), "Go")).text)

    with LoopbackServer(["Inner."]) as server, use_host(Host(limits=CallLimits(make))):
        run = bare(ScriptedModel([ToolCall("delegate"), "Done."]), [delegate]).start("Go").result(30)
    assert run.rounds[0].results[0].text == "Inner."
    assert [account.provider for account in accounts] == ["compatible"]
