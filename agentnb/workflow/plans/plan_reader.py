"""Parser of plans in both forms from YAML or JSON nodes; problems are reported with their lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from agentnb.core.plans.plan_steps import CHAT_TYPES, PlanQuestion, PlanStep
from agentnb.core.schema.json_schema import plain_data
from agentnb.core.schema.nesting import is_too_deep
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.workflow.defaults import MAX_PLAN_STEPS, MAX_RETRIES
from agentnb.workflow.files.nested_files import file_text
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.problems import Problem, Problems
from agentnb.workflow.form.yaml_source import Entry, ListNode, MappingNode, Node, ScalarNode, kind_of, plain, read_mapping
from agentnb.workflow.plans.plan_spec import PlanForm, PlanSpec

OF_PLANS = ("id", "intention", "steps", "elicitation")
OF_CHAT_PLANS = ("id", "steps", "reasoning")
OF_STEPS = ("type", "id", "name", "args", "reason", "retries", "content", "elicitation")
OF_CHAT_STEPS = ("stepNumber", "type", "description", "tools", "args", "executorRequired", "dependsOn")
OF_QUESTIONS = ("type", "message", "schema", "requestedSchema")
PLAN_KEYS = ("steps", "elicitation")
BEGINS_PLAN = re.compile(r"""(?<!\w)["']?(?:steps|elicitation)["']?\s*:""")
MAX_TRIED = 50
"""Maximum positions in a text at which the parser tries to start a plan's JSON."""
_DECODER = json.JSONDecoder()
_FENCE = re.compile(r"^[ \t]*(?P<fence>```+|~~~+)(?P<kind>[^\n]*)$", re.MULTILINE)
"""First line of a fence or, if it has no info string, possibly its last line."""
_ONLY_OF_CHAT = frozenset(OF_CHAT_STEPS) - frozenset(OF_STEPS)
_ONLY_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_FILES = (".yaml", ".yml", ".json")
AnyPlan: TypeAlias = PlanSpec | str | Path | Mapping[str, Any]
"""Input of `read_any_plan`."""
EXAMPLE = "For example: steps: [{type: tool, name: tides_fetch, args: {station: brest}}]"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A plan with its lines in the source."""

    plan: PlanSpec
    fields: Fields
    """The plan's fields as written."""
    steps: tuple[Fields | None, ...] = ()
    """Each step's fields as written, or None for a step that is not a mapping."""
    faults: tuple[tuple[Problem, ...], ...] = ()
    """Problems by step."""
    answer: str | None = None
    """Text of the answer, if a reply contains a plan without steps."""


def read_any_plan(source: AnyPlan, problems: Problems) -> ReadPlan | None:
    """Parse a plan from YAML or JSON text, a file, plain data, or a `PlanSpec`; return None if it is unreadable.

    Problems are added to ``problems``, with the file name.
    """
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and source.endswith(_FILES)):
        problems.source = str(source)
        return read_plan_text(file_text(Path(source)), problems)
    if isinstance(source, str):
        return read_plan_text(source, problems)
    node = node_of(plain_data(source.data if isinstance(source, PlanSpec) else dict(source), "The plan"))
    assert isinstance(node, MappingNode), "it is a mapping"
    return read_plan(node, problems)


def read_plan_text(text: str, problems: Problems) -> ReadPlan | None:
    """Parse the plan in a text and add its problems to ``problems``; return None if it is unreadable.

    The plan may be in a fence or, as JSON, within prose. Prose before it becomes the reason of its first step.
    """
    own, prose = Problems(problems.source, problems.strict), ""
    node = read_mapping(as_yaml(text), own, "A plan", EXAMPLE)
    if (node is None or node.entries.keys().isdisjoint(PLAN_KEYS)) and (within := plan_within(text)) is not None:
        own = Problems(problems.source, problems.strict)
        part, prose = within
        node = read_mapping(as_yaml(part), own, "A plan", EXAMPLE)
    read = None if node is None else with_reason(read_plan(node, own), prose)
    problems.found += own.found
    problems.warnings += own.warnings
    return read


def plan_within(text: str) -> tuple[str, str] | None:
    """Return a plan in a fence or, as JSON, within prose, together with the prose before it; None if there is no plan.

    Preceding lines are replaced by blank ones, so that line numbers stay correct.
    """
    for fenced, start in fenced_parts(text):
        if BEGINS_PLAN.search(fenced):
            return "\n" * text.count("\n", 0, text.index("\n", start) + 1) + fenced, text[:start].strip()
    for match in islice(re.finditer(r"\{", text), MAX_TRIED):
        start = match.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if not value.keys().isdisjoint(PLAN_KEYS):
            return "\n" * text.count("\n", 0, start) + text[start:end], text[:start].strip()
    return None


def fenced_parts(text: str) -> Iterator[tuple[str, int]]:
    """Yield the content and start position of each closed fence, in one pass over the text."""
    lines = [*_FENCE.finditer(text)]
    last = {line["fence"]: line.start() for line in lines if not line["kind"].strip()}
    opening: re.Match[str] | None = None
    for line in lines:
        if opening is None:
            opening = line if last.get(line["fence"], -1) > line.start() else None
        elif line["fence"] == opening["fence"] and not line["kind"].strip():
            yield text[opening.end() + 1 : line.start()], opening.start()
            opening = None


def with_reason(read: ReadPlan, prose: str) -> ReadPlan:
    """Return the plan, with the prose before it as the reason of its first step unless that step has one."""
    steps = read.plan.steps
    if not prose or not steps or steps[0].reason:
        return read
    first = structs.replace(steps[0], reason=prose)
    return replace(read, plan=structs.replace(read.plan, steps=(first, *steps[1:])))


def as_yaml(text: str) -> str:
    """Escape the characters in a JSON text that YAML accepts only if escaped; return other texts unchanged."""
    if not text.lstrip().startswith("{"):
        return text
    return _ONLY_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def read_plan(node: MappingNode, problems: Problems) -> ReadPlan:
    """Parse a plan from a mapping and add its problems to ``problems``."""
    form = form_of(node)
    fields = Fields(node, "plan", problems)
    fields.refuse_unknown(OF_CHAT_PLANS if form == "chat" else OF_PLANS)
    items = fields.items("steps") or ()
    if len(items) > MAX_PLAN_STEPS:
        problems.add(
            fields.line_of("steps"), f"plan: it has {len(items):,} steps; the maximum is {MAX_PLAN_STEPS:,}", "Split it"
        )
    if form == "planner" and "steps" not in fields and "elicitation" not in fields:
        problems.add(fields.line, "plan: it has neither steps nor an elicitation", EXAMPLE)
    read = [_read_step(item, index, form, problems) for index, item in enumerate(items[: MAX_PLAN_STEPS + 1])]
    plan = PlanSpec(
        id=fields.text("id"),
        intention=fields.text("intention"),
        steps=tuple([step for step, _, _ in read]),
        elicitation=None if form == "chat" else _question(fields.fields("elicitation", "elicitation of the plan")),
        reasoning=fields.text("reasoning"),
        form=form,
    )
    return ReadPlan(plan, fields, tuple([own for _, own, _ in read]), tuple([faults for _, _, faults in read]))


_OF_STEPS: dict[str, tuple[set[str], set[str]]] = {
    "planner": (set(), {*OF_STEPS, "problem"}),
    "chat": ({*OF_CHAT_STEPS} - {"args"}, {*OF_CHAT_STEPS}),
}
"""Keys of a step in `PlanSpec.data`, by form: required and allowed."""


def plan_of_data(data: Any) -> PlanSpec | None:
    """Return the plan in data from `PlanSpec.data`, without source positions, or None for any other data."""
    steps = data.get("steps") if isinstance(data, dict) else None
    if not isinstance(steps, list) or len(steps) > MAX_PLAN_STEPS:
        return None
    form = "planner" if data.keys() == {*OF_PLANS} else "chat" if steps and data.keys() <= {*OF_CHAT_PLANS} else ""
    least, most = _OF_STEPS.get(form, (None, set()))
    if least is None or not {*map(type, steps)} <= {dict} or not set().union(*steps) <= most:
        return None
    if least and not all(least <= step.keys() for step in steps):
        return None
    with suppress(msgspec.ValidationError):
        plan = msgspec.convert({**data, "form": form}, PlanSpec)
        if form == "planner":
            return plan
        plan_steps = [structs.replace(step, tools=tuple(map(tool_of_word, step.tools))) for step in plan.steps]
        return structs.replace(plan, steps=tuple(plan_steps))
    return None


def form_of(node: MappingNode) -> PlanForm:
    """Return the form of a plan; it is a chat plan if its steps have numbers or descriptions, or if it has ``reasoning``."""
    if "reasoning" in node.entries:
        return "chat"
    steps = node.entries["steps"].value if "steps" in node.entries else None
    for step in steps.items if isinstance(steps, ListNode) else ():
        entries = step.entries if isinstance(step, MappingNode) else {}
        kind = entries["type"].value if "type" in entries else None
        if not _ONLY_OF_CHAT.isdisjoint(entries) or (isinstance(kind, ScalarNode) and kind.value in CHAT_TYPES):
            return "chat"
    return "planner"


def node_of(data: Any) -> Node:
    """Convert plain data to nodes without line numbers."""
    if isinstance(data, str):
        return ScalarNode(0, data, data)
    if isinstance(data, dict):
        return MappingNode(0, {str(key): Entry(0, node_of(value)) for key, value in data.items()})
    if isinstance(data, list | tuple):
        return ListNode(0, tuple([node_of(item) for item in data]))
    return ScalarNode(0, data, _as_json(data))


_as_json = lru_cache(typed=True)(json.dumps)


def _read_step(
    item: Node, index: int, form: PlanForm, problems: Problems
) -> tuple[PlanStep, Fields | None, tuple[Problem, ...]]:
    own, fields, step = Problems(problems.source, problems.strict), None, PlanStep()
    if isinstance(item, MappingNode):
        fields = Fields(item, f"step {index + 1 if form == 'chat' else index}", own)
        step = _chat_step(fields) if form == "chat" else _step(fields)
    else:
        own.add(item.line, f"step {index} must be a mapping, not {kind_of(item)}", EXAMPLE)
    problems.found += own.found
    return step, fields, tuple(own.found)


def _step(fields: Fields) -> PlanStep:
    fields.refuse_unknown(OF_STEPS)
    name, retries = fields.text("name"), fields.whole("retries") or 0
    if retries > MAX_RETRIES:
        fields.add("retries", f"retries is {retries:,}; the maximum is {MAX_RETRIES}")
    return PlanStep(
        type=fields.text("type") or "tool",
        id=fields.text("id"),
        name=None if name is None else tool_of_word(name),
        args=fields.mapping("args"),
        reason=fields.text("reason"),
        retries=min(retries, MAX_RETRIES),
        content=fields.text("content"),
        elicitation=_question(fields.fields("elicitation")),
    )


def _chat_step(fields: Fields) -> PlanStep:
    fields.refuse_unknown(OF_CHAT_STEPS)
    return PlanStep(
        type=fields.text("type") or "",
        number=fields.whole("stepNumber", 1),
        description=fields.text("description"),
        tools=tuple(map(tool_of_word, fields.texts("tools") or ())),
        args=fields.mapping("args"),
        executor_required=fields.flag("executorRequired") or False,
        depends_on=_numbers(fields),
    )


def _numbers(fields: Fields) -> tuple[int, ...]:
    numbers: list[int] = []
    for node in fields.items("dependsOn") or ():
        value = node.value if isinstance(node, ScalarNode) else None
        if type(value) is int:
            numbers.append(value)
        else:
            fields.add(node.line, f"dependsOn contains {kind_of(node)}", "Use the numbers of steps")
    return tuple(numbers)


def _question(fields: Fields | None) -> PlanQuestion | None:
    if fields is None:
        return None
    fields.refuse_unknown(OF_QUESTIONS)
    if fields.node_at("schema") is not None and fields.node_at("requestedSchema") is not None:
        fields.add("schema", "schema and requestedSchema mean the same", "Use only one of them")
    schema = _schema(fields)
    return PlanQuestion(message=fields.text("message") or "", **({} if schema is None else {"schema": schema}))


def _schema(fields: Fields) -> dict[str, Any] | None:
    """Return a question's schema, which may also be written as JSON text, or None if it is missing."""
    key = "requestedSchema" if fields.node_at("requestedSchema") is not None else "schema"
    node = fields.node_at(key)
    if node is None or isinstance(node, MappingNode):
        return None if node is None else plain(node)
    try:
        parsed = json.loads(node.text) if isinstance(node, ScalarNode) else None
    except (ValueError, RecursionError) as error:
        parsed = None if isinstance(error, RecursionError) else error
    if isinstance(parsed, dict) and not is_too_deep(parsed):
        return parsed
    why = f": {parsed}" if isinstance(parsed, ValueError) else ""
    example = "For example: requestedSchema: {type: object, properties: {day: {type: string}}}"
    fields.add(node.line, f"{key} is not a valid JSON Schema{why}", example)
    return None
