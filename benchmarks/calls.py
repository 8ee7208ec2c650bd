"""Counts of Python calls and allocated bytes, which hold on a busy machine.

Usage: python benchmarks/calls.py [--renew [--why TEXT]]
The cost of a round, a step or a drawing is the difference of two pieces of work that differ only in their number, each done
once before. `calls.toml` holds the counts, and the reason of each that grew.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from counting import Work, bytes_of, calls_of
from run import Calls, add

from agentnb import Agent, Run, Store, Workflow
from agentnb.display.card.live_card import LiveCard

COUNTS = Path(__file__).with_name("calls.toml")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Another version of Python makes other calls."""
LOADING = "%load_ext agentnb"
MOST = {
    "": ((1.02, 0), (1.02, 100)),
    LOADING: ((1.1, 0), (1.5, 0)),  # where modules are found, and tables of the process that double, differ from place to place
}
"""Tolerance of calls and bytes over the file: a factor, and an amount."""
MANY = 20
LOADED = """
import asyncio, counting, ipywidgets, os, pandas
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
async def load():
    shell.run_line_magic("load_ext", "agentnb")

for count in (counting.calls_of, counting.calls_of, counting.bytes_of):  # the first compiles it
    if not os.fork():
        print(asyncio.run(count(load)), flush=True)
        os._exit(0)
    os.wait()
"""


class Count(NamedTuple):
    """Cost of a piece of work."""

    calls: int
    bytes: int


async def counted(work: Work) -> Count:
    """Count what work takes when it was done before: the least of three, as a timer may be due in one of them."""
    gc.collect()
    await work()
    return Count(min([await calls_of(work) for _ in range(3)]), await bytes_of(work))


async def each(many: Work, few: Work) -> Count:
    """Return the cost of a part that one piece of work does `MANY` times more than another."""
    more, less = await counted(many), await counted(few)
    return Count(round((more.calls - less.calls) / MANY), round((more.bytes - less.bytes) / MANY))


def model(rounds: int) -> Calls:
    """Return a model that asks for a tool call in so many rounds."""
    return Calls(rounds, "add", lambda number: {"a": number, "b": 1})


async def made() -> Agent:
    """Make an agent with a tool."""
    return Agent(model(1), tools=[add])


def agent_run(rounds: int, store: Store | None = None, **settings: Any) -> Callable[[], Awaitable[Run]]:
    """Return a run of an agent with a tool that is called in each round but the last."""
    agent = Agent(model(rounds - 1), tools=[add], max_rounds=MANY + 2, **settings)
    return lambda: agent.run("Add", store=store, show=False)


def gated(rounds: int) -> Work:
    """Return a run whose calls a gate judges."""
    return agent_run(rounds, gates=[lambda call, run: None])


def stored(rounds: int) -> Work:
    """Return a run whose log is kept in a folder."""

    async def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await agent_run(rounds, Store(folder))()

    return work


def workflow_run(steps: int) -> Work:
    """Return a run of a workflow with steps that each call a tool."""
    text = "workflow:\n" + "".join(f"- {{type: tool, name: add, args: {{a: {number}, b: 1}}}}\n" for number in range(steps))
    workflow = Workflow.from_yaml(text, tools=[add])
    return lambda: workflow.run(show=False)


def drawing(run: Run, drawings: int) -> Work:
    """Return the drawings of a card: the first when all but the last events of a run are there, then one after each of them."""

    async def work() -> None:
        card = LiveCard()
        for event in run.events[: -MANY - 1]:
            card.take(event)
        card.frame()
        for event in run.events[-MANY - 1 :][: drawings - 1]:
            card.take(event)
            card.frame()

    return work


async def count_pieces() -> dict[str, Count]:
    """Return the counts of all pieces but loading."""
    run = await agent_run(MANY)()
    return {
        "an agent with a tool": await counted(made),
        "start and end of a run": await counted(agent_run(1)),
        "a round of a tool call": await each(agent_run(1 + MANY), agent_run(1)),
        "a round of a judged call": await each(gated(1 + MANY), gated(1)),
        "a round with its log": await each(stored(1 + MANY), stored(1)),
        "a step of a workflow": await each(workflow_run(1 + MANY), workflow_run(1)),
        "first drawing of a card": await counted(drawing(run, 1)),
        "next drawing of a card": await each(drawing(run, 1 + MANY), drawing(run, 1)),
    }


def count_loading() -> Count:
    """Count what loading the extension takes in forks of a process that has loaded its libraries."""
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, cwd=COUNTS.parent, capture_output=True, check=True, text=True)
    return Count(*map(int, done.stdout.split()[-2:]))


def count_all() -> dict[str, Count]:
    """Return the counts of all pieces."""
    return {LOADING: count_loading(), **asyncio.run(count_pieces())}


def grown(found: dict[str, Count], known: dict[str, Any]) -> list[str]:
    """Return a line for each count that is larger than the file says by more than may be."""
    return [
        f"{name}: {now:,} {unit}, {before:,} in {COUNTS.name}"
        for name, count in found.items()
        for unit, now, (most, rest) in zip(Count._fields, count, MOST.get(name, MOST[""]), strict=True)
        if now > (before := known.get(name, {}).get(unit, 0)) * most + rest
    ]


def main() -> None:
    """Print each count beside that of the file, or write the file; exit with 1 if one has grown without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", action="store_true", help="write the counts of now")
    parser.add_argument("--why", default="", help="the reason for those that have grown, without which they are not written")
    options = parser.parse_args()
    known = tomllib.loads(COUNTS.read_text())
    found = count_all()
    for name, count in found.items():
        print(f"{name}: {count.calls:,} calls, {count.bytes:,} bytes")
    more = grown(found, known)
    if options.renew and (options.why or not more):
        reasons = {name: options.why if any(line.startswith(f"{name}:") for line in more) else "" for name in found}
        COUNTS.write_text(written(found, {name: reasons[name] or known.get(name, {}).get("why", "") for name in found}))
    elif more:
        print("\nGrown by more than 2 %:", *more, "Make it less, or say why: --renew --why TEXT", sep="\n", file=sys.stderr)
        sys.exit(1)


def written(found: dict[str, Count], why: dict[str, str]) -> str:
    """Return the counts as TOML, each with the reason why it grew when it last did."""
    lines = [f"# python benchmarks/calls.py --renew\npython = {json.dumps(PYTHON)}\n"]
    for name, (calls, held) in found.items():
        lines.append(f"\n[{json.dumps(name)}]\ncalls = {calls}\nbytes = {held}\nwhy = {json.dumps(why[name])}\n")
    return "".join(lines)


if __name__ == "__main__":
    main()
