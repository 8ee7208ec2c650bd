"""LangSmith runs as a tree, with creations and updates merged, and the contents of model and tool runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from agentnb.core.messages import Text, ToolCall
from agentnb.core.usage import Usage
from agentnb.interchange.formats import anthropic_messages, langchain_messages, openai_chat, openai_responses
from agentnb.interchange.formats.exchanges import Exchange, recorded_of
from agentnb.interchange.formats.message_content import json_text, parts_of, str_at, text_of, utc_time_of, value_at
from agentnb.interchange.formats.steps import Reply, Result, Step, UserMessage, system_steps
from agentnb.models.providers.serialization import count, object_of

_TOOLS = frozenset({"tool", "retriever"})


@dataclass
class Node:
    """A LangSmith run with its nested runs."""

    fields: dict[str, Any]
    children: list[Node] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The run's id."""
        return str(self.fields["id"])

    @property
    def kind(self) -> str:
        """The run's type in LangSmith: llm, tool, chain, retriever and others."""
        return str_at(self.fields, "run_type")

    @property
    def name(self) -> str:
        """The run's name."""
        return str_at(self.fields, "name")

    @property
    def start(self) -> datetime | None:
        """The start time, or None if unknown."""
        return utc_time_of(self.fields.get("start_time"))

    @property
    def end(self) -> datetime | None:
        """The end time, or None if unknown."""
        return utc_time_of(self.fields.get("end_time"))

    @property
    def seconds(self) -> float | None:
        """The duration, or None if a time is unknown."""
        start, end = self.start, self.end
        return None if start is None or end is None else max(0.0, (end - start).total_seconds())

    @property
    def error(self) -> str:
        """The error message; empty if missing."""
        error = self.fields.get("error")
        return str(error).strip() if error else ""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata recorded by its client."""
        return dict(object_of(value_at(self.fields, "extra", "metadata")))

    def below(self) -> Iterator[Node]:
        """Yield its nested runs, at any depth, in order."""
        for child in self.children:
            yield child
            yield from child.below()

    @property
    def is_sub_agent(self) -> bool:
        """True for a tool in which a model is at work."""
        return self.kind in _TOOLS and any(node.kind == "llm" for node in self.below())


def is_run(value: Any) -> bool:
    """True if this is a LangSmith run."""
    return isinstance(value, dict) and "id" in value and "run_type" in value and bool(value.keys() & {"inputs", "dotted_order"})


def runs_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the creations and updates in a document as a flat sequence."""
    if isinstance(value, list):
        for item in value:
            yield from runs_in(item)
    elif value.keys() & {"post", "patch"}:
        for key in ("post", "patch"):
            yield from (item for entry in value.get(key) or () for item in _flatten(entry))
    elif isinstance(value.get("runs"), list):
        yield from runs_in(value["runs"])
    else:
        yield from _flatten(value)


def _flatten(run: dict[str, Any], parent: Any = None) -> Iterator[dict[str, Any]]:
    above = run.get("parent_run_id") or parent
    yield {**{key: value for key, value in run.items() if key != "child_runs"}, "parent_run_id": above}
    for child in run.get("child_runs") or ():
        yield from _flatten(child, run.get("id"))


def trees_of(runs: Iterable[dict[str, Any]]) -> list[Node]:
    """Return the outermost runs, merging creations and updates by run id."""
    nodes: dict[str, Node] = {}
    for position, run in enumerate(runs):
        fields = {key: value for key, value in run.items() if value not in (None, "", {}, [])}
        order = str_at(fields, "dotted_order")
        run_id = str(fields.get("id") or order.rpartition("Z")[2] or f"run-{position}")
        node = nodes.setdefault(run_id, Node({"id": run_id}))
        node.fields |= fields
    roots: list[Node] = []
    for node in sorted(nodes.values(), key=_order):
        above = nodes.get(_parent_id(node))
        (above.children if above is not None and above is not node else roots).append(node)
    if len(nodes) > sum(1 for root in roots for _ in (root, *root.below())):
        raise ValueError("runs are nested in each other")
    return roots


def _order(node: Node) -> tuple[str, float]:
    start = node.start
    return str_at(node.fields, "dotted_order"), start.timestamp() if start is not None else 0.0


def _parent_id(node: Node) -> str:
    parent_id = node.fields.get("parent_run_id")
    above = str_at(node.fields, "dotted_order").rpartition(".")[0]
    return str(parent_id or above.rpartition(".")[2].partition("Z")[2])


# Model runs


def exchange_of(node: Node) -> Exchange:
    """Return the exchange that a model run represents."""
    inputs, outputs = object_of(node.fields.get("inputs")), object_of(node.fields.get("outputs"))
    invoked = object_of(value_at(node.fields, "extra", "invocation_params"))
    tools = inputs.get("tools") or invoked.get("tools") or inputs.get("functions") or invoked.get("functions")
    specs = openai_chat.tools_of(tools) if not anthropic_messages.is_request(inputs) else anthropic_messages.tools_of(tools)
    reply = None if node.error and not outputs else [*_set_times(reply_steps(dict(outputs)), node)]
    model_names = (node.metadata.get("ls_model_name"), inputs.get("model"), invoked.get("model"), invoked.get("model_name"))
    return Exchange(
        node.id,
        asked_steps(dict(inputs)),
        reply or None,
        node.error,
        next((str(name) for name in model_names if name), ""),
        specs,
        id=str_at(outputs, "id"),
        follows=str_at(inputs, "previous_response_id"),
    )


def asked_steps(asked: dict[str, Any]) -> list[Step]:
    """Return the steps in a run's inputs: messages, prompts, or other data as JSON."""
    if openai_responses.is_request(asked):
        return openai_responses.request_steps(asked)
    messages = asked.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[0], list):
        messages = messages[0]  # the first batch
    if isinstance(messages, list) and messages and all(langchain_messages.is_message(message) for message in messages):
        return [*system_steps(text_of(asked.get("system"))), *langchain_messages.steps_of(messages)]
    prompts = asked.get("prompts")
    prompt = prompts[0] if isinstance(prompts, list) and prompts else asked
    return [UserMessage(parts_of(plain_text(prompt)))]


def reply_steps(answered: dict[str, Any]) -> list[Step]:
    """Return the replies in a model run's outputs."""
    for api in (openai_chat.API, openai_responses.API, anthropic_messages.API):
        if api.is_response(answered):
            return api.response_steps(answered)
    generations = answered.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    last = (answered.get("messages") or [None])[-1] if isinstance(answered.get("messages"), list) else None
    generated = value_at(generations, "message")
    for candidate in (generated, answered, answered.get("message"), answered.get("output"), last):
        if langchain_messages.is_message(candidate) or (isinstance(candidate, dict) and "content" in candidate):
            fields = langchain_messages.fields_of(candidate) or {}
            if isinstance(fields.get("content"), list) and "tool_calls" not in fields:
                stop, usage = str_at(fields, "stop_reason"), anthropic_messages.usage_of(fields.get("usage"))
                return anthropic_messages.reply_steps(fields["content"], stop_reason=stop, usage=usage)
            return [langchain_messages.reply_of(fields)]
    text = value_at(generations, "text")
    return [Reply([Text(plain_text(answered if text is None else text))], [])] if answered else []


def _set_times(steps: list[Step], node: Node) -> Iterator[Step]:
    """Yield the steps, adding time, usage and cost, as counted by LangSmith, to the last reply."""
    last = max((index for index, step in enumerate(steps) if isinstance(step, Reply)), default=None)
    for index, step in enumerate(steps):
        if not isinstance(step, Reply):
            yield step
        elif index == last:
            yield step._replace(at=node.end or step.at, seconds=node.seconds, usage=_usage(step.usage, node))
        else:
            yield step._replace(at=None)


def _usage(told: Usage, node: Node) -> Usage:
    usage = told
    for reported in (value_at(node.fields, "outputs", "usage_metadata"), node.metadata.get("usage_metadata")):
        usage = usage if usage != Usage() else langchain_messages.usage_of(reported)
    if usage == Usage():
        usage = Usage(input=count(node.fields.get("prompt_tokens")), output=count(node.fields.get("completion_tokens")))
    cost: Any = node.fields.get("total_cost")
    with suppress(TypeError, ValueError):
        if usage.cost is None and float(cost) > 0:
            return msgspec.structs.replace(usage, cost=float(cost))
    return usage


# Tool runs


def call_of(node: Node) -> ToolCall:
    """Return the call that a tool run represents."""
    inputs: Any = node.fields.get("inputs") or {}
    if isinstance(inputs, dict) and inputs.keys() == {"input"}:
        inputs = inputs["input"]
    if isinstance(inputs, str):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            inputs = ast.literal_eval(inputs)
    return ToolCall(node.name, inputs if isinstance(inputs, dict) else {"input": inputs}, call_id_of(node) or node.id)


def call_id_of(node: Node) -> str:
    """Return the id that the model gave the call, if the tool's result names it."""
    output = object_of(value_at(node.fields, "outputs", "output"))
    fields = langchain_messages.fields_of(dict(output)) or {}
    return str(fields.get("tool_call_id") or node.metadata.get("tool_call_id") or "")


def result_of(node: Node, call_id: str) -> Result:
    """Return the result in a tool run."""
    if node.error:
        return Result(call_id, parts_of(node.error), node.name, True, node.end, node.seconds)
    output: Any = node.fields.get("outputs")
    if isinstance(output, dict) and output.keys() == {"output"}:
        output = output["output"]
    fields = langchain_messages.fields_of(output) or {}
    if "tool_call_id" in fields or langchain_messages.role_of(fields) == "tool":
        step = langchain_messages.message_steps(fields)[0]
        assert isinstance(step, Result)
        return step._replace(call_id=call_id, at=node.end, seconds=node.seconds)
    parts = parts_of(json_text(output)) if output is not None else []
    return Result(call_id, parts, node.name, False, node.end, node.seconds)


def plain_text(value: Any) -> str:
    """Return inputs or outputs as text: their only text or, failing that, JSON."""
    while isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return json_text(value)


def recorded_data(node: Node) -> dict[str, Any]:
    """Return any other data recorded for a run."""
    names = ("name", "run_type", "tags", "session_name", "feedback_stats", "trace_id", "status", "total_tokens", "total_cost")
    return recorded_of({**{key: node.fields.get(key) for key in names}, "metadata": node.metadata})
