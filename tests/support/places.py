"""Places: where a run can be when it is ended from outside, each with the run that gets there and stays."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from counted_limiter import CountedLimiter, limited_by
from run_builder import called
from scripted_runs import bare, do, work
from summarising import SUMMARY, Summarising
from waiting import PATIENCE, wait_until

from agentnb import Agent, ToolCall, Workflow, tool
from agentnb.context.history import History
from agentnb.core.log import events as e
from agentnb.core.request import Request
from agentnb.models import RemoteModel, ScriptedModel, make_model
from agentnb.models.model import StreamItem
from agentnb.models.transport.retry import RetryPolicy
from agentnb.policies.gates import Ask
from agentnb.runtime.host.live import LiveRun
from agentnb.testing import LoopbackServer, Status
from agentnb.tools.tool import ToolContext

Way = Literal["stop", "interrupt", "cancel", "time", "suspend"]
MAX_SECONDS = 50.0
"""Time limit of the runs that are out of time; far below every wait of a place."""
SMALL = History(compact_above=6, keep_recent=2)
UNAPPROVED = "suspend: only an approval can be put aside"
HELD = "time: it stands still while the person is waited for"
"""Ways that change nothing at a place, by their reason."""


@dataclass
class Scene:
    """One run, its tools and models, and whether it is at its place."""

    limits: Mapping[str, Any]
    way: Way
    stack: ExitStack
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    """Lets tools end that ignore their cancellation."""
    lives: list[LiveRun] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    """Tools and models that are at work."""
    is_there: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.is_there = self.reached.is_set

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Be at the place."""
        self.inside.append(name)
        self.reached.set()
        try:
            yield
        finally:
            self.inside.remove(name)

    @property
    def requests(self) -> int:
        """Number of requests that its models got."""
        return sum(len(model.requests) for model in self.models)

    def model(self, *replies: Any) -> ScriptedModel:
        self.models.append(ScriptedModel([*replies, "never"]))
        return self.models[-1]  # type: ignore[no-any-return]

    def agent(self, *tools: Any, calls: list[ToolCall] | None = None, **settings: Any) -> Agent:
        """Calls its first tool and then `work`, in one reply."""
        name = getattr(tools[0], "__name__", "") or tools[0].spec.name
        tools = tuple(dict.fromkeys([*tools, work]))
        return bare(self.model(calls or [called(name), do(2)]), tools, **self.limits, **settings)


# Tools and models that stay where they are


def async_tool(scene: Scene) -> Any:
    async def hold() -> None:
        """Waits."""
        with scene.entered("async"):
            await asyncio.Event().wait()

    return hold


def plain_tool(scene: Scene) -> Any:
    def hold() -> None:
        """Waits, step by step."""
        with scene.entered("plain"):
            for _ in range(int(100 * PATIENCE)):
                time.sleep(0.01)  # an interrupt a moment before a call that blocks does not end that call

    return hold


def deaf_tool(scene: Scene) -> Any:
    async def hold() -> str:
        """Ignores its cancellation."""
        with scene.entered("deaf"):
            while not scene.released.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
        return "late"

    return hold


class Talking:
    """Says these words and then waits for ever."""

    name = "scripted:talking"

    def __init__(self, scene: Scene, *words: str) -> None:
        self.requests: list[Request] = []
        self._scene, self._words = scene, words
        scene.models.append(self)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        self.requests.append(request)
        for word in self._words:
            yield e.TextDelta(word)
        with self._scene.entered("model"):
            await asyncio.Event().wait()


class EndlessSummary(Summarising):
    """Its summary never comes to an end."""

    def __init__(self, scene: Scene) -> None:
        super().__init__([do(1), do(2), do(3), "never"])
        self._scene = scene
        scene.models.append(self)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        if request.system == SUMMARY:
            with self._scene.entered("summary"):
                await asyncio.Event().wait()
        async for item in super().stream(request):
            yield item


class BusyStore:
    """Other runs hold its log for ever."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def open(self, run_id: str, *, nested: bool = False) -> Any:
        with self._scene.entered("store"):
            await asyncio.Event().wait()


# Runs


def waits_for_place(scene: Scene) -> Any:
    limiter = CountedLimiter(0)
    scene.stack.enter_context(limited_by(lambda account: limiter))
    scene.is_there = lambda: limiter.calls > 0
    return remote(scene)


def remote(scene: Scene) -> Agent:
    """Its only request would be refused, and tried again after a long time."""
    server = scene.stack.enter_context(LoopbackServer([Status(529)]))
    model = make_model(server.model("openai"))
    assert isinstance(model, RemoteModel)
    model.retries = RetryPolicy(rate_limit_first=100 * MAX_SECONDS, trouble_first=100 * MAX_SECONDS)
    scene.models.append(server)
    return bare(model, [work], **scene.limits)


def nested(scene: Scene) -> Agent:
    async def delegate() -> str:
        """Starts a run."""
        return (await bare(scene.model([called("hold"), do(1)]), [async_tool(scene), work]).run("inner")).text

    return scene.agent(delegate)


def asks(scene: Scene) -> Agent:
    async def ask(context: ToolContext) -> str:
        """Asks."""
        return str(await context.ask("Well?"))

    return scene.agent(ask)


def paused(scene: Scene) -> Agent:
    def pause() -> None:
        """Pauses its own run."""
        wait_until(lambda: scene.lives)
        scene.lives[0].pause()

    return scene.agent(pause, calls=[called("pause")])


def in_steps(text: str) -> Callable[[Scene], Any]:
    def build(scene: Scene) -> Any:
        limits = f"limits: {{max_seconds: {MAX_SECONDS}}}\n" if scene.limits else ""
        return Workflow.from_yaml(limits + text, tools=[async_tool(scene), work]).orchestration()

    return build


# The table


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run is: ``build`` makes what runs there.

    ``on`` is the event with which the run gets there, if no tool or model tells it; ``at_once``: the run is ended while its
    watcher gets that event. ``codes`` are those of its results. ``idle`` are ways that change nothing, ``never`` ways that
    cannot be tried, each with its reason.
    """

    build: Callable[[Scene], Any]
    on: Callable[[Any], bool] | None = None
    at_once: bool = False
    on_main_thread: bool = False
    codes: tuple[str | None, ...] = ("cancelled", "cancelled")
    text: str = ""
    idle: Mapping[Way, str] = field(default_factory=lambda: {"suspend": UNAPPROVED})
    never: Mapping[Way, str] = field(default_factory=dict)
    is_kept: bool = True
    is_over: bool = False


def _is(kind: type[e.Event], **fields: Any) -> Callable[[Any], bool]:
    return lambda item: isinstance(item, kind) and all(getattr(item, name) == value for name, value in fields.items())


AT_ONCE: Mapping[Way, str] = {
    "interrupt": "interrupt: its signal may come after the first request",
    "cancel": "cancel: it takes effect at the next await",
    "suspend": "suspend: no call can wait for an approval yet",
}
OVER: Mapping[Way, str] = {"suspend": "suspend: the run has ended"}
UNTIMED: Mapping[Way, str] = {"time": "time: it begins with the log"}
ASKED: Mapping[Way, str] = {"time": HELD, "suspend": UNAPPROVED}
BLOCK = "workflow: [{type: parallel, steps: [{id: a, type: tool, name: hold}, {id: b, type: tool, name: hold}]}]"
PLACES: dict[str, Place] = {
    "waits for its log": Place(build=lambda scene: bare(scene.model()), codes=(), is_kept=False, never=UNTIMED),
    "before the first round": Place(
        build=lambda scene: scene.agent(work), on=_is(e.RunStarted), at_once=True, codes=(), never={**UNTIMED, **AT_ONCE}
    ),
    "waits for a place at its provider": Place(build=waits_for_place, codes=()),
    "waits for the first word": Place(build=lambda scene: bare(Talking(scene), **scene.limits), codes=()),
    "in a streamed reply": Place(build=lambda scene: bare(Talking(scene, "Well, "), **scene.limits), codes=(), text="Well, "),
    "waits to try again": Place(build=remote, on=_is(e.RetryScheduled), codes=()),
    "in a compaction": Place(
        build=lambda scene: bare(EndlessSummary(scene), [work], history=SMALL, **scene.limits), codes=(None,) * 3
    ),
    "in an async tool": Place(build=lambda scene: scene.agent(async_tool(scene))),
    "in two tools side by side": Place(
        build=lambda scene: scene.agent(
            tool(parallel_safe=True)(async_tool(scene)), calls=[called("hold"), called("hold"), do(1)]
        ),
        codes=("cancelled",) * 3,
    ),
    "in a plain tool on a thread": Place(build=lambda scene: scene.agent(tool(parallel_safe=True)(plain_tool(scene)))),
    "in a plain tool on the main thread": Place(
        build=lambda scene: scene.agent(plain_tool(scene)),
        on_main_thread=True,
        never={"cancel": "cancel: plain tools of an awaited run have threads"},
    ),
    "in a tool that ignores cancellation": Place(
        build=lambda scene: scene.agent(deaf_tool(scene)), never={"cancel": "cancel: an awaited run waits for this tool"}
    ),
    "in the tool of a nested run": Place(build=nested),
    "while a tool asks": Place(build=asks, on=_is(e.QuestionAsked), idle=ASKED),
    "while a gate asks": Place(
        build=lambda scene: scene.agent(work, gates=[lambda call, run: Ask("May it?")]),
        on=_is(e.QuestionAsked),
        idle={"time": HELD},
    ),
    "while paused": Place(
        build=paused,
        on=_is(e.CommandReceived, command="pause"),
        codes=(None,),
        idle=ASKED,
        never={"cancel": "cancel: an awaited run has no handle to pause it"},
    ),
    "in the step of a workflow": Place(build=in_steps("workflow: [{type: tool, name: hold}]"), codes=()),
    "in a parallel block": Place(build=in_steps(BLOCK), codes=()),
    "at the last event": Place(
        build=lambda scene: bare(ScriptedModel(["Done."]), **scene.limits),
        on=_is(e.RunFinished),
        at_once=True,
        codes=(),
        text="Done.",
        never=OVER,
        is_over=True,
    ),
}
