"""A scripted run in processes of their own that die, or whose disk fills, at a chosen event.

The run has rounds, tools side by side and one after the other, todos, guidance, a question to the person, words of the person
in between, a call that is blocked, calls of the model that are made again, words that were said in passing, and a conversation
that is compacted, with a summary and without one. `happens` has a `ForkServer` make a process for each `Fault`; what that
told its watchers comes through a pipe.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import random
import signal
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from fork_server import ForkServer

from agentnb import Agent, History, Run, Store, ToolCall, tool
from agentnb.core.log.events import AnyEvent, Event, QuestionAnswered, QuestionAsked
from agentnb.core.log.wire import encode
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import SettingsError, StoreError
from agentnb.guidance.prompts import prompt as prompt_named
from agentnb.models import Reply, TextDelta
from agentnb.models.model import Retry, StreamItem
from agentnb.runtime.host.live_run import LiveRun
from agentnb.store.run_file import RunFile
from agentnb.tools.tool import ToolContext

Moment = Literal["never", "before", "in", "after", "told", "full"]
MOMENTS: tuple[Moment, ...] = ("before", "in", "after", "told")
"""When the process dies: before an event is written, with part of it written, when it is written, when it has been told."""
EFFECTS = "effects.txt"
"""The file in a run's folder that has a line for each call of a tool that has done its work."""
PROMPT = "Look at three places, and decide."
HISTORY = History(compact_above=7, keep_recent=3)
"""Of the run: it is compacted more than once."""
SUMMARY = "It has gone well so far."
PATIENCE = 60


@dataclass(frozen=True)
class Fault:
    """What happens at the event of this number: the process dies, or (``full``) the disk has room for ``part`` of it, 0 to 1,
    and for nothing more."""

    moment: Moment
    seq: int = 0
    part: float = 0.5


def faults_at(events: Sequence[AnyEvent], first: int = 0, *, every: bool) -> list[Fault]:
    """Deaths from the event of this number on: at each moment of each kind of event, spread over the events of that kind.

    With ``every``: right after every event, and at one more moment of each.
    """
    of_kind: dict[type[AnyEvent], list[int]] = {}
    for seq, event in list(enumerate(events))[first:]:
        of_kind.setdefault(type(event), []).append(seq)
    wanted = {
        (seqs[number * len(seqs) // len(MOMENTS)], moment) for seqs in of_kind.values() for number, moment in enumerate(MOMENTS)
    }
    if every:
        others = [moment for moment in MOMENTS if moment != "after"]
        for seqs in of_kind.values():
            wanted |= {(seq, moment) for n, seq in enumerate(seqs) for moment in ("after", others[n % len(others)])}
    return [Fault(moment, seq, random.Random(seq).random()) for seq, moment in sorted(wanted)]


@dataclass(frozen=True)
class Outcome:
    """What became of a process: what it told, and, if it lived, what it had in memory."""

    fault: Fault
    folder: Path
    told: list[int]
    """Numbers of the events, in the order they were told."""
    signal: int
    """That ended it, or 0."""
    memory: list[bytes] = field(default_factory=list)
    """The events of the run in memory, as lines of a log, when it could not be written."""
    again: str = ""
    """What the same agent answered when the disk had room again."""
    said: str = ""
    """The error."""

    @property
    def path(self) -> Path:
        """Of the log; the first, if there are two."""
        return min(self.folder.glob("*.jsonl"))

    @property
    def effects(self) -> list[str]:
        """What tools have really done."""
        place = self.folder / EFFECTS
        return place.read_text(encoding="utf-8").splitlines() if place.exists() else []


# The run


def tools_in(folder: Path) -> list[Any]:
    """The tools of the run. Each notes in the folder what it has done, after it has waited for its turn."""

    def done(what: str) -> str:
        with (folder / EFFECTS).open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")
        return f"done: {what}"

    @tool(parallel_safe=True)
    async def look(place: str) -> str:
        """Looks at a place."""
        await asyncio.sleep(0)
        return done(f"look {place}")

    @tool
    def build(what: str) -> str:
        """Builds something."""
        return done(f"build {what}")

    @tool
    def fails(why: str) -> str:
        """Fails."""
        raise ValueError(why)

    @tool(blocking=True)
    async def decide(context: ToolContext) -> str:
        """Asks the person."""
        return done(f"decide {await context.ask('Go on?', {'enum': ['yes', 'no']}, 'approval')}")

    return [look, build, fails, decide]


def _listed(first: str, second: str) -> ToolCall:
    todos = [{"id": 1, "title": "Look", "status": first}, {"id": 2, "title": "Décide 👀", "status": second}]
    return ToolCall("todo_operations", {"operation": "write", "todoList": todos})


SCRIPT: tuple[tuple[str | ToolCall, ...], ...] = (
    ("I make a list.", _listed("in-progress", "not-started")),
    (
        "I look at three places — à la fois.",
        ToolCall("look", {"place": "here"}),
        ToolCall("build", {"what": "a bridge"}),
        ToolCall("look", {"place": "there"}),
        ToolCall("fails", {"why": "no such place"}),
        ToolCall("look", {"place": "nowhere 👀"}),
    ),
    (_listed("completed", "in-progress"),),
    ("I ask.", ToolCall("decide"), ToolCall("build", {"what": "a house"})),
    ("I try.", *(ToolCall("fails", {"why": "the same again"}) for _ in range(3))),
    ("Two are still open, I think.",),
    (_listed("completed", "completed"), ToolCall("gone")),
    ("All is done.",),
)
RETRIED = (1, 6)
"""The replies of which half a sentence comes first and breaks off."""


def _reached(messages: Sequence[Message]) -> int:
    """How many replies of the script were given, by the last that is there: of those before, some may be in a summary."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if last is None:
        return 0
    said = last.text, [(call.name, call.arguments) for call in last.calls]
    return 1 + [_said(parts) for parts in SCRIPT].index(said)


def _said(parts: Sequence[str | ToolCall]) -> tuple[str, list[tuple[str, Any]]]:
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts), [(part.name, part.arguments) for part in parts if isinstance(part, ToolCall)]


class Following:
    """Answers by the last reply that the conversation has, so that it knows where a run that goes on has got to.

    Whoever asks for a summary gets one; with ``sums_up_once``, there is none of what begins with a summary.
    """

    name = "scripted:following"

    def __init__(self, sums_up_once: bool = False) -> None:
        self._sums_up_once = sums_up_once

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        if request.system == prompt_named("compaction"):
            words = "" if self._sums_up_once and SUMMARY in request.messages[0].text else SUMMARY
            yield Reply(Message("assistant", (Text(words),)), Usage(50, 5, cost=0.001), "end_turn")
            return
        number = _reached(list(request.messages))
        parts = SCRIPT[min(number, len(SCRIPT) - 1)]
        if number in RETRIED:
            yield TextDelta("Half a wo")
            yield Retry(1, 0.0, "overloaded", 529)
        said = [Text(part) if isinstance(part, str) else part for part in parts]
        for one in said:
            if isinstance(one, Text):
                yield TextDelta(one.text)
        yield Reply(Message("assistant", tuple(said)), Usage(100 + number, 10, cost=0.001), "end_turn")


def agent_in(folder: Path, **settings: Any) -> Agent:
    """The agent whose tools note in this folder what they do."""
    return Agent(Following(sums_up_once=True), tools=tools_in(folder), **{"history": HISTORY, **settings})


def run_in(folder: Path, watch: Any = None, prompt: str = PROMPT, continue_from: Run | None = None) -> Run:
    """The whole run, its log in the folder; the person says yes, and a word more. Raises what the run raises."""
    folder.mkdir(parents=True, exist_ok=True)
    asked: queue.SimpleQueue[LiveRun | None] = queue.SimpleQueue()
    here: list[LiveRun] = []
    is_here = threading.Event()

    def watching(item: Any) -> None:
        if watch is not None:
            watch(item)
        if isinstance(item, QuestionAsked):
            asked.put(None)
        if isinstance(item, QuestionAnswered) and is_here.wait(PATIENCE):  # said here, it is heard at the same place each time
            with suppress(SettingsError):
                here[0].say("And mind the list.")

    live = agent_in(folder).start(prompt, store=Store(folder), watch=watching, continue_from=continue_from)
    here.append(live)
    is_here.set()
    live._future.add_done_callback(lambda _: asked.put(live))
    while asked.get(timeout=PATIENCE) is None:
        with suppress(SettingsError):  # the disk was full, and the run ended instead
            live.answer("yes")
    return live.result(PATIENCE)


# The faults

_ROOMS = ("agent", "context", "core", "policies", "runtime", "store", "tools")
LOADS = (
    "killed_runs",
    *(f"agentnb.{room}" for room in _ROOMS),
    "jsonschema_rs",
    "docstring_parser",
    "concurrent.futures.thread",
)
"""What a `ForkServer` should load for these runs: they load most of it when they first need it."""


def happens(server: ForkServer, faults: Sequence[Fault], folder: Path) -> list[Outcome]:
    """Each of them in a process of its own, with a folder of its own below this one."""
    folders = [folder / f"{number:04}" for number in range(len(faults))]
    told = server.each(_live, [(asdict(fault), str(here)) for fault, here in zip(faults, folders, strict=True)])
    return [_outcome(*one) for one in zip(faults, folders, told, strict=True)]


def _outcome(fault: Fault, folder: Path, told: tuple[str, int]) -> Outcome:
    heard = [json.loads(line) for line in told[0].splitlines()]
    last = next((one for one in heard if isinstance(one, dict)), {"memory": []})
    memory = [line.encode() for line in last.pop("memory")]
    return Outcome(fault, folder, [one for one in heard if isinstance(one, int)], told[1], memory, **last)


def _live(wanted: dict[str, Any], place: str, pipe: int) -> None:
    fault, folder = Fault(**wanted), Path(place)
    arm(fault)
    try:
        run_in(folder, lambda item: tell(item, fault, pipe))
    except StoreError as error:
        _tell_of_failure(error, folder, pipe)


def tell(item: Any, fault: Fault, pipe: int) -> None:
    if isinstance(item, Event):
        os.write(pipe, b"%d\n" % item.seq)
        if fault.moment == "told" and item.seq == fault.seq:
            _die()


def _tell_of_failure(error: StoreError, folder: Path, pipe: int) -> None:
    make_room()
    assert isinstance(error.run, Run)
    told = {
        "memory": [encode(event).decode() for event in error.run.events],
        "said": str(error),
        "again": run_in(folder, prompt="Once more.").text,
    }
    data = json.dumps(told).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(fault: Fault) -> None:
    """Let it happen when the event of this number is written. The code that writes is the real one."""
    append, happened = RunFile.append, False

    def fatal(self: RunFile, event: AnyEvent) -> None:
        nonlocal happened
        here = event.seq == fault.seq and not happened
        happened = happened or here
        size = len(encode(event))
        part = min(max(1, int(size * fault.part)), size - 1)
        if here and fault.moment == "before":
            _die()
        if here and fault.moment == "in":
            _write_only(part)
        if here and fault.moment == "full":
            _leave_room(os.fstat(self._descriptor).st_size + (part if fault.part else 0))
        append(self, event)
        if here and fault.moment == "after":
            _die()

    if fault.moment == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if fault.moment != "never":
        RunFile.append = fatal  # type: ignore[method-assign]


def _write_only(part: int) -> None:
    """The next write is cut, and the process dies in the middle of it."""
    write = os.write

    def cut(descriptor: int, data: Any) -> int:
        write(descriptor, bytes(data)[:part])
        _die()
        return part

    os.write = cut


def _leave_room(size: int) -> None:
    """No file may be longer from now on: what goes beyond is cut, and then refused."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def make_room() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
