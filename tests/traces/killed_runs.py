"""A scripted run in processes of their own that die, or whose disk fills, at a chosen event.

The run has rounds, tools side by side and one after the other, todos, guidance, a question to the person, words of the person
in between, a call that is blocked, calls of the model that are made again, words that were said in passing, and a conversation
that is compacted, with a summary and without one. `happens` lets one process import everything once and fork one child
for each `Fault`, so that hundreds of them take seconds. What a child told its watchers comes through a pipe.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from agentnb import Agent, History, Run, Store, ToolCall, tool
from agentnb.core.events import AnyEvent, Event, QuestionAnswered, QuestionAsked
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.core.wire import encode
from agentnb.errors import SettingsError, StoreError
from agentnb.guidance.prompts import prompt as prompt_named
from agentnb.models import Reply, TextDelta
from agentnb.models.model import Retry, StreamItem
from agentnb.runtime.live import LiveRun
from agentnb.tools.tool import ToolContext
from agentnb.traces.run_file import RunFile

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


def faults_at(events: Sequence[AnyEvent], first: int = 0) -> list[Fault]:
    """Deaths from the event of this number on: right after every event, and at one more moment of each.

    These take turns within each kind of event. Of a kind that is there less often than that, each event is met at all of them.
    """
    here = list(enumerate(events))[first:]
    others = [moment for moment in MOMENTS if moment != "after"]
    often, seen = Counter(type(event) for _, event in here), Counter[type[AnyEvent]]()
    faults = []
    for seq, event in here:
        kind = type(event)
        turn = seen[kind] % len(others)
        moments = others if often[kind] < len(others) else others[turn : turn + 1]
        faults += [Fault(moment, seq, random.Random(seq).random()) for moment in ("after", *moments)]
        seen[kind] += 1
    return faults


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


def happens(faults: Sequence[Fault], folder: Path) -> list[Outcome]:
    """Each of them in a process of its own, with a folder of its own below this one."""
    asked = json.dumps([asdict(fault) for fault in faults])
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=10 * PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(faults), done.stderr
    told = zip(faults, lines, strict=True)
    return [_outcome(fault, folder / f"{number:04}", json.loads(line)) for number, (fault, line) in enumerate(told)]


def _outcome(fault: Fault, folder: Path, told: dict[str, Any]) -> Outcome:
    heard = [json.loads(line) for line in told["heard"].splitlines()]
    last = next((one for one in heard if isinstance(one, dict)), {"memory": []})
    memory = [line.encode() for line in last.pop("memory")]
    return Outcome(fault, folder, [one for one in heard if isinstance(one, int)], told["signal"], memory, **last)


def _serve(folder: Path, faults: list[Fault]) -> None:
    """In the process that forks: one child after the other. It has no threads, and has loaded what a run loads."""
    loaded, _ = _in_a_child(lambda pipe: _tell_what_is_loaded(folder / "loads", pipe))
    for name in loaded.split():
        with suppress(ImportError):
            import_module(name)
    for number, fault in enumerate(faults):
        here = folder / f"{number:04}"
        heard, status = _in_a_child(lambda pipe, fault=fault, here=here: _live(fault, here, pipe))
        print(json.dumps({"heard": heard, "signal": status}), flush=True)


def _in_a_child(work: Callable[[int], None]) -> tuple[str, int]:
    """What it writes to the pipe that it is given, and the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(writing)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        heard = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("A child ended otherwise than it was to")
    return heard, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _tell_what_is_loaded(folder: Path, pipe: int) -> None:
    run_in(folder)
    os.write(pipe, " ".join(name for name in sys.modules if name != "__main__").encode())


def _live(fault: Fault, folder: Path, pipe: int) -> None:
    _arm(fault)
    try:
        run_in(folder, lambda item: _tell(item, fault, pipe))
    except StoreError as error:
        _tell_of_failure(error, folder, pipe)


def _tell(item: Any, fault: Fault, pipe: int) -> None:
    if isinstance(item, Event):
        os.write(pipe, b"%d\n" % item.seq)
        if fault.moment == "told" and item.seq == fault.seq:
            _die()


def _tell_of_failure(error: StoreError, folder: Path, pipe: int) -> None:
    _make_room()
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


def _arm(fault: Fault) -> None:
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


def _make_room() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), [Fault(**one) for one in json.load(sys.stdin)])
