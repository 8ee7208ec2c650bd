"""The cost of built-in tools over equal tools of one's own, as ratios within one run.

Usage: python benchmarks/builtin_tools.py [--rounds 100] [--turns 15]
Each number is the median of several runs in one process, the two sides taking turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from permissions import Calls, ratio

from agentnb import Agent, RunOptions, Shell, tool
from agentnb.errors import SettingsError

RULES = {f"read_file(folder{number}/**)": "ask" for number in range(9)} | {"read_file(data/**)": "allow"}


@tool(name="read_file", effects=["read"])
def read_plainly(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


@tool(name="read_file", effects=["read"])
async def read_on_the_loop(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()  # noqa: ASYNC240  # as the tool that it is compared with


@tool(name="bash")
def start_bash(command: str) -> str:
    """Run a command."""
    return subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout


class Side(NamedTuple):
    """A side of a comparison: the tool, and the permissions for its calls."""

    tool: Any
    permissions: Any = None


class Case(NamedTuple):
    """Calls of a tool, and of another one that does the same."""

    label: str
    call: tuple[str, str, str]
    """The name of the tool, its argument, and the value; in brackets the number of the round."""
    one: Side
    other: Side
    goal: str = ""


READ, TRUE = ("read_file", "path", "data/{}.txt"), ("bash", "command", "true # {}")
MEGABYTE = ("bash", "command", "head -c 1000000 /dev/zero | tr '\\0' x # {}")
BASH = {"bash": "allow"}
CASES = [
    Case("`read_file` with 10 rules, over a plain function", READ, Side("read_file", RULES), Side(read_plainly), "<= 1.3"),
    Case("`read_file` with 10 rules, over an async function", READ, Side("read_file", RULES), Side(read_on_the_loop)),
    Case("`read_file` without rules, over an async function", READ, Side("read_file"), Side(read_on_the_loop)),
    Case("`bash true`, over a function that starts bash", TRUE, Side("bash", BASH), Side(start_bash, BASH), "<= 1.3"),
    Case("the same over itself: the noise", TRUE, Side("bash", BASH), Side("bash", BASH)),
    Case("a command that prints 1 MB", MEGABYTE, Side("bash", BASH), Side(start_bash, BASH)),
    Case("`bash true` in the sandbox", TRUE, Side(Shell(sandbox="bwrap")), Side(start_bash, BASH)),
]


def run_of(call: tuple[str, str, str], side: Side, rounds: int) -> Callable[[], None]:
    """Return a function that makes a run of these calls."""
    agent = Agent(Calls(rounds, *call), tools=[side.tool], max_rounds=rounds + 1, permissions=side.permissions)

    def work() -> None:
        run = asyncio.run(agent.run("go", RunOptions(show=False, approve=lambda call, run: True)))
        results = [result for one in run.rounds for result in one.results]
        assert len(results) == rounds and not any(result.is_error for result in results), run

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    Path("data").mkdir()
    for number in range(given.rounds):
        Path(f"data/{number}.txt").write_text("low water\n" * 200)
    print("| a round with one call | ratio (quartiles) | goal |\n|---|---:|---|")
    for case in CASES:
        try:
            sides = run_of(case.call, case.one, given.rounds), run_of(case.call, case.other, given.rounds)
            print(f"| {case.label} | {ratio(*sides, given.turns, time.perf_counter)} | {case.goal} |", flush=True)
        except SettingsError as error:
            print(f"| {case.label} | not here: {error.what} | {case.goal} |", flush=True)


if __name__ == "__main__":
    main()
