"""LangSmith traces: posts and patches from its clients, and exported runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import Text, ToolCall
from agentnb.detect.run import Run
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats import langsmith_tree as tree
from agentnb.interchange.formats.conversations import Conversations, OpenConversation, finish
from agentnb.interchange.formats.langsmith_tree import Node
from agentnb.interchange.formats.message_content import first_at, parts_of, str_at
from agentnb.interchange.formats.steps import Reply, Result, Step, UserMessage, write_steps
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile

NAME = "langsmith"
TITLE = "runs of LangSmith"
RECORDS_END = "`end_time` and `error` of the outermost run"
_TOOLS = frozenset({"tool", "retriever"})
_STEPS = frozenset(
    {"RunnableSequence", "RunnableLambda", "RunnableParallel", "RunnableCallable", "LangGraph", "agent", "model"}
)
"""Names of runs that belong to LangChain itself rather than to agents."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    first = file.first
    if isinstance(first, dict) and isinstance(first.get("runs"), list):
        first = first["runs"]
    if isinstance(first, dict) and first.keys() & {"post", "patch"}:
        posted = [*_list(first.get("post")), *_list(first.get("patch"))]
        fits = bool(posted) and all(isinstance(candidate, dict) and "dotted_order" in candidate for candidate in posted)
        return "" if fits else "it has no runs with dotted_order"
    candidate = first[0] if isinstance(first, list) and first else first
    return "" if tree.is_run(candidate) else "it has no post and patch, and no run with run_type"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each trace, and a nested run for each additional conversation in it."""
    records = file.records() if file.kind == "lines" else [(0, file.document)]
    runs: list[dict[str, Any]] = []
    for number, record in records:
        with file.guard(f"line {number}" if number else ""):
            runs += tree.runs_in(record)
    roots = tree.trees_of(runs)
    for index, root in enumerate(roots):
        position = str(index) if len(roots) > 1 else ""
        with file.guard(position):
            yield from with_nested_usage(_runs(file, position, root, None))


def _runs(file: TraceFile, position: str, root: Node, parent: str | None) -> Iterator[Run]:
    """Yield the run of a trace, followed by its nested runs."""
    own_nodes = [*_within(root)]
    conversations = _conversations(root, [node for node in own_nodes if node.kind == "llm"])
    tools = [node for node in own_nodes if node.kind in _TOOLS]
    texts = [_add_results(conversation.steps, tools) for conversation in conversations]
    if conversations:
        texts[0] = _insert_tools(texts[0], tools)
    yield _run(
        file,
        position,
        root,
        parent,
        conversations[0] if conversations else None,
        texts[0] if conversations else _plain(root, tools),
    )
    nodes = {node.id: node for node in own_nodes}
    for conversation, steps in zip(conversations[1:], texts[1:], strict=True):
        yield _nested_run(file, position, root, conversation, steps, _agent(root, nodes[conversation.first.position]))
    for tool in own_nodes:
        if tool.is_sub_agent:
            yield from _runs(file, position, tool, root.id)


def _within(node: Node) -> Iterator[Node]:
    """Yield the runs in a trace, except those of sub-agents within a tool."""
    if not node.children or node.kind == "llm":
        yield node
        return
    for child in node.children:
        yield from [child] if child.is_sub_agent or child.kind in _TOOLS else _within(child)


def _conversations(root: Node, models: list[Node]) -> list[OpenConversation]:
    """Return the conversations of the models, ordered by when they started. If there are several agents, each reply names its
    agent.
    """
    agents = [_agent(root, model) for model in models]
    conversations, complete = Conversations(), list[OpenConversation]()
    for model, agent in zip(models, agents, strict=True):
        exchange = tree.exchange_of(model)
        if len(set(agents)) > 1 and exchange.reply is not None:
            authored = [step._replace(author=agent) if isinstance(step, Reply) else step for step in exchange.reply]
            exchange = exchange._replace(reply=authored)
        complete += conversations.add(exchange)
    return sorted([*complete, *conversations.open_conversations()], key=lambda one: one.number)


def _run(
    file: TraceFile, position: str, root: Node, parent: str | None, one: OpenConversation | None, steps: list[Step]
) -> Run:
    first = one.first if one is not None else None
    writer = file.writer(
        NAME,
        position,
        task=str_at(root.fields, "reference_example_id"),
        run_id=root.id,
        parent_id=parent,
        model=first.model if first is not None else "",
        tools=one.tools.values() if one is not None else (),
        tags=tuple(str(tag) for tag in _list(root.fields.get("tags"))),
        settings={"recorded": tree.recorded_data(root)},
        **({"agent": root.name} if root.name and root.kind != "llm" else {}),
    )
    write_steps(writer, _set_prompt_time(steps, root))
    if not any(node.is_sub_agent for node in root.below()):  # otherwise its totals include their usage
        sums = root.fields
        sent, received, cost = (sums.get(name) for name in ("prompt_tokens", "completion_tokens", "total_cost"))
        writer.total(total_of(sent=sent, received=received, cost=cost))
    error = root.error or (one.error if one is not None else "")
    reply = one.reply if one is not None else None
    return finish(writer, reply, error, is_over=root.end is not None, at=root.end, seconds=root.seconds)


def _set_prompt_time(steps: list[Step], root: Node) -> list[Step]:
    """Return the steps, with the start of the outermost run as the time of the prompt."""
    index = next((index for index, step in enumerate(steps) if isinstance(step, UserMessage)), None)
    if index is None:
        return steps
    prompt = steps[index]
    assert isinstance(prompt, UserMessage), "just found"
    return [*steps[:index], prompt._replace(at=prompt.at or root.start), *steps[index + 1 :]]


def _nested_run(file: TraceFile, position: str, root: Node, one: OpenConversation, steps: list[Step], agent: str) -> Run:
    """Return the run of an additional conversation in a trace, such as that of another agent."""
    fields = {"agent": agent} if agent else {}
    run_id, model, tools = one.first.position, one.first.model, one.tools.values()
    writer = file.writer(NAME, position, run_id=run_id, parent_id=root.id, model=model, tools=tools, **fields)
    write_steps(writer, steps)
    return finish(writer, one.reply, one.error)


def _agent(root: Node, model: Node) -> str:
    """Return the name of the agent that a model works for: the nearest enclosing run that has a name of its own."""
    recorded = first_at(model.metadata, "lc_agent_name", "langgraph_node")
    if isinstance(recorded, str) and recorded not in _STEPS:
        return recorded
    around = [node.name for node in root.below() if any(inner is model for inner in node.below())]
    return next((name for name in reversed(around) if name not in _STEPS), "")


# Tools


def _add_results(steps: list[Step], tools: list[Node]) -> list[Step]:
    """Return the steps with the times of results, and with any results that later requests lack. Removes the tool runs used."""
    merged: list[Step] = []
    answered_ids = {step.call_id for step in steps if isinstance(step, Result)}
    names: dict[str, str] = {}
    for step in steps:
        if isinstance(step, Reply):
            names |= {call.id: call.name for call in step.calls}
            merged += [step, *_missing_results([call for call in step.calls if call.id not in answered_ids], tools)]
        elif (
            isinstance(step, Result)
            and (tool := _pop_tool_run(tools, step.call_id, names.get(step.call_id, step.name))) is not None
        ):
            merged.append(step._replace(at=tool.end, seconds=tool.seconds, is_error=step.is_error or bool(tool.error)))
        else:
            merged.append(step)
    return merged


def _missing_results(calls: list[ToolCall], tools: list[Node]) -> Iterator[Step]:
    """Yield the results of these calls from the tool runs."""
    for call in calls:
        tool = _pop_tool_run(tools, call.id, call.name)
        if tool is not None:
            yield tree.result_of(tool, call.id)


def _pop_tool_run(tools: list[Node], call_id: str, name: str) -> Node | None:
    """Remove and return the tool run for this call: the one with its id, or the first with its name and no id."""
    match = next((tool for tool in tools if call_id and tree.call_id_of(tool) == call_id), None)
    if match is None:
        match = next((tool for tool in tools if tool.name == name and not tree.call_id_of(tool)), None)
    if match is not None:
        tools.remove(match)
    return match


def _insert_tools(steps: list[Step], tools: list[Node]) -> list[Step]:
    """Return the steps, inserting by time any tools that no model called, such as a search before the prompt."""
    ordered = list(steps)
    for tool in tools:
        start = tool.start
        later = (
            index
            for index, step in enumerate(ordered)
            if isinstance(step, Reply) and start is not None and step.at is not None and start < step.at
        )
        index = next(later, len(ordered))
        call = tree.call_of(tool)
        ordered[index:index] = [Reply([], [call], at=start), tree.result_of(tool, call.id)]
    tools.clear()
    return ordered


def _plain(root: Node, tools: list[Node]) -> list[Step]:
    """Return the steps of a trace without a model: its inputs, tools and outputs."""
    prompt, outputs = tree.plain_text(root.fields.get("inputs") or ""), root.fields.get("outputs")
    steps: list[Step] = [UserMessage(parts_of(prompt), at=root.start)]
    if root.kind in _TOOLS:
        call = tree.call_of(root)
        return [*steps, Reply([], [call]), tree.result_of(root, call.id)]
    last: list[Step] = [Reply([Text(tree.plain_text(outputs))], [], at=root.end)] if outputs else []
    return [*_insert_tools(steps, tools), *last]
