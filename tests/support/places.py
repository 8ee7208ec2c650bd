"""Places: where a run can be when it is ended from outside, each with the run that gets there and stays."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from counted_limiter import CountedLimiter, limited_by
from run_builder import called
from scripted_runs import bare, do, reply, work
from summarising import SUMMARY, Summarising
from waiting import PATIENCE, wait_until

from agentnb import Agent, ToolCall, Workflow, tool
from agentnb.context.history_settings import History
from agentnb.core.log import events as e
from agentnb.core.messages import Text
from agentnb.core.request import Request
from agentnb.models import RemoteModel, ScriptedModel, make_model
from agentnb.models.model import StreamItem
from agentnb.models.transport.retry import RetryPolicy
from agentnb.policies.gates import Ask
from agentnb.runtime.host.live_run import LiveRun
from agentnb.testing import LoopbackServer, Stall, Status
from agentnb.tools.tool import ToolContext

Way = Literal["stop", "interrupt", "cancel", "time", "suspend"]
MAX_SECONDS = 50.0
"""Time limit of the runs that are out of time; far below every wait of a place."""
SMALL = History(compact_above=6, keep_recent=2)


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
    went_on: list[str] = field(default_factory=list)
    """Tools that nothing has interrupted."""
    checks: list[Callable[[], None]] = field(default_factory=list)
    """What must hold outside of the run when it has ended."""
    is_there: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.is_there = self.reached.is_set

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Be at the place."""
        self.inside.append(name)
        try:
            self.reached.set()  # from here on an interrupt can come at any step
            yield
        finally:
            self.inside.remove(name)

    @property
    def requests(self) -> int:
        """Number of requests that its models got."""
        return sum(len(model.requests) for model in self.models)

    def several(self, count: int) -> None:
        """Be at the place when so many tools and models are at work."""
        self.is_there = lambda: len(self.inside) >= count

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


def nap(scene: Scene) -> None:
    """Wait, step by step: an interrupt a moment before a call that blocks does not end that call."""
    with scene.entered("plain"):
        for _ in range(int(200 * PATIENCE)):
            time.sleep(0.01)
    scene.went_on.append("plain")


def plain_tool(scene: Scene) -> Any:
    def hold() -> None:
        """Waits, step by step."""
        nap(scene)

    return hold


def careful_tool(scene: Scene, made_of_it: Exception | None = None) -> Any:
    def hold() -> str:
        """Makes something else of an interrupt."""
        with suppress(KeyboardInterrupt):
            nap(scene)
        if made_of_it is not None:
            raise made_of_it
        return "half of it"

    return hold


def blocked_tool(scene: Scene) -> Any:
    def hold() -> str:
        """Is in a call that nothing interrupts, and ignores what comes after it."""
        with scene.entered("blocked"), suppress(KeyboardInterrupt):
            scene.released.wait(PATIENCE)
        return "late"

    return hold


def yielding_tool(scene: Scene) -> Any:
    async def hold() -> str:
        """Ends as soon as it is cancelled, and says so."""
        with scene.entered("yielding"), suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "cut short"

    return hold


async def ignore_cancellation(scene: Scene) -> None:
    """Wait until the scene lets go, whatever comes."""
    with scene.entered("deaf"):
        while not scene.released.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


def deaf_tool(scene: Scene) -> Any:
    async def hold() -> str:
        """Ignores its cancellation."""
        await ignore_cancellation(scene)
        return "late"

    return hold


class Deaf:
    """Ignores its cancellation, and replies too late."""

    name = "scripted:deaf"

    def __init__(self, scene: Scene) -> None:
        self.requests: list[Request] = []
        self._scene = scene
        scene.models.append(self)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        self.requests.append(request)
        await ignore_cancellation(self._scene)
        yield reply(Text("Too late."))


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
    scene.is_there = lambda: limiter.calls > 0
    return remote(scene, Status(529), limiter)


def remote(scene: Scene, line: Any, limiter: CountedLimiter | None = None) -> Agent:
    """Its only request gets this line; if it is refused, it would be tried again after a long time."""
    places = limiter or CountedLimiter()
    scene.stack.enter_context(limited_by(lambda account: places))
    scene.checks.append(lambda: wait_until(lambda: places.calls == 0))
    server = scene.stack.enter_context(LoopbackServer([line]))
    model = make_model(server.model("openai"))
    assert isinstance(model, RemoteModel)
    model.retries = RetryPolicy(rate_limit_first=100 * MAX_SECONDS, trouble_first=100 * MAX_SECONDS)
    scene.models.append(server)
    return bare(model, [work], **scene.limits)


def silent(after: int) -> Callable[[Scene], Any]:
    """A server that sends so many characters, and then nothing."""

    def build(scene: Scene) -> Any:
        agent = remote(scene, Stall(100, after, "One two three four"))
        (server,) = scene.models
        if not after:
            scene.is_there = lambda: bool(server.requests)
        scene.checks.append(lambda: wait_until(lambda: server.requests[0].hung_up))
        return agent

    return build


def inner(scene: Scene, *tools: Any) -> Agent:
    return bare(scene.model([called("hold"), do(1)]), [*tools, work])


def nested(make: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
    """A tool that awaits a run with this tool."""

    def build(scene: Scene) -> Any:
        async def delegate() -> str:
            """Starts a run."""
            return (await inner(scene, make(scene)).run("inner")).text

        return scene.agent(delegate)

    return build


def waited_for(
    make: Callable[[Scene], Agent], *, levels: int = 1, in_thread: bool = False, swallows: bool = False
) -> Callable[[Scene], Any]:
    """A plain tool that waits for this run, or for one whose tool waits for it."""

    def build(scene: Scene) -> Any:
        def waits_for(level: int) -> Any:
            def delegate() -> str:
                """Starts a run, and waits for it."""
                agent = make(scene) if level == 1 else bare(scene.model([called("delegate")]), [waits_for(level - 1)])
                try:
                    text = agent.run_sync("inner").text
                except KeyboardInterrupt:
                    if swallows:
                        return "swallowed"
                    raise
                scene.went_on.append("delegate")
                return text

            return tool(parallel_safe=True)(delegate) if in_thread else delegate

        return scene.agent(waits_for(levels))

    return build


def endless(scene: Scene) -> Agent:
    return bare(Talking(scene))


def asking_tool() -> Any:
    async def hold(context: ToolContext) -> str:
        """Asks."""
        return str(await context.ask("Well?"))

    return hold


def plainly_asking_tool() -> Any:
    def hold(context: ToolContext) -> str:
        """Asks, and waits for the answer."""
        return str(context.ask_sync("Well?"))

    return hold


def calling(scene: Scene) -> Agent:
    async def calls(context: ToolContext) -> None:
        """Makes two calls."""
        await asyncio.gather(context.call("hold"), context.call("asks"))

    @tool(parallel_safe=True)
    async def asks(context: ToolContext) -> None:
        """Asks."""
        await context.ask("Sure?")

    return scene.agent(calls, async_tool(scene), asks)


def calling_plainly(scene: Scene) -> Agent:
    def calls(context: ToolContext) -> None:
        """Makes a call, and waits for its end."""
        context.call_sync("hold")
        scene.went_on.append("calls")

    return scene.agent(calls, async_tool(scene))


def paused(scene: Scene) -> Agent:
    def pause() -> None:
        """Pauses its own run."""
        wait_until(lambda: scene.lives)
        scene.lives[0].pause()

    return scene.agent(pause, calls=[called("pause")])


def two_agents(scene: Scene) -> Any:
    scene.several(2)
    agents = {name: inner(scene, async_tool(scene)) for name in ("a", "b")}
    text = "workflow: [{type: parallel, steps: [{type: agent, name: a}, {type: agent, name: b}]}]"
    return Workflow.from_yaml(limited(scene) + text, agents=agents).orchestration()


def limited(scene: Scene) -> str:
    """The limits of a workflow."""
    return f"limits: {{max_seconds: {MAX_SECONDS}}}\n" if scene.limits else ""


def in_steps(text: str) -> Callable[[Scene], Any]:
    return lambda scene: Workflow.from_yaml(limited(scene) + text, tools=[async_tool(scene), work]).orchestration()


# The table

UNAPPROVED: Mapping[Way, str] = {"suspend": "no approval is open, and only an approval can be put aside"}
HELD: Mapping[Way, str] = {"time": "it stands still while the person is waited for"}
UNTIMED: Mapping[Way, str] = {"time": "it begins when the log has"}
UNRUNG: Mapping[Way, str] = {"time": "it is noticed when the watcher has returned"}
UNAWAITED: Mapping[Way, str] = {"cancel": "plain tools of an awaited run have threads"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run is: ``build`` makes what runs there.

    ``on`` is the event or delta with which the run gets there, if no tool or model tells it; ``at_once``: the run is ended
    while its watcher gets that. ``codes`` are those of its results. ``idle`` are ways that change nothing there: the run goes
    on, and is stopped. ``never`` are ways that there are not. Both have their reasons.
    """

    build: Callable[[Scene], Any]
    on: Callable[[Any], bool] | None = None
    at_once: bool = False
    on_main_thread: bool = False
    codes: tuple[str | None, ...] = ("cancelled", "cancelled")
    idle: Mapping[Way, str] = field(default_factory=lambda: UNAPPROVED)
    never: Mapping[Way, str] = field(default_factory=dict)
    is_kept: bool = True
    is_over: bool = False
    inner: int = 0
    """Number of calls that its tool makes."""
    leaves: str = ""
    """The plain tool that still runs when the run has ended."""


def on_main_thread(build: Callable[[Scene], Any], **fields: Any) -> Place:
    return Place(build=build, on_main_thread=True, never=UNAWAITED, **fields)


def asked(build: Callable[[Scene], Any], **fields: Any) -> Place:
    return Place(build=build, on=_is(e.QuestionAsked), **{"idle": {**HELD, **UNAPPROVED}, **fields})


def at_event(kind: type[e.Event], build: Callable[[Scene], Any], **fields: Any) -> Place:
    return Place(build=build, on=_is(kind), at_once=True, **fields)


def _is(kind: type[Any], **fields: Any) -> Callable[[Any], bool]:
    return lambda item: isinstance(item, kind) and all(getattr(item, name) == value for name, value in fields.items())


BLOCK = "workflow: [{type: parallel, steps: [{id: a, type: tool, name: hold}, {id: b, type: tool, name: hold}]}]"
PLACES: dict[str, Place] = {
    # Before and between rounds
    "waits for its log": Place(
        build=lambda scene: bare(scene.model(), **scene.limits), codes=(), is_kept=False, idle={**UNTIMED, **UNAPPROVED}
    ),
    "before the first round": at_event(e.RunStarted, lambda scene: scene.agent(work), codes=(), idle={**UNTIMED, **UNAPPROVED}),
    "before a request": at_event(e.RoundStarted, lambda scene: scene.agent(work), codes=(), never=UNRUNG),
    "when the model has replied": at_event(
        e.ModelReplied, lambda scene: scene.agent(work, calls=["I act.", do(1), do(2)]), never=UNRUNG
    ),
    "between two rounds": at_event(
        e.RoundFinished, lambda scene: scene.agent(work, calls=[do(1)]), codes=(None,), never=UNRUNG
    ),
    "while paused": Place(build=paused, on=_is(e.CommandReceived, command="pause"), codes=(None,), idle={**HELD, **UNAPPROVED}),
    # In a model call
    "waits for a place at its provider": Place(build=waits_for_place, codes=()),
    "waits for the first word of a server": Place(build=silent(0), codes=()),
    "in the reply of a server": Place(build=silent(6), on=_is(e.TextDelta), codes=()),
    "waits to try again": Place(build=lambda scene: remote(scene, Status(529)), on=_is(e.RetryScheduled), codes=()),
    "in a streamed reply": Place(
        build=lambda scene: bare(Talking(scene, "Well, "), **scene.limits), on=_is(e.TextDelta), codes=()
    ),
    "in a model that ignores cancellation": Place(build=lambda scene: bare(Deaf(scene), **scene.limits), codes=()),
    "in a compaction": Place(
        build=lambda scene: bare(EndlessSummary(scene), [work], history=SMALL, **scene.limits), codes=(None,) * 3
    ),
    # In a tool
    "in an async tool": Place(build=lambda scene: scene.agent(async_tool(scene))),
    "in an async tool that returns when cancelled": Place(
        build=lambda scene: scene.agent(yielding_tool(scene)), codes=(None, "cancelled")
    ),
    "in two tools side by side": Place(
        build=lambda scene: scene.agent(
            tool(parallel_safe=True)(async_tool(scene)), calls=[called("hold"), called("hold"), do(1)]
        ),
        codes=("cancelled",) * 3,
    ),
    "in a tool that ignores cancellation": Place(build=lambda scene: scene.agent(deaf_tool(scene))),
    "in two tools that ignore cancellation": Place(
        build=lambda scene: scene.agent(
            tool(parallel_safe=True)(deaf_tool(scene)), calls=[called("hold"), called("hold"), do(1)]
        ),
        codes=("cancelled",) * 3,
    ),
    "in a plain tool on a thread": Place(build=lambda scene: scene.agent(tool(parallel_safe=True)(plain_tool(scene)))),
    "in a plain tool that cannot be interrupted": Place(
        build=lambda scene: scene.agent(tool(parallel_safe=True)(blocked_tool(scene))), leaves="hold"
    ),
    "in a plain tool on the main thread": on_main_thread(lambda scene: scene.agent(plain_tool(scene))),
    "in a plain tool that returns when interrupted": on_main_thread(lambda scene: scene.agent(careful_tool(scene))),
    "in a plain tool that raises when interrupted": on_main_thread(
        lambda scene: scene.agent(careful_tool(scene, ValueError("mine")))
    ),
    "in a call of a tool's": asked(calling, inner=2),
    "in a call of a plain tool's": Place(build=calling_plainly, inner=1),
    # In a nested run
    "in the tool of a nested run": Place(build=nested(async_tool)),
    "in a nested run's tool that ignores cancellation": Place(build=nested(deaf_tool)),
    "in a run that a plain tool waits for": on_main_thread(waited_for(lambda scene: inner(scene, plain_tool(scene)))),
    "in the model of a run that a plain tool waits for": on_main_thread(waited_for(endless)),
    "in a run whose interrupt a plain tool swallows": on_main_thread(
        waited_for(lambda scene: inner(scene, plain_tool(scene)), swallows=True)
    ),
    "in a run that a tool on a thread waits for": Place(build=waited_for(endless, in_thread=True)),
    "in a run below a run that a tool on a thread waits for": Place(build=waited_for(endless, levels=2, in_thread=True)),
    # While the person is asked
    "while a tool asks": asked(lambda scene: scene.agent(asking_tool())),
    "while a plain tool asks": asked(lambda scene: scene.agent(plainly_asking_tool()), on_main_thread=True, never=UNAWAITED),
    "while a tool on a thread asks": asked(lambda scene: scene.agent(tool(parallel_safe=True)(plainly_asking_tool()))),
    "while a gate asks": asked(lambda scene: scene.agent(work, gates=[lambda call, run: Ask("May it?")]), idle=HELD),
    "while a nested run asks": asked(nested(lambda scene: asking_tool())),
    "while a run that a tool on a thread waits for asks": asked(
        waited_for(lambda scene: inner(scene, asking_tool()), in_thread=True)
    ),
    # In steps
    "in the step of a workflow": Place(build=in_steps("workflow: [{type: tool, name: hold}]"), codes=()),
    "in a parallel block": Place(build=in_steps(BLOCK), codes=()),
    "in the nested runs of a parallel block": Place(build=two_agents, codes=()),
    # At the end
    "at the last event": at_event(
        e.RunFinished, lambda scene: bare(ScriptedModel(["Done."]), **scene.limits), codes=(), is_over=True
    ),
}
