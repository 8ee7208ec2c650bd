"""Runs of scripted models: their replies and tools, agents with nothing else around them, and the loop alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from run_builder import Fact, opening, run_of

from agentnb.agent.agent import Agent
from agentnb.agent.loop import Loop
from agentnb.context.request_builder import RequestBuilder
from agentnb.core.inbox import Inbox
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.stores import Watcher
from agentnb.core.messages import AnyPart, Message, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError
from agentnb.guidance import GuidanceSet, Guide, built_in
from agentnb.models.model import Model, Reply
from agentnb.models.scripted import Line, ScriptedModel
from agentnb.policies import Policy, PolicyBundle
from agentnb.policies.gates import Gate
from agentnb.runtime.budget import Budget
from agentnb.runtime.calls.dispatch import Dispatch
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.calls.tool_calls import ToolCalls
from agentnb.runtime.clock import Clock
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.run_options import AgentRunKeywords, folder_of
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.function import FunctionTool
from agentnb.tools.toolbox import Toolbox

LONG_ANSWER = "The table has three columns and twelve rows, and none of its values is missing."


# Tools


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def look(n: int = 0) -> str:
    """Looks, and sees the same each time."""
    return "seen"


def work(n: int = 0) -> str:
    """Does the work of one item."""
    return f"made {n}"


def think(thought: str = "") -> str:
    """Thinks, and does nothing."""
    return "thought"


SPECS = Toolbox([work, think]).specs
RUN_OPTIONS = AgentRunKeywords.__annotations__.keys() - {"work_dir"}  # its agent has one too


class Counting:
    """Tools that count how often each was really run."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()

    def tool(self, name: str, **settings: Any) -> FunctionTool:
        """A tool that returns how often it was run."""

        async def count(x: int = 0) -> str:
            """Counts."""
            self.runs[name] += 1
            return f"{name} was run {self.runs[name]} times"

        return FunctionTool(count, name=name, **settings)

    def failing(self, name: str) -> FunctionTool:
        """A tool that is run and fails."""

        async def fail(x: int = 0) -> str:
            """Fails."""
            self.runs[name] += 1
            raise ValueError(f"{name} cannot")

        return FunctionTool(fail, name=name)


# Replies


def reply(*parts: AnyPart, stop_reason: str = "end_turn", **fields: Any) -> Reply:
    return Reply(Message("assistant", parts), stop_reason=stop_reason, **fields)


def do(n: int) -> ToolCall:
    """A call of `work`."""
    return ToolCall("work", {"n": n})


class FullDisk:
    """A store that has no room for the first event of a kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def open(self, run_id: str, *, nested: bool = False) -> FullDisk:
        return self

    def append(self, event: AnyEvent) -> None:
        if type(event).__name__ == self._kind:
            raise OSError(28, "No space left on device")

    def close(self) -> None:
        pass


# Runs


def tool_run(*facts: Fact, words: GuidanceSet | None = None, **fields: Any) -> Run:
    """The run of these facts, with the tools `work` and `think`, a limit of nine rounds and a guidance set."""
    used = (words or built_in("matrix")).as_texts
    settings = {"max_rounds": 9, "guidance": {"set": used.set, "version": used.version}}
    return run_of(*facts, **{"tools": SPECS, "settings": settings, "guidance": used.texts, **fields})


def bare(model: Model, tools: Sequence[Any] = (), **settings: Any) -> Agent:
    """An agent whose model is sent nothing but the conversation, and has no tools but these."""
    return Agent(model, tools=tools, **{"guidance": "off", "todos": False, **settings})


def agent_of(*replies: Line, tools: Sequence[Any] = (), **settings: Any) -> Agent:
    """An agent with this script."""
    return Agent(ScriptedModel(replies), tools, **settings)


def play(*replies: Line, prompt: str | Message = "go", **how: Any) -> Run:
    """The run of an agent with this script; ``how``: settings of the agent, and options of the run, each by its name."""
    options = {name: how.pop(name) for name in RUN_OPTIONS & how.keys()}
    return agent_of(*replies, **how).run_sync(prompt, **options)


def even_failed(run: Callable[[], Run]) -> Run:
    """Return the result, or the run of the raised error."""
    try:
        return run()
    except AgentnbError as error:
        assert isinstance(error.run, Run)
        return error.run


def scripted(*replies: Line, tools: Sequence[Any] = (work, think), **settings: Any) -> tuple[Run, ScriptedModel]:
    """The run of an agent with this script, which is used up, and its model."""
    model = ScriptedModel(replies)
    run = Agent(model, tools=tools, **settings).run_sync("Write three stories.")
    assert len(model.requests) == len(replies), f"{len(model.requests)} of {len(replies)} replies were asked for: {run}"
    return run, model


async def loop_alone(
    model: Model,
    *policies: Policy,
    guides: Sequence[Guide] = (),
    gates: Sequence[Gate] = (),
    tools: Sequence[Callable[..., Any]] = (),
    watch: Watcher | None = None,
    inbox: Inbox | None = None,
    with_tools: Callable[[RunTools], None] = lambda tools: None,
) -> Run:
    """A run of the loop with these rules and no agent around it. ``with_tools`` gets the source of its tools."""
    log = EventLog("r-1", watchers=(watch,) if watch else ())
    toolbox = Toolbox(tools)
    elicitation = Elicitation(log, can_ask=False)
    context = RunContext(
        log=log,
        inbox=inbox or Inbox(),
        clock=Clock(),
        budget=Budget(),
        elicitation=elicitation,
        call_sync=call_in_thread,
        work_dir=folder_of(None),
    )
    lifecycle = Lifecycle(context)
    run_tools = RunTools(log, toolbox)
    with_tools(run_tools)
    calls = ToolCalls(context, run_tools, gates)
    dispatch = Dispatch(log, calls, elicitation)
    bundle = PolicyBundle(policies, tuple(guides), tuple(gates))
    loop = Loop(model, lifecycle, RequestBuilder("", toolbox.specs, {}), dispatch, bundle)
    return await lifecycle.run(SimpleNamespace(orchestrator=lambda lifecycle, first: loop), opening())


def last_results(request: Request) -> list[ToolResult]:
    """The tool results at the end of a request."""
    return [part for part in request.messages[-1].parts if isinstance(part, ToolResult)]
