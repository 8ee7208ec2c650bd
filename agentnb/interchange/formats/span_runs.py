"""The runs in a trace of spans, whatever the convention for their attributes.

Each model call repeats the conversation so far, so only its new messages are added. A run is an agent's span with the model and
tool calls within it; an agent span within another agent span is a nested run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agentnb.detect.run import Run
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats.span_calls import AgentUse, Convention, Kind, ModelCall, SpanMessage, ToolUse
from agentnb.interchange.formats.span_conversation import SpanConversation
from agentnb.interchange.formats.span_records import Span, traces_of
from agentnb.interchange.trace_file import TraceFile

_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass
class _Agent:
    """The span of an agent (or a trace without agents), with its own model and tool calls."""

    span: Span | None
    models: list[ModelCall] = field(default_factory=list)
    uses: list[ToolUse] = field(default_factory=list)
    parent: str = ""
    """Id of the enclosing agent span."""


def read_runs(file: TraceFile, convention: Convention) -> Iterator[Run]:
    """Yield the runs of each trace in a file, outer runs first."""
    for spans, several in traces_of(file):
        with file.guard(f"trace {spans[0].trace_id}"):
            agents = _agents(spans, convention)
            shared = several or len(agents) > 1
            yield from with_nested_usage(_run(file, convention, spans[0].trace_id, agent, shared) for agent in agents)


# Spans by run


class _Tree:
    """The spans of a trace by id, with their kinds."""

    def __init__(self, spans: Iterable[Span], convention: Convention) -> None:
        self.spans = {span.span_id: span for span in spans}
        self.kinds = {span_id: convention.kind(span) for span_id, span in self.spans.items()}

    def above(self, span: Span) -> Iterator[Span]:
        """Yield the enclosing spans, starting with the innermost."""
        seen = {span.span_id}
        while span.parent_id and (parent := self.spans.get(span.parent_id)) is not None and parent.span_id not in seen:
            seen.add(parent.span_id)
            yield parent
            span = parent

    def around(self, span: Span, *kinds: Kind) -> str:
        """Return the id of the nearest enclosing span of one of these kinds; empty if there is none."""
        return next((outer.span_id for outer in self.above(span) if self.kinds[outer.span_id] in kinds), "")


def _agents(spans: list[Span], convention: Convention) -> list[_Agent]:
    """Return the active agents in a trace, each before the agents nested in it."""
    tree = _Tree(spans, convention)
    agents = {"": _Agent(None)}
    ordered = sorted(tree.spans.values(), key=lambda one: (one.start or 0, one.attributes.get("agentnb.seq") or 0))
    for span in ordered:
        if tree.kinds[span.span_id] == "agent":
            agents[span.span_id] = _Agent(span, parent=tree.around(span, "agent"))
    for span in ordered:
        kind = tree.kinds[span.span_id]
        enclosing = tree.around(span, "agent", "model", "tool")
        if kind == "model" and (
            not enclosing or tree.kinds[enclosing] != "model"
        ):  # otherwise two libraries recorded the same call
            agents[tree.around(span, "agent")].models.append(convention.model_call(span))
        elif kind == "tool" and tree.kinds.get(enclosing) != "tool":  # otherwise a tool made the call, not the model
            agents[tree.around(span, "agent")].uses.append(convention.tool_use(span))
    return _in_order([agent for agent in agents.values() if _is_run(agent, agents, convention)], agents)


def _is_run(agent: _Agent, agents: dict[str, _Agent], convention: Convention) -> bool:
    if agent.models or agent.uses:
        return True
    if agent.span is None:
        return False
    has_inner = any(inner.parent == agent.span.span_id for inner in agents.values())
    return "agentnb.run.id" in agent.span.attributes or (not has_inner and bool(convention.agent_use(agent.span).inputs))


def _in_order(kept: list[_Agent], agents: dict[str, _Agent]) -> list[_Agent]:
    """Set each agent's parent to the nearest enclosing agent that has a run, and sort outer agents first."""
    ids = {agent.span.span_id for agent in kept if agent.span is not None}
    depths = {}
    for agent in kept:
        seen: set[str] = set()
        while agent.parent and agent.parent not in ids and agent.parent not in seen:
            seen.add(agent.parent)
            agent.parent = agents[agent.parent].parent
        depths[id(agent)] = _depth(agent, agents)
    return sorted(kept, key=lambda agent: depths[id(agent)])


def _depth(agent: _Agent, agents: dict[str, _Agent]) -> int:
    depth, seen = 0, set()
    while agent.parent and agent.parent not in seen:
        seen.add(agent.parent)
        agent, depth = agents[agent.parent], depth + 1
    return depth + (agent.span is not None)


# A run


def _run(file: TraceFile, convention: Convention, trace_id: str, agent: _Agent, several: bool) -> Run:
    use = AgentUse([]) if agent.span is None else convention.agent_use(agent.span)
    tools = {tool.name: tool for tool in (*use.tools, *[tool for call in agent.models for tool in call.tools])}
    span_id = agent.span.span_id if agent.span is not None else ""
    ids: dict[str, Any] = {"run_id": _run_id(agent.span, trace_id), "parent_id": _parent_id(agent, trace_id)}
    where = f"trace {trace_id}" + (f", span {span_id}" if span_id else "")
    model = use.model or next((call.model for call in agent.models if call.model), "")
    conversation = SpanConversation(agent.span, use.inputs)
    fields = conversation.about(use.name)
    writer = file.writer(convention.name, where if several else "", model=model, tools=tuple(tools.values()), **ids, **fields)
    conversation.begin(writer, use.system)
    _complete(agent.models)
    _assign(agent)
    conversation.add_calls(agent.models)
    return conversation.end(agent.models, use.output)


def _run_id(span: Span | None, trace_id: str) -> str:
    """Return the run's own id or, if it has none, an id made from its trace and span."""
    if span is None:
        return _ID.sub("-", trace_id)[:100]
    own = span.attributes.get("agentnb.run.id")
    return own if isinstance(own, str) and own else _ID.sub("-", f"{trace_id}-{span.span_id}")[:100]


def _parent_id(agent: _Agent, trace_id: str) -> str | None:
    span = agent.span
    own = span.attributes.get("agentnb.run.parent_id") if span is not None else None
    if isinstance(own, str) and own:
        return own
    return _ID.sub("-", f"{trace_id}-{agent.parent}")[:100] if agent.parent else None


def _complete(models: list[ModelCall]) -> None:
    """Add replies that their own spans lack, taken from the conversation that the next call repeats."""
    for call, after in pairwise(models):
        repeated = after.inputs[len(call.inputs) : len(call.inputs) + 1]
        if (call.output is None or call.output.is_blank) and repeated and repeated[0].role == "assistant":
            call.output = repeated[0]


def _assign(agent: _Agent) -> None:
    """Assign each tool use to its model call: by id, otherwise to the latest earlier call that lacks this tool's result."""
    for use in agent.uses:
        model = _asker(agent.models, use)
        if model is None:
            agent.models.append(model := ModelCall(use.span, output=SpanMessage("assistant")))
        model.uses.append(use)


def _asker(models: list[ModelCall], use: ToolUse) -> ModelCall | None:
    before = [
        model for model in models if (model.span.start or 0) <= (use.span.start or 0) or model.span.start is None
    ] or models[:1]
    for model in reversed(before):
        if (
            use.call.id
            and use.call.id in model.call_ids
            and not any(answered.call.id == use.call.id for answered in model.uses)
        ):
            return model
    for model in reversed(before):
        call_names = [call.name for call in model.output.calls] if model.output is not None else []
        if call_names.count(use.call.name) > sum(answered.call.name == use.call.name for answered in model.uses):
            return model
    return before[-1] if before else None
