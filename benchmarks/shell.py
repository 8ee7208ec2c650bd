"""What the tool `bash` costs over a tool of one's own that starts bash, as ratios within one run.

Usage: python benchmarks/shell.py [--rounds 100] [--turns 15]
Each number is the median of several runs in one process, the two sides taking turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from agentnb import Agent, RunOptions, ToolCall, tool
from agentnb.core.messages import Message, Text
from agentnb.errors import SettingsError
from agentnb.models.model import Reply
from agentnb.tools.builtin.shell.group import Shell

DONE = Reply(Message("assistant", (Text("done"),)))


@tool(name="bash")
def own(command: str) -> str:
    """Run a command."""
    return subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout


class Calls:
    """Calls bash in each of ``rounds`` rounds, and then says done."""

    name = "scripted:bench"

    def __init__(self, rounds: int, command: str) -> None:
        self._rounds, self._command = rounds, command

    async def stream(self, request: Any) -> Any:
        index = (len(request.messages) - 1) // 2
        if index >= self._rounds:
            yield DONE
            return
        yield Reply(Message("assistant", (ToolCall("bash", {"command": f"{self._command} # {index}"}, f"call_{index}"),)))


def run_of(tools: Any, command: str, rounds: int) -> Callable[[], None]:
    agent = Agent(Calls(rounds, command), tools=[tools], max_rounds=rounds + 1, permissions={"bash": "allow"})

    def work() -> None:
        run = asyncio.run(agent.run("go", RunOptions(show=False, approve=lambda call, run: True)))
        results = [result for one in run.rounds for result in one.results]
        assert len(results) == rounds and not any(result.is_error for result in results), run

    return work


def seconds(work: Callable[[], None]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def ratio(one: Callable[[], None], other: Callable[[], None], turns: int, rounds: int) -> str:
    one(), other()
    pairs = []
    for turn in range(turns):
        if turn % 2:
            pairs.append((seconds(one), seconds(other)))
        else:
            pairs.append((seconds(other), seconds(one))[::-1])
    ratios = [a / b for a, b in pairs]
    quarters = statistics.quantiles(ratios, n=4)
    each = statistics.median(a for a, _ in pairs) / rounds * 1000
    return f"{each:.1f} | {statistics.median(ratios):.2f} ({quarters[0]:.2f} to {quarters[2]:.2f})"


ROWS: list[tuple[str, Any, Any, str, str]] = [
    ("`bash true`, over a tool of one's own that starts it", Shell(), own, "true", "<= 1.3"),
    ("the tool of one's own over itself: the noise", own, own, "true", ""),
    ("a command that prints 1 MB", Shell(), own, "head -c 1000000 /dev/zero | tr '\\0' x", ""),
    ("`bash true` in the sandbox", Shell(sandbox="bwrap"), own, "true", ""),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    print("| a round with one call | ms | ratio (quartiles) | goal |\n|---|---:|---:|---|")
    for label, one, other, command, goal in ROWS:
        try:
            if isinstance(one, Shell):
                one.check_usable()
        except SettingsError as error:
            print(f"| {label} | not here: {error.args[0]} | | |")
            continue
        sides = run_of(one, command, given.rounds), run_of(other, command, given.rounds)
        print(f"| {label} | {ratio(*sides, given.turns, given.rounds)} | {goal} |", flush=True)


if __name__ == "__main__":
    main()
