"""Parser for the plan in a model's reply: JSON or YAML, fenced or surrounded by prose, or tool calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from agentnb.core.messages import ToolCall
from agentnb.core.plans.plan_steps import ELICITATION, TOOL, PlanStep
from agentnb.core.run.call_window import call_key
from agentnb.errors import BrokenReply
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.workflow.defaults import MAX_PLAN_STEPS
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node, ScalarNode, read_yaml
from agentnb.workflow.plans.plan_reader import BEGINS_PLAN, PLAN_KEYS, ReadPlan, fenced_parts, node_of, read_plan, with_reason
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import references_in
from agentnb.workflow.templates.json_in_text import json_values

AGAIN = "Try again, or use another model"


def plan_in_reply(text: str, calls: Sequence[ToolCall] = ()) -> ReadPlan | None:
    """Return the plan in a reply, or None if the reply is an answer.

    Prose before a plan becomes the reason of its first step; if the plan has no steps, the prose is the answer. Raises
    `BrokenReply` if the plan is unreadable or has too many steps.
    """
    if calls:
        return _of_calls(text, calls)
    for node, prose in _mappings(text):
        if (declared := _as_plan(node)) is not None:
            return _finish_plan(read_plan(declared, Problems()), prose)
    if next(fenced_parts(text), None) is None and not text.lstrip().startswith("{"):
        return None
    if BEGINS_PLAN.search(text):
        raise BrokenReply("The model's plan cannot be read: it is neither JSON nor YAML", AGAIN)
    return None


def _mappings(text: str) -> Iterator[tuple[MappingNode, str]]:
    """Yield the mappings in a text, each with the prose before it: from fences, the complete text, and JSON within prose."""
    for fenced, start in fenced_parts(text):
        if (node := _mapping(fenced)) is not None:
            yield node, text[:start].strip()
    if text.lstrip()[:1] != "{" and (node := _mapping(text)) is not None:
        yield node, ""
    for value in json_values(text):
        within = node_of(value)
        if isinstance(within, MappingNode):
            yield within, text[: max(text.find("{"), 0)].strip()


def _mapping(text: str) -> MappingNode | None:
    """Return a YAML mapping, or None for other YAML and for texts without a plan key, since prose is not parsed as YAML."""
    if not any(key in text for key in PLAN_KEYS):
        return None
    problems = Problems()
    node = read_yaml(text, problems)
    return node if isinstance(node, MappingNode) and not problems.found else None


def _as_plan(node: MappingNode) -> MappingNode | None:
    """Return the mapping of a plan, one built from a reply that consists of a single question, or None for anything else."""
    steps, question = (node.entries[key].value if key in node.entries else None for key in PLAN_KEYS)
    if isinstance(steps, ListNode) or isinstance(question, MappingNode):
        return node
    if not node.entries.keys().isdisjoint(PLAN_KEYS) and all(value is None or _is_blank(value) for value in (steps, question)):
        return node
    kind = node.entries.get("type")
    if kind is not None and getattr(kind.value, "value", None) == ELICITATION:
        return MappingNode(node.line, {"elicitation": kind._replace(value=node)})
    return None


def _is_blank(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value in (None, "", False)


def _finish_plan(read: ReadPlan, prose: str) -> ReadPlan:
    steps = read.plan.steps
    if len(steps) > MAX_PLAN_STEPS:
        raise BrokenReply(f"The model's plan has more than {MAX_PLAN_STEPS:,} steps", "Ask for less at once")
    if not steps and read.plan.question is None:
        return replace(read, answer=read.fields.text("answer") or prose or None)
    return with_reason(read, prose)


def _of_calls(text: str, calls: Sequence[ToolCall]) -> ReadPlan:
    """Convert a reply's tool calls to a plan with one step per distinct call."""
    reason = text.strip() or None
    steps = [
        PlanStep(
            type=TOOL,
            id=call.id or None,
            name=tool_of_word(call.name),
            args=dict(call.arguments) if isinstance(call.arguments, Mapping) else None,
            reason=reason,
        )
        for call in calls
    ]
    if not any(True for step in steps for _ in references_in(step.args or {})):  # references count the steps as written
        first: dict[tuple[str, bytes], PlanStep] = {}
        for step in steps:
            first.setdefault(call_key(ToolCall(step.name or "", step.args or {}, "")), step)
        steps = [*first.values()]
    plan = PlanSpec(steps=tuple(steps))
    node = node_of(plan.data)
    assert isinstance(node, MappingNode), "a plan is expected"
    read = read_plan(node, Problems())
    broken = {call.id: call.arguments[:100] for call in calls if isinstance(call.arguments, str)}
    faults = []
    for step, step_faults in zip(plan.steps, read.faults, strict=True):
        own = Problems()
        if (step.id or "") in broken:
            own.add(0, f"the arguments are not JSON: {broken[step.id or '']}")
        faults.append((*step_faults, *own.found))
    return replace(read, plan=plan, faults=tuple(faults))
