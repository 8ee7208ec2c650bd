"""The cost of permissions per tool call, as ratios within one run.

Usage: python benchmarks/permissions.py [--rounds 200] [--turns 15]
Each number is the median of several runs in one process, the two sides taking turns, in time of the processor.
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
from pathlib import Path
from typing import Any, NamedTuple

from agentnb import Agent, RunOptions, ToolCall, tool
from agentnb.core.messages import Message, Text
from agentnb.models.model import Reply

DONE = Reply(Message("assistant", (Text("done"),)))


async def plain(line: str) -> str:
    """Run a line."""
    return line


@tool(name="shell", effects=["execute"], command="line")
async def shell(line: str) -> str:
    """Run a line."""
    return line


@tool(name="save", effects=["write"], path="file")
async def save(file: str) -> str:
    """Save a file."""
    return file


@tool(name="fetch", effects=["network"], url="address")
async def fetch(address: str) -> str:
    """Fetch an address."""
    return address


@tool(name="shell", effects=["execute"], command="line")
def shell_that_runs(line: str) -> str:
    """Start a program."""
    return subprocess.run(["true", *line.split()], check=True, capture_output=True, text=True).stdout


@tool(name="save", effects=["write"], path="file")
def save_that_writes(file: str) -> str:
    """Write a file and see it on the disk."""
    with Path(file).open("w") as stream:
        stream.write(file)
        os.fsync(stream.fileno())
    return file


class Calls:
    """Calls one tool in each of ``rounds`` rounds, and then says done."""

    name = "scripted:bench"

    def __init__(self, rounds: int, name: str, argument: str, text: str) -> None:
        self._rounds, self._tool, self._argument, self._text = rounds, name, argument, text

    async def stream(self, request: Any) -> Any:
        index = (len(request.messages) - 1) // 2
        if index >= self._rounds:
            yield DONE
            return
        arguments = {self._argument: self._text.format(index)}
        yield Reply(Message("assistant", (ToolCall(self._tool, arguments, f"call_{index}"),)))


class Case(NamedTuple):
    """Calls of a tool."""

    function: Any
    tool: str
    argument: str
    text: str
    """The argument; in brackets the number of the round."""


PLAIN = Case(plain, "plain", "line", "git status {}")
SHELL = Case(shell, "shell", "line", "git status {}")
SAVE = Case(save, "save", "file", "data/{}.txt")
RUN = Case(shell_that_runs, "shell", "line", "git status {}")
WRITE = Case(save_that_writes, "save", "file", "data/{}.txt")
FETCH = Case(fetch, "fetch", "address", "https://docs.python.org/{}")


def others(count: int) -> dict[str, str]:
    """Rules about tools that the agent does not call."""
    return {f"write_file(other{number}/**)": "ask" for number in range(count)}


def commands(count: int, verdicts: tuple[str, ...] = ("allow",)) -> dict[str, str]:
    """Return so many rules about commands; only the last matches."""
    rules = {f"shell(program{number} run *)": verdicts[number % len(verdicts)] for number in range(count - 1)}
    return {**rules, "shell(git status *)": "allow"}


def run_of(case: Case, rounds: int, permissions: Any) -> Callable[[], None]:
    """Return a function that makes a run of these calls; without permissions no call is judged."""
    model, mode = Calls(rounds, case.tool, case.argument, case.text), None if permissions else "auto"
    agent = Agent(model, tools=[case.function], max_rounds=rounds + 1, permissions=permissions, approve=mode)

    def work() -> None:
        run = asyncio.run(agent.run("go", RunOptions(show=False, approve=lambda call, run: True)))
        results = [result for one in run.rounds for result in one.results]
        assert len(results) == rounds and not any(result.is_error for result in results), run

    return work


def seconds(work: Callable[[], None], clock: Callable[[], float]) -> float:
    gc.collect()
    started = clock()
    work()
    return clock() - started


def ratio(one: Callable[[], None], other: Callable[[], None], turns: int, clock: Callable[[], float]) -> str:
    one(), other()
    pairs = []
    for turn in range(turns):
        if turn % 2:
            pairs.append((seconds(one, clock), seconds(other, clock)))
        else:
            pairs.append((seconds(other, clock), seconds(one, clock))[::-1])
    ratios = [a / b for a, b in pairs]
    quarters = statistics.quantiles(ratios, n=4)
    return f"{statistics.median(ratios):.2f} ({quarters[0]:.2f} to {quarters[2]:.2f})"


MIXED = ("allow", "ask", "deny")
ROWS: list[tuple[str, Case, Any, Any, str]] = [
    ("of a tool that declares nothing, 10 rules about others, over none", PLAIN, others(10), None, "<= 1.03"),
    ("the same over itself: the noise", PLAIN, None, None, ""),
    ("of a command that the last of 10 patterns allows, over one that is not judged", SHELL, commands(10), None, "<= 1.1"),
    ("the same, patterns that allow, ask and deny in turn", SHELL, commands(10, MIXED), None, "<= 1.1"),
    ("of an address that a pattern allows", FETCH, {"fetch(https://*.python.org/**)": "allow"}, None, "<= 1.1"),
    ("of a path that a pattern allows, its links followed", SAVE, {"save(data/*)": "allow"}, None, "<= 1.1"),
    ("of a command taken apart, whose tool starts a program", RUN, commands(10, MIXED), None, "<= 1.1"),
    ("of a path, whose tool writes the file", WRITE, {"save(data/*)": "allow"}, None, "<= 1.1"),
    ("of a command, 1,000 patterns that allow, over 10", SHELL, commands(1000), commands(10), "<= 2"),
    ("the same, patterns that allow, ask and deny in turn", SHELL, commands(1000, MIXED), commands(10, MIXED), "<= 2"),
]
"""A comparison: the calls, the permissions of both sides, and the goal."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    Path("data").mkdir()
    print("| a round with one call | ratio (quartiles) | goal |\n|---|---:|---|")
    for label, case, one, other, goal in ROWS:
        sides = run_of(case, given.rounds, one), run_of(case, given.rounds, other)
        clock = time.perf_counter if case in (RUN, WRITE) else time.process_time  # a tool that works waits for the system
        print(f"| {label} | {ratio(*sides, given.turns, clock)} | {goal} |", flush=True)


if __name__ == "__main__":
    main()
