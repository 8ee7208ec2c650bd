"""Damaged and hostile logs of agentnb for the fuzzer: each is read as a trace is, followed, and reopened to be resumed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import traces
from mutations import change_bytes

from agentnb import Store, load_trace
from agentnb.core.compaction_records import Compacted
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log.wire import encode
from agentnb.core.messages import Message, Text, ToolCall, ToolResult, user
from agentnb.core.questions import WaitingOnUser
from agentnb.core.todos import Todo
from agentnb.errors import AgentnbError

RUN_ID = "20260101-000000-0000000000"
Fact = tuple[type[e.Event], dict[str, Any]]


@cache
def samples() -> list[tuple[str, bytes]]:
    """Return the logs among the samples of traces."""
    return [(name, data) for name, data in traces.samples() if data.startswith(b'{"kind":"run_started"')]


def write(random: Random, folder: Path) -> Path:
    """Write a log that is damaged, cut off, or joined with another, or has a round of very many events of a kind."""
    if random.random() > 0.03:
        return traces.write_from(samples(), random, folder)
    path = folder / "made.jsonl"
    name = random.choice([*MANY])
    sizes = traces.SIZES if name in CALLS else (*traces.SIZES, 10_000)
    data = log_of(MANY[name](random.choice(sizes)))
    path.write_bytes(change_bytes(random, data) if random.random() < 0.2 else data)
    return path


# Rounds of very many events of a kind


def log_of(facts: list[Fact]) -> bytes:
    """Return the log of a run with one round of these events; its reply comes with the first of them that is about a call."""
    calls = [fields["call"] for kind, fields in facts if kind is e.ToolStarted and "parent_call" not in fields]
    place = next((place for place, (kind, _) in enumerate(facts) if kind in (e.ToolStarted, e.TodosChanged)), len(facts))
    replied = e.ModelReplied, {"message": Message("assistant", (Text("Here."), *calls))}
    whole: list[Fact] = [
        (e.RunStarted, {"schema": e.SCHEMA, "prompt": user("Go"), "model": "openai:m"}),
        (e.RoundStarted, {"index": 0, "reason": "prompt"}),
        *[*facts[:place], replied, *facts[place:]],
        (e.RoundFinished, {"index": 0, "status": "completed"}),
        (e.RunFinished, {"status": "completed", "stop_reason": "natural"}),
    ]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return b"".join(encode(kind(seq=seq, at=at, run_id=RUN_ID, **fields)) for seq, (kind, fields) in enumerate(whole))  # type: ignore[arg-type]


def _called(number: int, parent: str = "") -> list[Fact]:
    within = {"parent_call": parent} if parent else {}
    result = ToolResult(f"c{number}", "look", (Text("x"),))
    return [
        (e.ToolStarted, {"call": ToolCall("look", {}, f"c{number}"), **within}),
        (e.ToolFinished, {"result": result, **within}),
    ]


def _inner_calls(count: int) -> list[Fact]:
    started, finished = _called(0)
    return [started, *[fact for number in range(1, count) for fact in _called(number, "c0")], finished]


def _compactions(count: int) -> list[Fact]:
    compacted = {"why": "share", "compacted": Compacted(1, 1, 1, "x")}
    return [(e.CompactionStarted, {"why": "share", "messages": 1}), (e.ContextCompacted, compacted)] * count


def _questions(count: int) -> list[Fact]:
    asked = [WaitingOnUser("elicitation", "Why?", {}, f"q{number}") for number in range(count)]
    answered: list[Fact] = [(e.QuestionAnswered, {"question_id": one.id, "answer": "x"}) for one in asked]
    return [*[(e.QuestionAsked, {"question": one}) for one in asked], *answered]


def _todos(count: int) -> list[Fact]:
    lists = [(Todo(1, "One", status),) for status in ("blocked", "completed", "not-started")]
    return [(e.TodosChanged, {"todos": lists[number % 3], "by": "model", "call_id": "c"}) for number in range(count)]


MANY: dict[str, Callable[[int], list[Fact]]] = {
    "retries": lambda count: [(e.RetryScheduled, {"attempt": 1, "seconds": 1.0, "reason": "Busy", "heard": "x"})] * count,
    "parts of a reply": lambda count: [(e.ReplyStreamed, {"parts": (Text("x"),)})] * count,
    "guidance": lambda count: [(e.GuidanceGiven, {"guidance": Guidance("matrix", "text", "Go on.")})] * count,
    "warnings": lambda count: [(e.Warned, {"message": "x"})] * count,
    "messages": lambda count: [(e.CommandReceived, {"command": "say", "text": "x"})] * count,
    "loops": lambda count: [(e.LoopDetected, {"rule": "x", "first": 0, "last": 0, "sentence": "x"})] * count,
    "compactions": _compactions,
    "questions": _questions,
    "todos": _todos,
    "calls": lambda count: [fact for number in range(count) for fact in _called(number)],
    "inner calls": _inner_calls,
}
CALLS = frozenset({"calls", "inner calls"})
"""Kinds of which a round holds fewer: the time to take in each grows with their number (`agentnb.store.bounds`)."""


def check(path: Path) -> bool:
    """Read the log as a trace, follow it, and reopen it in a store as a run to be resumed."""
    is_read = traces.check(path)
    store = Store(path.parent / ".store")
    store.prepare()
    store.path(RUN_ID).write_bytes(path.read_bytes())
    for act in (lambda: load_trace(store.path(RUN_ID), follow=True).run.rounds, lambda: store.reopen(RUN_ID)[0].close()):
        try:
            act()
        except AgentnbError as error:
            traces.check_told(str(error))
    return is_read
