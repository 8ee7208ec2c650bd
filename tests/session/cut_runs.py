"""Runs that are cut off after any of their events and gone on with: what was written is made into the log of a dead process.

Their tools may be repeated, so that a run that is gone on with does all that it would have done had nobody died; what differs
is only what says so. `facts` are an event without what differs by itself: its number, its time, how long it took.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from marked_logs import marked
from scripted_runs import even_failed
from totals_of_logs import check_totals

from agentnb import Agent, GuidanceSet, History, Matrix, Minimal, Run, Store, ToolCall, load_trace, recover, tool
from agentnb.core.log import events as e
from agentnb.core.log.wire import decode, encode
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.guidance.prompts import prompt
from agentnb.models import Reply, ScriptedModel, TextDelta
from agentnb.models.capabilities import Capabilities
from agentnb.models.model import StreamItem
from agentnb.runtime.host.live_run import LiveRun

PATIENCE = 60
SUMMARY = prompt("compaction")
"""The system prompt of whoever is asked for a summary."""


@tool(repeatable=True)
async def work(n: int = 0) -> str:
    """Does the work of one item."""
    return f"made {n}"


@tool(repeatable=True)
async def breaks(n: int = 0) -> str:
    """Fails."""
    raise ValueError(f"no {n}")


@tool
async def once(n: int = 0) -> str:
    """Is not to be repeated."""
    return f"made {n}"


TOOLS = [work, breaks, once]
SHAPE = {"type": "object", "required": ["n"]}


def do(n: int, name: str = "work") -> ToolCall:
    return ToolCall(name, {"n": n})


def listed(*statuses: str) -> ToolCall:
    todos = [{"id": number, "title": f"Part {number}", "status": status} for number, status in enumerate(statuses, 1)]
    return ToolCall("todo_operations", {"operation": "write", "todoList": todos})


def paid(*parts: Any, cost: float = 0.01, tokens: int = 100) -> Reply:
    """A reply that costs something."""
    message = Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))
    return Reply(message, Usage(tokens, 10, cost=cost), "tool_use" if message.calls else "end_turn")


class Broken(Exception):
    """Says that a stream breaks off in the middle."""


class Told:
    """Gives the replies of its script, and a summary to who asks for one. It knows no more than what is sent to it, and begins
    at the ``first`` reply: those before were another process's.
    """

    name = "scripted:told"

    def __init__(self, replies: Sequence[Any], first: int = 0, summary: str = "") -> None:
        self._replies = list(replies[first:])
        self._summary = summary
        self.requests: list[Request] = []

    def capabilities(self) -> Capabilities:
        return Capabilities(language_model=bool(self._summary), has_price=True)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        if self._summary and request.system == SUMMARY:
            yield Reply(Message("assistant", (Text(self._summary),)), Usage(50, 5, cost=0.001), "end_turn")
            return
        self.requests.append(request)
        line = self._replies.pop(0) if self._replies else "Nothing is left to say."
        if isinstance(line, Broken):
            yield TextDelta("Half an ans")
            raise ConnectionError("cut off")
        async for item in ScriptedModel([line]).stream(request):
            yield item


@dataclass(frozen=True)
class Scene:
    """A run that is to be cut off: what the model says, the settings of the agent, what the person does after which event."""

    name: str
    replies: Sequence[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)
    """What the person says when so many events are there."""
    summary: str = ""
    ends: tuple[str, str] = ("completed", "natural")


def agent_of_scene(scene: Scene, first: int = 0) -> Agent:
    return Agent(Told(scene.replies, first, scene.summary), tools=TOOLS, **scene.settings)


def play(scene: Scene, folder: Path) -> tuple[Run, list[Request]]:
    """The whole run of it, and what its model was sent."""
    due = dict(scene.said)
    agent = agent_of_scene(scene)
    assert isinstance(agent.model, Told)
    here: list[LiveRun] = []
    is_here = threading.Event()

    def watch(item: Any) -> None:
        if due and is_here.wait(PATIENCE) and isinstance(item, e.Event) and item.seq in due:
            here[0].say(due.pop(item.seq))

    here.append(agent.start("Go.", store=Store(folder), watch=watch))
    is_here.set()
    return even_failed(lambda: here[0].result(PATIENCE)), agent.model.requests


def until(run: Run, kind: type[e.Event], number: int = 0) -> list[e.AnyEvent]:
    """Its events, the last of them that of this kind and number."""
    places = [event.seq for event in run.events if isinstance(event, kind)]
    return list(run.events[: places[number] + 1])


def cut(events: Iterable[e.AnyEvent], folder: Path, torn: bytes = b"") -> Path:
    """The log of a process that died after these events, and in the middle of writing what is ``torn``."""
    events = list(events)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{events[0].run_id}.jsonl"
    path.write_bytes(marked(events) + torn)
    return path


def gone_on_with(scene: Scene, path: Path, **changed: Any) -> tuple[Run, list[Request]]:
    """The run when it was recovered, and what its model was sent since."""
    died = load_trace(path)
    agent = agent_of_scene(scene, sum(isinstance(event, e.ModelReplied) for event in died.events))
    assert isinstance(agent.model, Told)
    run = even_failed(lambda: asyncio.run(recover(path, agent=agent, **changed)))
    return run, agent.model.requests


# What is compared

BESIDE = ("seq", "at", "seconds")
AGAIN = (e.RunRecovered, e.CompactionStarted, e.RetryScheduled)
"""What a run that was gone on with has more of."""


def facts(event: e.AnyEvent) -> tuple[str, bytes]:
    """The event, but for what is another each time."""
    plain = {name: value for name, value in msgspec.to_builtins(decode(encode(event))).items() if name not in BESIDE}
    plain.pop("todos", None)  # their times; the list itself is compared as it is in the end
    plain.pop("totals", None)  # the size of the log, and how often it was resumed: see `check_totals`
    return type(event).__name__, msgspec.json.encode(plain, order="sorted")


def story(run: Run) -> list[tuple[str, bytes]]:
    """All that happened, without what says that a process died."""
    return [facts(event) for event in run.events if not isinstance(event, AGAIN)]


def goes_on_alike(scene: Scene, died: Sequence[e.AnyEvent]) -> bool:
    """Whether a run that was cut off after these events can do all that it would have done."""
    run = Run.from_events(died)
    current = run.open_round
    if sum(isinstance(event, e.CommandReceived) for event in died) < len(scene.said):
        return False  # who spoke to the one that died does not speak to this one
    if current is None:
        return run.last_round.stop_reason != "broken_off" if run.rounds else True
    begun = {event.call.id: event.call.name for event in died if isinstance(event, e.ToolStarted)}
    left = [record.call.id for record in current.records if record.result is None]
    changed = {event.call_id for event in died if isinstance(event, e.TodosChanged)}
    cut_off = [call_id for call_id in left if begun.get(call_id) == "once" or call_id in changed]
    return not cut_off and current.stop_reason != "broken_off"


def assert_whole(path: Path, run: Run, told: Sequence[e.AnyEvent]) -> None:
    """The log is one whole log, with all that was told, and nothing in it is there twice."""
    assert load_trace(path) == run == Run.from_events(run.events)
    assert path.read_bytes().startswith(marked(told))
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    assert {event.run_id for event in run.events} == {run.id}
    for kind, once in ONCE.items():
        found = Counter(once(event) for event in run.events if isinstance(event, kind))
        assert set(found.values()) <= {1}, (kind, found)
    assert all(len(one.results) == len(one.calls) for one in run.rounds) and run.open_round is None
    assert isinstance(run.events[-1], e.RunFinished)
    check_totals(path)


ONCE: dict[type[e.Event], Callable[[Any], Any]] = {
    e.RunStarted: lambda _: "",
    e.RoundStarted: lambda event: event.index,
    e.ToolStarted: lambda event: event.call.id,
    e.CallBlocked: lambda event: event.call.id,
    e.ToolFinished: lambda event: event.result.call_id,
    e.QuestionAsked: lambda event: event.question.id,
    e.QuestionAnswered: lambda event: event.question_id,
    e.RoundFinished: lambda event: event.index,
    e.LoopDetected: lambda event: (event.rule, event.last),
    e.LimitReached: lambda _: "",
    e.Warned: lambda event: event.message,
    e.ErrorRaised: lambda _: "",
    e.RunFinished: lambda _: "",
}
"""What there may be only one of, by what tells it from others of its kind."""

WORDS = "The same long answer, given word for word each time it is asked for."
LONG = [do(n) for n in range(7)]
OWN = GuidanceSet.from_markdown("own", "Do {{ next_todo }}, {{ ignored }} times.")
SCENES = (
    Scene("plain", [["I begin.", do(1), do(2)], do(3), "Done."]),
    Scene("failing tools", [[do(1, "breaks"), do(2)], do(1, "breaks"), do(2, "breaks"), "It cannot be."]),
    Scene("max_rounds", LONG, {"max_rounds": 4}, ends=("limited", "max_rounds")),
    Scene(
        "max_rounds, words",
        [*LONG[:3], "In short."],
        {"max_rounds": 3, "on_limit": "final_answer"},
        ends=("limited", "max_rounds"),
    ),
    Scene(
        "max_rounds, no words",
        [*LONG[:3], Broken()],
        {"max_rounds": 3, "on_limit": "final_answer"},
        ends=("limited", "max_rounds"),
    ),
    Scene("max_rounds, raised", LONG, {"max_rounds": 3, "on_limit": "raise"}, ends=("limited", "max_rounds")),
    Scene(
        "max_tool_calls",
        [[do(1), do(2)], [do(3), do(4)], "No more."],
        {"max_tool_calls": 3},
        ends=("limited", "max_tool_calls"),
    ),
    Scene(
        "max_tool_calls_per_turn",
        [[do(1), do(2)], do(3), do(4), [do(5), do(6), do(7)], "No more."],
        {"max_tool_calls_per_turn": 3},
        said={10: "Go on."},
        ends=("limited", "max_tool_calls_per_turn"),
    ),
    Scene(
        "max_rounds, calls instead of words",
        [*LONG[:3], ["I would like", do(7)]],
        {"max_rounds": 3, "on_limit": "final_answer"},
        ends=("limited", "max_rounds"),
    ),
    Scene("announced and not made", [do(1), Reply(Message("assistant", ()), Usage(), "tool_use")], ends=("failed", "error")),
    Scene(
        "out of tokens",
        [
            do(1),
            Reply(Message("assistant", (Text("And th"),)), Usage(), "max_tokens"),
            Reply(Message("assistant", (Text("en"),)), Usage(), "max_tokens"),
        ],
        ends=("failed", "reply_cut"),
    ),
    Scene("the model fails", [do(1), RuntimeError("no more")], ends=("failed", "error")),
    Scene("the model fails at once", [RuntimeError("no")], ends=("failed", "error")),
    Scene("broken off", [do(1), Broken()], ends=("failed", "error")),
    Scene("the same again", [do(1, "once")] * 7, {"policy": Matrix(blocked_rounds=2)}, ends=("stopped", "loop_detected")),
    Scene("budget", [paid(do(n)) for n in range(6)], {"budget": 0.025}, ends=("limited", "budget")),
    Scene("max_tokens", [paid(do(n)) for n in range(6)], {"max_tokens": 300}, ends=("limited", "max_tokens")),
    Scene(
        "todos passed over",
        [listed("in-progress", "not-started"), *[f"Well, {n}." for n in range(6)]],
        {"policy": Matrix(intervention_cap=3)},
        ends=("stopped", "todo_intervention_exhausted"),
    ),
    Scene(
        "todos done",
        [
            listed("in-progress", "not-started"),
            do(1),
            "Well.",
            listed("completed", "in-progress"),
            do(2),
            listed("completed", "completed"),
            "Done.",
        ],
    ),
    Scene("todos nudged", [listed("in-progress"), *["Well."] * 5], {"policy": Minimal()}, ends=("completed", "natural")),
    Scene("said again", [WORDS] * 5, {"policy": Matrix(workflow_mode=True)}, ends=("stopped", "loop_detected")),
    Scene("two empty answers", [do(1), "", ""], ends=("failed", "error")),
    Scene("own words", [listed("in-progress"), "Well.", "So.", listed("completed"), "Done."], {"guidance": OWN}),
    Scene(
        "compacted",
        [*[do(n) for n in range(9)], "Done."],
        {"history": History(compact_above=6, keep_recent=2)},
        summary="What was done.",
    ),
    Scene("compacted plainly", [*[do(n) for n in range(9)], "Done."], {"history": History(compact_above=6, keep_recent=2)}),
    Scene("truncated", [*[do(n) for n in range(9)], "Done."], {"history": History(max_messages=5)}),
    Scene(
        "failed rounds left out",
        [*[do(n, "breaks") for n in range(5)], do(1), "Done."],
        {"history": History(failed_rounds_above=2)},
    ),
    Scene("an answer sent back", [do(1), "Well.", do(2), '{"n": 1}'], {"output": SHAPE}),
    Scene("no answer of the shape", [do(1), *["Well."] * 3], {"output": SHAPE}, ends=("failed", "invalid_output")),
    Scene("spoken to", [do(1), do(2), "Done.", "Done, really."], said={4: "Mind the list.", 9: "And hurry."}),
    Scene(
        "words dropped",
        ["Well.", do(1), "So.", "[WORKFLOW_COMPLETE]"],
        {"policy": Matrix(workflow_mode=True, workflow_drops_text=True)},
        ends=("completed", "workflow_complete"),
    ),
)
