"""Replies with one invalid value at each place: read, or refused with a message."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from property_settings import AT_NIGHT, size
from quick_models import FORMATS, NEVER, quick

from agentnb import Agent, Run
from agentnb.core.log.wire import encode
from agentnb.core.messages import Thinking, ToolCall
from agentnb.errors import ModelError, RunFailed
from agentnb.testing import LoopbackServer, Misbehaviour
from agentnb.testing.replies.lines import as_answer
from agentnb.testing.replies.reply_format import Asked, Delivery, Wire

LINE = [Thinking("Well"), "Text", ToolCall("add", {"a": "b"})]


def nested(depth: int) -> Any:
    made: Any = {}
    for _ in range(depth):
        made = {"a": made}
    return made


ODD = [("half a character", "x \ud83d"), ("nested", nested(600))]
"""By day the places alternate between these values."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the paths of all leaf values."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))
    else:
        yield path


def put(into: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = place = copy.deepcopy(into)
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


@dataclass(frozen=True)
class Odd(Misbehaviour):
    """A valid reply with this value at one of its places."""

    value: Any
    place: tuple[Any, ...]

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        answer = as_answer(LINE)
        if not asked.streams:
            body = put(wire.whole(answer, asked), self.place, self.value)
            return replace(wire.at_once({}), chunks=[json.dumps(body).encode()])
        at, path = self.place
        events = [one if isinstance(one.data, str) else (one.event, one.data) for one in wire.events(answer, asked)]
        chunks = []
        for index, event in enumerate(events):
            name, data = event if isinstance(event, tuple) else (None, event.data)
            data = put(data, path, self.value) if index == at else data
            chunks.append(f"event: {name}\ndata: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())
        return replace(wire.stream([]), chunks=chunks)


def spots(wire: str, stream: str) -> list[tuple[Any, ...]]:
    """Return the places of a reply, one of each kind."""
    seen: list[tuple[Any, Asked, Wire]] = []

    @dataclass(frozen=True)
    class Overheard(Misbehaviour):
        def deliver(self, of: Wire, asked: Asked) -> Delivery:
            seen.append((None, asked, of))
            return of.deliver(as_answer("Done."), asked)

    with LoopbackServer([Overheard()]) as server:
        run_of(server, wire, stream)
    _, asked, of = seen[0]
    if stream == "no":
        return list(places(of.whole(as_answer(LINE), asked)))
    found: dict[Any, tuple[Any, ...]] = {}
    for index, event in enumerate(of.events(as_answer(LINE), asked)):
        if isinstance(event.data, dict):
            for path in places(event.data):
                found.setdefault((event.event, path), (index, path))
    return list(found.values())


def add(a: str) -> str:
    """Adds."""
    return a


def run_of(server: LoopbackServer, wire: str, stream: str) -> Run:
    model = quick(server.model(wire, stream=stream, price="3/15"), NEVER)
    return Agent(model, tools=[add], guidance="off", todos=False, budget=1.0).run_sync("go")


@pytest.mark.slow("every seventh value of a reply of each wire is something else, at night each twice")
@pytest.mark.parametrize("wire", FORMATS)
def test_any_malformed_reply_is_read_or_refused_with_a_message(wire: str, subtests: pytest.Subtests) -> None:
    for stream in ("yes", "no"):
        every = size(7, nightly=1)  # by day the two forms alternate
        for index, place in [*enumerate(spots(wire, stream))][0 if stream == "yes" else every - 1 :: every]:
            for name, value in ODD if AT_NIGHT else [ODD[index % len(ODD)]]:
                with subtests.test(name, place=place, stream=stream), LoopbackServer([Odd(value, place), "Done."]) as server:
                    try:
                        run: Any = run_of(server, wire, stream)
                    except (ModelError, RunFailed) as error:
                        assert type(error) is not ModelError, error  # an exception without a class of ours
                        run = error.run
                    assert Run.from_events(run.events) == run and all(map(encode, run.events))
