"""The speed of agentnb, as ratios within one run: machines are shared, absolute times lie.

Usage: python benchmarks/run.py [--rounds 50,500,5000]
Each number is the median of several runs in one process; a bare loop over dicts is the floor of the same process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tqdm import tqdm

from agentnb import Agent, Matrix, Store, Todo, TodoBoard, ToolCall, replay, tool
from agentnb.core.log.events import Origin, TextDelta
from agentnb.core.messages import Message, Text
from agentnb.detect import Run, presets
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.models.model import Reply
from agentnb.policies import PolicyBundle, natural_stop

DONE = Reply(Message("assistant", (Text("done"),)))
NAP = 0.1
BESIDE = 16


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def add_sync(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(parallel_safe=True)
def nap(i: int) -> str:
    """Wait."""
    time.sleep(NAP)
    return "slept"


class Calls:
    """Asks for ``name`` in ``rounds`` rounds, ``beside`` calls at once, and then says done. Stateless."""

    name = "scripted:bench"

    def __init__(
        self, rounds: int, name: str, arguments: Callable[[int], dict[str, Any]], beside: int = 1, *, waits: bool = False
    ):
        self._rounds, self._tool, self._arguments, self._beside, self._waits = rounds, name, arguments, beside, waits

    async def stream(self, request: Any) -> Any:
        if self._waits:
            await asyncio.sleep(0)
        index = (len(request.messages) - 1) // 2
        if index >= self._rounds:
            yield DONE
            return
        calls = (ToolCall(self._tool, self._arguments(index), f"call_{index}_{i}") for i in range(self._beside))
        yield Reply(Message("assistant", tuple(calls)))


class Words:
    """Streams so many chunks."""

    name = "scripted:bench"

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    async def stream(self, request: Any) -> Any:
        for _ in range(self._chunks):
            yield TextDelta("tok ")
        yield DONE


async def floor(rounds: int) -> None:
    """Do the least possible work: call a model, run a tool, append to a list."""

    async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        index = (len(messages) - 1) // 2
        return {"call": {"a": index, "b": 1}} if index < rounds else {"text": "done"}

    messages: list[dict[str, Any]] = [{"role": "user"}]
    while "call" in (reply := await model(messages)):
        messages += [reply, {"result": await add(**reply["call"])}]


def median(run: Callable[[], Awaitable[Any]], times: int, of: Callable[[list[float]], float] = statistics.median) -> float:
    """Seconds of one run."""

    async def several() -> list[float]:
        taken = []
        await run()
        for _ in range(times):
            gc.collect()
            started = time.perf_counter()
            await run()
            taken.append(time.perf_counter() - started)
        return taken

    return of(asyncio.run(several()))


def agent_of(model: Any, *tools: Any) -> Agent:
    return Agent(model, tools=tools, max_rounds=1_000)


def without_limit(agent: Agent) -> Agent:
    """5,000 rounds are more than one may take."""
    object.__setattr__(agent, "bundle", agent.bundle._replace(policies=agent.bundle.policies[:-1]))
    return agent


def loop_of(rounds: int, store: Store | None = None, function: Any = add) -> Callable[[], Awaitable[Any]]:
    agent = without_limit(agent_of(Calls(rounds, function.__name__, lambda i: {"a": i, "b": 1}), function))
    return lambda: agent.run("go", store=store)


def bare_loop_of(rounds: int) -> Callable[[], Awaitable[Any]]:
    """The loop with nothing that guides, decides or guards but the natural stop."""
    agent = Agent(Calls(rounds, "add", lambda i: {"a": i, "b": 1}), tools=[add], todos=False)
    object.__setattr__(agent, "bundle", PolicyBundle((natural_stop,)))
    return lambda: agent.run("go")


def open_todos_of(rounds: int) -> Callable[[], Awaitable[Any]]:
    """A run with a todo in progress and nine to come, all the time."""
    todos = [Todo(1, "Add it all up", "in-progress"), *(Todo(number, f"Then step {number}") for number in range(2, 11))]
    model = Calls(rounds, "add", lambda i: {"a": i, "b": 1})
    agent = without_limit(Agent(model, tools=[add], todos=TodoBoard(todos), policy=Matrix(intervention_cap=1)))
    return lambda: agent.run("go")


def import_seconds(module: str) -> float:
    """Wall time of an import in a fresh interpreter, without the interpreter's own start."""
    code = f"import time, sys; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(7)
    )


def interrupt_seconds() -> float:
    """From SIGINT in the middle of a plain tool until the run is closed and the caller has control again."""
    interrupted = 0.0

    def sleep(i: int) -> str:
        def strike() -> None:
            nonlocal interrupted
            time.sleep(0.2)
            interrupted = time.perf_counter()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        threading.Thread(target=strike).start()
        time.sleep(20)
        return "never"

    agent = agent_of(Calls(1, "sleep", lambda i: {"i": i}), sleep)
    taken = []
    for _ in range(5):
        try:
            agent.run_sync("go")
        except KeyboardInterrupt:
            taken.append(time.perf_counter() - interrupted)
    return statistics.median(taken)


Rows = list[tuple[str, float]]


def of_the_loop(base: float, store: Store, rounds: list[int]) -> Rows:
    memory = median(loop_of(50), 30) / 50
    disk = median(loop_of(50, store), 30) / 50
    sync = median(loop_of(50, None, add_sync), 10) / 50
    return [
        ("a round in memory, over the floor", memory / base),
        ("a round with the log on disk, over one in memory", disk / memory),
        ("a round with a plain tool (a thread hop), over one in memory", sync / memory),
    ]


def of_growth(base: float, store: Store, rounds: list[int]) -> Rows:
    first = median(loop_of(rounds[0]), 30) / rounds[0]
    return [
        (
            f"a round of a run of {count:,}, over one of {rounds[0]}",
            median(loop_of(count), max(3, 2_000 // count)) / count / first,
        )
        for count in rounds[1:]
    ]


def of_discipline(base: float, store: Store, rounds: list[int]) -> Rows:
    bare, todos = median(bare_loop_of(200), 20) / 200, median(open_todos_of(200), 20) / 200
    return [
        ("all guides, policies and guards: a round with them, over the bare loop", median(loop_of(200), 20) / 200 / bare),
        ("the same with ten open todos", todos / bare),
        ("the same, a round of a run of 800, over one of 200", median(open_todos_of(800), 5) / 800 / todos),
    ]


def of_parallel_tools(base: float, store: Store, rounds: list[int]) -> Rows:
    agent = agent_of(Calls(1, "nap", lambda i: {"i": i}, BESIDE), nap)
    return [(f"{BESIDE} plain tools of {NAP} s beside each other, over {NAP} s", median(lambda: agent.run("go"), 3) / NAP)]


def of_streaming(base: float, store: Store, rounds: list[int]) -> Rows:
    agent = agent_of(Words(5_000))
    each = median(lambda: agent.run("go", watch=lambda item: None), 10) / 5_000
    return [("a streamed chunk, over a round of the floor", each / base)]


def of_many_at_once(base: float, store: Store, rounds: list[int]) -> Rows:
    agent = agent_of(Calls(3, "add", lambda i: {"a": i, "b": 1}, waits=True), add)
    one = median(lambda: agent.run("go"), 200)

    async def many(kept: Store | None) -> None:
        await asyncio.gather(*(agent.run("go", store=kept) for _ in range(1_000)))

    return [
        (f"1,000 runs at once{name}, over 1,000 times one run in memory", median(lambda kept=kept: many(kept), 3) / 1_000 / one)
        for name, kept in (("", None), (" with logs", store))
    ]


def of_replay(base: float, store: Store, rounds: list[int]) -> Rows:
    """Of each the fastest time, as of the detectors below."""
    memory = median(loop_of(500), 12, min) / 500
    run = asyncio.run(loop_of(500)())

    async def replayed(detect: str | None) -> None:
        replay(run, detect=detect)

    return [
        (
            f"replay of a round{name}, over a round in memory",
            median(lambda detect=detect: replayed(detect), 12, min) / 500 / memory,
        )
        for name, detect in (("", None), (" with the detectors `default`", "default"))
    ]


def of_imports(base: float, store: Store, rounds: list[int]) -> Rows:
    return [("import agentnb, over import json", import_seconds("agentnb") / import_seconds("json"))]


def of_interrupts(base: float, store: Store, rounds: list[int]) -> Rows:
    return [("an interrupt in a plain tool until control is back, over 0.3 s", interrupt_seconds() / 0.3)]


def of_detection(base: float, store: Store, rounds: list[int]) -> Rows:
    """The detectors alone: folding a run with them, less folding it without them; of each, the fastest time."""
    memory = median(loop_of(200), 40, min) / 200
    calls = [*asyncio.run(agent_of(Calls(200, "add", lambda i: {"a": i, "b": 1}), add).run("go")).events]
    words = ["".join(RANDOM.choices("abcdefghij", k=RANDOM.randint(2, 9))) for _ in range(400)]
    texts = [*told_run([" ".join(RANDOM.choices(words, k=90))[:500] for _ in range(200)]).events]
    return [
        ("the detectors of `default` in a round of a call, over a round in memory", detection_seconds(calls) / 200 / memory),
        ("the same in a round of a text of 500 characters", detection_seconds(texts) / 200 / memory),
    ]


def detection_seconds(events: list[Any], times: int = 60) -> float:
    def fold(makers: Any) -> float:
        started = time.perf_counter()
        Run.from_events(events, makers)
        return time.perf_counter() - started

    with_them, without = presets.preset("default"), ()
    pairs = [(fold(with_them), fold(without)) for _ in range(times)]  # in turns: whatever else runs here slows both
    return min(one for one, _ in pairs) - min(other for _, other in pairs)  # the difference of two times: noise only adds


def told_run(texts: list[str]) -> Run:
    """A run of several agents in which each round is one of these texts."""
    writer = RunWriter(Origin("bench"))
    writer.say("go")
    for text in texts:
        writer.reply(text, author="agent")
    return writer.finish("completed")


RANDOM = random.Random(1)
STEPS = (
    of_the_loop,
    of_growth,
    of_discipline,
    of_parallel_tools,
    of_streaming,
    of_many_at_once,
    of_replay,
    of_detection,
    of_imports,
    of_interrupts,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", default="50,500,5000", help="sizes of runs for the growth rows")
    rounds = [int(number) for number in parser.parse_args().rounds.split(",")]
    store = Store(tempfile.mkdtemp(prefix="agentnb-bench-"))
    base = median(lambda: floor(50), 50) / 50
    rows: Rows = []
    for step in tqdm(STEPS, desc="Measuring", unit="step"):
        rows += step(base, store, rounds)
    print("\n| what | ratio |\n|---|---:|")
    for what, ratio in rows:
        print(f"| {what} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
