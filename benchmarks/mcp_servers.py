"""What tools of MCP servers cost, as ratios within one run.

Usage: python benchmarks/mcp_servers.py [--rounds 200] [--turns 21] [--before FOLDER]
A call through agentnb is compared with one of a plain tool of one's own, which calls the official client that it holds open;
the sides take turns. FOLDER is a checkout of an earlier version: a run without servers is compared with the same run there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from permissions import seconds

from agentnb import Agent, MCPServer, RunOptions, ToolCall, tool
from agentnb.core.messages import Message, Text
from agentnb.models.estimate import tokens_of_request
from agentnb.models.model import Reply
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp import tool_search

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from mcp_runs import PROGRAM, bench, over_http

DONE = Reply(Message("assistant", (Text("done"),)))
PAIRS = 9
MANY = 200
WITHOUT_SERVERS = """
import asyncio, gc, statistics, time
from agentnb import Agent, RunOptions, ToolCall
from agentnb.core.messages import Message, Text
from agentnb.models.model import Reply

class Calls:
    name = "scripted:bench"
    async def stream(self, request):
        index = (len(request.messages) - 1) // 2
        message = (Text("done"),) if index >= 50 else (ToolCall("add", {"a": index, "b": 1}, f"call_{index}"),)
        yield Reply(Message("assistant", message))

async def add(a: int, b: int) -> int:
    return a + b

agent, taken = Agent(Calls(), tools=[add], max_rounds=60), []
async def several():
    for _ in range(120):
        gc.collect()
        started = time.process_time()
        await agent.run("go", RunOptions(show=False))
        taken.append(time.process_time() - started)
asyncio.run(several())
print(statistics.median(taken[20:]))
"""


class Calls:
    """Calls one tool in each of ``rounds`` rounds, ``beside`` times at once, and then says done. Keeps its first request."""

    name = "scripted:bench"

    def __init__(self, rounds: int, tool: str, beside: int = 1) -> None:
        self._rounds, self._tool, self._beside = rounds, tool, beside
        self.first: Any = None

    async def stream(self, request: Any) -> Any:
        self.first = self.first or request
        index = (len(request.messages) - 1) // 2
        if index >= self._rounds:
            yield DONE
            return
        calls = [ToolCall(self._tool, {"a": index, "b": place}, f"call_{index}_{place}") for place in range(self._beside)]
        yield Reply(Message("assistant", tuple(calls)))


class Held:
    """A client that is held open, by a task of its own, as the client requires."""

    def __init__(self, target: Any) -> None:
        self._target = target

    async def open(self) -> Any:
        self._over = asyncio.Event()
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(ready))
        return await ready

    async def close(self) -> None:
        self._over.set()
        await self._task

    async def _own(self, ready: asyncio.Future[Any]) -> None:
        from mcp import Client

        async with Client(self._target) as client:
            ready.set_result(client)
            await self._over.wait()


def own_tool(client: Any) -> Any:
    """Return a plain tool around a client."""

    @tool(parallel_safe=True)
    async def add(a: int, b: int) -> str:
        """Add two numbers."""
        result = await client.call_tool("add", {"a": a, "b": b})
        return "\n".join([block.text for block in result.content])

    return add


def work_of(runner: asyncio.Runner, agent: Agent, host: Host, rounds: int, beside: int) -> Callable[[], None]:
    """Return what makes a run of these calls."""

    async def run() -> None:
        with use_host(host):
            run = await agent.run("go", RunOptions(show=False))
        results = [result for one in run.rounds for result in one.results]
        assert len(results) == rounds * beside and not any(result.is_error for result in results), run

    return lambda: runner.run(run())


def ratios(one: Callable[[], None], other: Callable[[], None], turns: int) -> str:
    """Return the median of the ratios of both with its quartiles, and the ratio of the fastest turn of each."""
    one(), other()
    pairs = []
    for turn in range(turns):
        clock = time.perf_counter
        first = [seconds(work, clock) for work in ((one, other) if turn % 2 else (other, one))]
        pairs.append(first if turn % 2 else first[::-1])
    each = [a / b for a, b in pairs]
    quarters = statistics.quantiles(each, n=4)
    fastest = min(a for a, _ in pairs) / min(b for _, b in pairs)
    return f"{statistics.median(each):.2f} ({quarters[0]:.2f} to {quarters[2]:.2f}); {fastest:.2f}"


def compare_calls(label: str, server: MCPServer, target: Any, given: argparse.Namespace, goal: str, beside: int = 1) -> None:
    """Print the ratio of a call through agentnb to one through a client of one's own."""
    held, theirs, rounds = Servers(), Held(target), given.rounds // beside
    with asyncio.Runner() as runner:
        sides = [("mcp_bench_add", server, Host(servers=held)), ("add", own_tool(runner.run(theirs.open())), Host())]
        works = []
        for name, offered, host in sides:
            agent = Agent(Calls(rounds, name, beside), tools=[offered], max_rounds=rounds + 1, approve="auto")
            works.append(work_of(runner, agent, host, rounds, beside))
        print(f"| {label} | {ratios(*works, given.turns)} | {goal} |", flush=True)
        runner.run(theirs.close())
    held.close()


@contextmanager
def offering_all() -> Iterator[None]:
    """Offer all tools in each request while the block runs."""
    most, tool_search.MAX_OFFERED = tool_search.MAX_OFFERED, 10_000
    try:
        yield
    finally:
        tool_search.MAX_OFFERED = most


def first_request(server: MCPServer, held: Servers, **options: Any) -> int:
    """Return the tokens of the first request of a run with the tools of a server, as they are estimated."""
    model = Calls(0, "")
    with use_host(Host(servers=held)):
        asyncio.run(Agent(model, tools=[server], **options).run("Which vessels are in the harbour?", RunOptions(show=False)))
    return tokens_of_request(model.first)


def compare_requests() -> None:
    """Print the ratio of the tokens of first requests with and without the search for tools."""
    held, many = Servers(), bench("many", str(MANY))
    for label, options in {"as agents are by default": {}, "without todos": {"todos": False}}.items():
        found = first_request(many, held, **options)
        with offering_all():
            everything = first_request(many, held, **options)
        text = f"tokens of the first request with {MANY} tools, found by words, over all offered, {label}"
        print(f"| {text} | {found / everything:.2f} ({found:,} of {everything:,}) | <= 0.2 |", flush=True)
    held.close()


def compare_with(folder: str) -> None:
    """Print the ratio of a run without servers to the same one of an earlier version, in pairs of processes."""

    def seconds(root: str) -> float:
        program = [sys.executable, "-c", WITHOUT_SERVERS]
        environment = {**os.environ, "PYTHONPATH": root}
        return float(subprocess.run(program, env=environment, cwd=root, capture_output=True, text=True, check=True).stdout)

    here = str(Path(__file__).parents[1])
    pairs = [(seconds(here), seconds(folder)) if turn % 2 else (seconds(folder), seconds(here))[::-1] for turn in range(PAIRS)]
    ratios = [a / b for a, b in pairs]
    quarters = statistics.quantiles(ratios, n=4)
    text = f"{statistics.median(ratios):.2f} ({quarters[0]:.2f} to {quarters[2]:.2f})"
    print(f"| a run without servers, over the same before there were any | {text} | <= 1.03 |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--before")
    given = parser.parse_args()
    from mcp import StdioServerParameters

    print("| with an MCP server | ratio (quartiles); of the fastest turns | goal |\n|---|---:|---|")
    stdio = StdioServerParameters(command=sys.executable, args=[PROGRAM])
    compare_calls("a call over stdio, over a plain tool around the official client", bench(), stdio, given, "<= 1.2")
    compare_calls("the same, ten calls at once", bench(), stdio, given, "", 10)
    with over_http() as address:
        server = MCPServer("bench", address)
        compare_calls("a call over HTTP, over a plain tool around the official client", server, address, given, "<= 1.2")
        compare_calls("the same, ten calls at once", server, address, given, "", 10)
    compare_requests()
    if given.before:
        compare_with(given.before)


if __name__ == "__main__":
    main()
