"""The cost of calling a model over HTTP, as ratios within one run: agentnb beside the bare SDK in a loop as a person writes it.

Usage: python benchmarks/providers.py [--times 5]
Both talk to the same server (`wire_server.py`) in a process of its own, and take turns; each number is a median. Of the two
ratios, that of the time also counts the server and what is waited for; that of the CPU, of this process only, is the steadier.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
from run import Calls, add, floor
from tqdm import tqdm

from agentnb import Agent
from agentnb.acp.known_agents import KnownAgent, known_agents
from agentnb.core.log.events import TextDelta
from agentnb.models.options import Options
from agentnb.models.registry import REMOTE, make_model

ROUNDS, FEW, MANY = 50, 10, 150
CHUNKS = 5_000
AT_ONCE = 200
LATE = 500
NEAR = 5
"""Rounds on each side that count as one, for numbers of single rounds."""
TASK = "go"

Run = Callable[[], Awaitable[Any]]


class Cost(NamedTuple):
    """Seconds, or ratios of them."""

    time: float
    cpu: float | None = None

    def over(self, other: Cost) -> Cost:
        return Cost(self.time / other.time, self.cpu / other.cpu if self.cpu and other.cpu else None)

    def each(self, count: int) -> Cost:
        return self.over(Cost(count, count))


Rows = list[tuple[str, Cost]]


# The bare SDKs, in loops as a person writes them


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": SCHEMA}}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "add", "description": "Add.", "parameters": SCHEMA, "strict": False}]
MESSAGES_TOOLS: Any = [{"name": "add", "description": "Add.", "input_schema": SCHEMA}]


async def bare_chat(client: openai.AsyncOpenAI, model: str) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        text, calls = "", {}
        stream = await client.chat.completions.create(
            model=model, messages=messages, tools=CHAT_TOOLS, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in stream:
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta
            text += delta.content or ""
            for piece in delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.id or ""
                call["name"] += piece.function.name or ""
                call["arguments"] += piece.function.arguments or ""
        if not calls:
            return text
        await add_chat_round(messages, list(calls.values()))


async def bare_chat_whole(client: openai.AsyncOpenAI, model: str) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        whole = await client.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS)
        message = whole.choices[0].message
        if not message.tool_calls:
            return message.content
        calls = [(call.id, call.function) for call in message.tool_calls]
        made = [{"id": id_, "name": function.name, "arguments": function.arguments} for id_, function in calls]
        await add_chat_round(messages, made)


async def add_chat_round(messages: list[Any], calls: list[dict[str, str]]) -> None:
    asked = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls
    ]
    messages.append({"role": "assistant", "content": None, "tool_calls": asked})
    for call in calls:
        result = await add(**json.loads(call["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})


async def bare_responses(client: openai.AsyncOpenAI, model: str) -> str:
    items: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        text, calls = "", []
        stream = await client.responses.create(model=model, input=items, tools=RESPONSES_TOOLS, stream=True, store=False)
        async for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
            elif event.type == "response.output_item.done" and event.item.type == "function_call":
                calls.append(event.item)
        if not calls:
            return text
        for call in calls:
            asked = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
            items.append({"type": "function_call", **asked})
            result = await add(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": str(result)})


async def bare_messages(client: anthropic.AsyncAnthropic, model: str) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        blocks: list[Any] = []
        given: dict[int, str] = defaultdict(str)
        stream = await client.messages.create(
            model=model, max_tokens=1024, messages=messages, tools=MESSAGES_TOOLS, stream=True
        )
        async for event in stream:
            if event.type == "content_block_start":
                block = event.content_block
                named = {"id": block.id, "name": block.name} if block.type == "tool_use" else {"text": ""}
                blocks.append({"type": block.type, **named})
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                blocks[event.index]["text"] += event.delta.text
            elif event.type == "content_block_delta":
                given[event.index] += event.delta.partial_json
        for index, arguments in given.items():
            blocks[index]["input"] = json.loads(arguments)
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return blocks[0]["text"]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": str(await add(**call["input"]))} for call in calls
        ]
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


# Both on one server


@dataclass
class Wires:
    """The server, and the bare clients of it."""

    url: str
    times: int
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic

    def name(self, provider: str, script: str, *, streams: bool = True) -> str:
        """The name of the model that follows this script."""
        path = "" if provider == "anthropic" else "/v1"
        return f"{provider}:{script}?url={self.url}{path}{'' if streams else '&stream=no'}"

    def ours(self, provider: str, rounds: int, *, streams: bool = True) -> Run:
        """A run of agentnb, with everything that is on by default."""
        agent = Agent(self.name(provider, f"bench-{rounds}", streams=streams), tools=[add], max_rounds=1_000)
        return lambda: agent.run(TASK)

    def ours_heard(self, provider: str) -> Run:
        """Measure a reply of many words, each shown."""
        agent = Agent(self.name(provider, f"words-{CHUNKS}"))
        heard: list[str] = []
        return lambda: agent.run(TASK, watch=lambda item: heard.append(item.text) if type(item) is TextDelta else None)

    def bare(self, provider: str, script: str, *, streams: bool = True) -> Run:
        """The same with the SDK."""
        if provider == "anthropic":
            return lambda: bare_messages(self.anthropic, script)
        if provider == "openai-responses":
            return lambda: bare_responses(self.openai, script)
        chat = bare_chat if streams else bare_chat_whole
        return lambda: chat(self.openai, script)

    async def medians(self, *runs: Run, times: int | None = None) -> list[Cost]:
        """Seconds of each of these, which take turns."""
        taken: list[list[Cost]] = [[] for _ in runs]
        for run in runs:
            await run()
        for _ in range(times or self.times):
            for run, costs in zip(runs, taken, strict=True):
                gc.collect()
                started, cpu = time.perf_counter(), time.process_time()
                await run()
                costs.append(Cost(time.perf_counter() - started, time.process_time() - cpu))
        return [Cost(*map(statistics.median, zip(*costs, strict=True))) for costs in taken]


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("wire_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate()  # its input ends, and so does it


# What is measured

WAYS = (("openai", True), ("openai", False), ("openai-responses", True), ("anthropic", True), ("compatible", True))


async def of_rounds(wires: Wires) -> Rows:
    rows: Rows = []
    for provider, streams in WAYS:
        ours = wires.ours(provider, ROUNDS, streams=streams)
        bare = wires.bare(provider, f"bench-{ROUNDS}", streams=streams)
        assert (await ours()).text == await bare() == "done"
        mine, theirs = await wires.medians(ours, bare)
        how = "streamed" if streams else "whole"
        rows.append((f"{provider}: a round, {how}, over one of the bare SDK", mine.over(theirs)))
    return rows


async def of_growth(wires: Wires) -> Rows:
    """A run of so many rounds calls the model once more, to be told that it is done."""

    async def growth(make: Callable[[int], Run], times: int) -> Cost:
        few, count = make(FEW), MANY // FEW

        async def several() -> None:
            for _ in range(count):
                await few()

        longer, shorter = await wires.medians(make(MANY), several, times=times)
        return longer.each(MANY + 1).over(shorter.each((FEW + 1) * count))

    rows: Rows = []
    for provider in ("openai", "openai-responses", "anthropic", "compatible"):
        mine = await growth(partial(wires.ours, provider), wires.times)
        rows.append((f"{provider}: a round of a run of {MANY}, over one of {FEW}", mine))
        if provider != "compatible":  # the SDK is the same
            bare = await growth(lambda rounds, name=provider: wires.bare(name, f"bench-{rounds}"), 2)
            rows.append((f"{provider}: the same with the bare SDK", bare))
    return rows


async def of_chunks(wires: Wires) -> Rows:
    rows: Rows = []
    for provider in ("openai", "openai-responses", "anthropic"):
        ours, bare = wires.ours_heard(provider), wires.bare(provider, f"words-{CHUNKS}")
        assert (await ours()).text == await bare() == "tok " * CHUNKS
        mine, theirs = await wires.medians(ours, bare)
        rows.append((f"{provider}: a streamed chunk over HTTP, over one of the bare SDK", mine.over(theirs)))
    return rows


async def of_agents(wires: Wires) -> Rows:
    """Measure a stand-in for an external agent beside a model: both stream as many pieces."""
    command = (sys.executable, str(Path(__file__).parents[1] / "tests/acp/fake_agent.py"))
    known_agents()["bench"] = KnownAgent(command=command, asks_in="default")
    agent, heard = Agent(acp="bench"), list[str]()

    def theirs() -> Awaitable[Any]:
        return agent.run("words", watch=lambda item: heard.append(item.text) if type(item) is TextDelta else None)

    ours = wires.ours_heard("openai")
    assert (await theirs()).text == (await ours()).text == "tok " * CHUNKS
    said, streamed = await wires.medians(theirs, ours)
    return [("an external agent: a piece of its words, over a streamed chunk of openai", said.over(streamed))]


class Prepares:
    """Makes the bytes of each request, as for this provider, and answers from a script."""

    name = "scripted:bench"

    def __init__(self, provider: str) -> None:
        self._body, self._options = REMOTE[provider].body, Options()
        self._script = Calls(LATE + NEAR, "add", lambda i: {"a": i, "b": 1})
        self.seconds: dict[int, list[float]] = defaultdict(list)
        self.bodies: dict[int, bytes] = {}

    async def stream(self, request: Any) -> Any:
        index = (len(request.messages) - 1) // 2
        started = time.perf_counter()
        body = self._body("bench", request, self._options)
        self.seconds[index].append(time.perf_counter() - started)
        self.bodies[index] = body
        async for item in self._script.stream(request):
            yield item

    def median(self, rounds: int) -> float:
        """Seconds at about this round."""
        return statistics.median(
            taken for index in range(rounds - NEAR, rounds + NEAR + 1) for taken in self.seconds.get(index, ())
        )

    def join(self, rounds: int) -> float:
        """Seconds that joining takes, of as many pieces and bytes as there are at this round."""
        body, count = self.bodies[rounds], 2 * rounds
        step = len(body) // count
        pieces = [body[start : start + step] for start in range(0, len(body), step)]
        taken = []
        for _ in range(200):
            started = time.perf_counter()
            b",".join(pieces)
            taken.append(time.perf_counter() - started)
        return statistics.median(taken)


async def of_requests(wires: Wires) -> Rows:
    rows: Rows = []
    for provider in ("openai", "openai-responses", "anthropic"):
        model = Prepares(provider)
        agent = Agent(model, tools=[add], max_rounds=1_000)
        for _ in range(wires.times):
            gc.collect()
            await agent.run(TASK)
        late, early = model.median(LATE), model.median(ROUNDS)
        sizes = len(model.bodies[LATE]) / len(model.bodies[ROUNDS])
        joins = model.join(LATE) - model.join(ROUNDS)
        rows += [
            (f"{provider}: the bytes of a request made at round {LATE}, over round {ROUNDS}", Cost(late / early)),
            (f"{provider}: the same for each byte ({sizes:.1f} times as many)", Cost(late / early / sizes)),
            (f"{provider}: what it takes longer, over what a bare join does", Cost((late - early) / joins)),
        ]
    return rows


async def of_making(wires: Wires) -> Rows:
    """A run makes its model from the name, so this is a part of each."""
    name = wires.name("openai", "bench-1")

    async def make() -> None:
        for _ in range(100):
            make_model(name)

    models, base = await wires.medians(make, lambda: floor(100), times=50)
    return [("a model made from its name, over a round of the floor", models.over(base))]


async def of_many_at_once(wires: Wires) -> Rows:
    def at_once(run: Run) -> Run:
        return lambda: asyncio.gather(*(run() for _ in range(AT_ONCE)))

    rows: Rows = []
    for provider in ("openai", "anthropic"):
        ours, bare = wires.ours(provider, 3), wires.bare(provider, "bench-3")
        (one,) = await wires.medians(ours, times=50)
        mine, theirs = await wires.medians(at_once(ours), at_once(bare), times=3)
        rows += [
            (
                f"{provider}: {AT_ONCE} runs at once over one limiter, over {AT_ONCE} times one run",
                mine.each(AT_ONCE).over(one),
            ),
            (f"{provider}: the same, over the bare SDK's", mine.over(theirs)),
        ]
    return rows


STEPS = (of_rounds, of_growth, of_chunks, of_agents, of_requests, of_making, of_many_at_once)


async def measured(url: str, times: int) -> Rows:
    rows: Rows = []
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as chat,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as messages,
    ):
        wires = Wires(url, times, chat, messages)
        for step in tqdm(STEPS, desc="Measuring providers", unit="step"):
            rows += await step(wires)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of which each number is the median")
    times = parser.parse_args().times
    with server() as url:
        rows = asyncio.run(measured(url, times))
    print("\n| what | time | CPU |\n|---|---:|---:|")
    for what, ratio in rows:
        print(f"| {what} | {ratio.time:.2f} | {'' if ratio.cpu is None else f'{ratio.cpu:.2f}'} |")


if __name__ == "__main__":
    main()
