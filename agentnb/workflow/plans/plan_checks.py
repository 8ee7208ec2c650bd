"""Checks of a plan, which report all problems at once: types, tools, arguments, references, dependencies, questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from agentnb.core.plans.plan_steps import CHAT_TYPES, CLARIFY, TOOL, PlanQuestion, PlanStep
from agentnb.core.request import ToolSpec
from agentnb.core.schema.data_paths import Place
from agentnb.core.schema.json_schema import check_schema
from agentnb.errors import SettingsError
from agentnb.tools.builtin.builtin_names import KnownSchemas
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.checks.call_checks import Position, check_call, check_calls
from agentnb.workflow.checks.reachability_checks import warn_of_ways
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.problems import Problem, Problems
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node
from agentnb.workflow.plans.offered_tools import with_tools_of_groups
from agentnb.workflow.plans.plan_graph import compile_plan
from agentnb.workflow.plans.plan_reader import EXAMPLE, AnyPlan, ReadPlan, read_any_plan
from agentnb.workflow.plans.plan_spec import TYPES
from agentnb.workflow.plans.step_references import as_reference, references_in, target_of

Schemas: TypeAlias = Mapping[str, dict[str, Any]]
"""Argument schemas by tool name."""
_SCHEMA = "For example: requestedSchema: {type: object, properties: {day: {type: string, format: date}}}"


def validate_plan(plan: AnyPlan, tools: Iterable[Any] | None = None) -> list[Problem]:
    """Return all problems of a plan, with line numbers; an empty list if it is valid.

    ``plan``: a `Plan`, YAML or JSON text, a path, or plain data. ``tools``: the tools that its steps may call, in any form that
    an agent accepts, or as `ToolSpec`; if None, tool names are not checked. Executes nothing.
    """
    _, problems = read_and_check(plan, tools)
    return sorted(problems.found, key=lambda problem: problem.line)


def read_and_check(plan: AnyPlan, tools: Iterable[Any] | None = None) -> tuple[ReadPlan | None, Problems]:
    """Parse and check a plan; return the parsed plan, or None if unreadable, and its problems. See `validate_plan`."""
    return _check(plan, None if tools is None else schemas_of(tools))


def read_for_tools(plan: AnyPlan, specs: Iterable[ToolSpec]) -> tuple[ReadPlan | None, Problems]:
    """Like `read_and_check`, for steps that may use only these tools and no other built-in ones."""
    return _check(plan, {spec.name: spec.input_schema for spec in specs})


def _check(plan: AnyPlan, schemas: Schemas | None) -> tuple[ReadPlan | None, Problems]:
    problems = Problems()
    read = read_any_plan(plan, problems)
    if read is not None:
        if schemas is not None:
            read = replace(read, plan=with_tools_of_groups(read.plan, schemas))
        check_plan(read, schemas, problems)
    return read, problems


def schemas_of(tools: Iterable[Any]) -> Schemas:
    """Return the schemas of these tools, in any form that an agent accepts or as `ToolSpec`, and of all built-in tools.

    A tool of an MCP server accepts any arguments until a run connects to the server.
    """
    items = list(tools)
    specs = [item for item in items if isinstance(item, ToolSpec)]
    toolbox = Toolbox([item for item in items if not isinstance(item, ToolSpec)])
    return KnownSchemas({spec.name: spec.input_schema for spec in (*specs, *toolbox.specs)}, toolbox.may_have)


def check_plan(read: ReadPlan, schemas: Schemas | None, problems: Problems) -> None:
    """Note all problems of a parsed plan. ``schemas``: the schemas of all tools, or None if unknown."""
    plan, checks = read.plan, _Checks(read, schemas, problems)
    if plan.form == "chat":
        if not plan.steps:
            problems.add(read.fields.line_of("steps"), "plan: the plan has no steps", _CHAT_EXAMPLE)
        checks.check_numbers()
    if plan.elicitation is not None:
        _check_question(plan.elicitation, read.fields.fields("elicitation"), problems)
    for index, (step, fields) in enumerate(zip(plan.steps, read.steps, strict=True)):
        if fields is not None:
            checks.check_step(step, index, fields)
    if plan.form == "planner":  # in a chat plan no step ends the others, and a model may choose among a step's tools
        unread = [index for index, fields in enumerate(read.steps) if fields is None]
        graph = compile_plan(plan, "plan", unread, Toolbox())
        if schemas is not None:
            check_calls(
                graph, schemas, as_reference, problems, lambda node: checks.position(checks.fields_of(node.path), "name")
            )
        if not problems.found:
            warn_of_ways(graph, problems, checks.locate)


_CHAT_EXAMPLE = "For example: steps: [{stepNumber: 1, type: research, description: Fetch the table, tools: [tides_fetch]}]"


@dataclass(frozen=True, slots=True)
class _Checks:
    """Checks of one plan's steps."""

    read: ReadPlan
    schemas: Schemas | None
    problems: Problems

    def check_step(self, step: PlanStep, index: int, fields: Fields) -> None:
        types = CHAT_TYPES if self.read.plan.form == "chat" else TYPES
        if step.type not in types and step.type != CLARIFY:
            listed = ", ".join(types)
            problem = f'{fields.where}: unknown type "{step.type}"' if step.type else f"{fields.where}: the type is missing"
            self.problems.add(fields.line_of("type"), problem, f"Use one of {listed}")
        if self.read.plan.form == "chat":
            self._check_chat_step(step, fields)
        elif step.type == TOOL and not step.name:
            self.problems.add(fields.line, f"{fields.where}: the name of the tool is missing", EXAMPLE)
        elif step.question is not None:
            if step.elicitation is None and not step.question.message.strip():
                self.problems.add(fields.line, f"{fields.where}: the question is missing", "Add an elicitation with a message")
            elif step.elicitation is not None:
                _check_question(step.elicitation, fields.fields("elicitation"), self.problems)
        self._check_references(step, index, fields)

    def locate(self, path: str) -> tuple[str, int]:
        """Return the label and line of the step with this graph path."""
        fields = self.fields_of(path)
        return fields.where, fields.line

    def fields_of(self, path: str) -> Fields:
        """Return the source of the step with this graph path."""
        return self.read.steps[int(path.rpartition("/")[2])] or self.read.fields

    def _check_chat_step(self, step: PlanStep, fields: Fields) -> None:
        if not (step.description or "").strip():
            self.problems.add(fields.line, f"{fields.where}: the description is missing", _CHAT_EXAMPLE)
        if self.schemas is not None:
            position, called = self.position(fields, "tools"), next(filter(self.schemas.__contains__, step.tools), None)
            for name in step.tools:  # the arguments are those of the first
                arguments = step.args if name == called else None
                check_call(name, arguments, self.schemas, as_reference, self.problems, position)

    def position(self, fields: Fields, key: str) -> Position:
        """Return where a step's call is written. ``key``: the key with the tool."""
        written = (fields.text(key) or "") if key == "name" else ""
        return Position(fields.where, fields.line_of(key), partial(_line_at, fields), written)

    def _check_references(self, step: PlanStep, index: int, fields: Fields) -> None:
        for path, reference in references_in(step.args or {}):
            line = _line_at(fields, path)
            try:
                target, _ = target_of(reference)
            except SettingsError as error:
                self.problems.add(line, f"{fields.where}: {error.what}", error.advice)
                continue
            problem = self._problem_of_target(target, index)
            if problem:
                hint = "A reference can read only an earlier step that has a result; steps are numbered from 0"
                self.problems.add(line, f"{fields.where}: {reference}: {problem}", hint)

    def _problem_of_target(self, target: int, index: int) -> str:
        if target >= len(self.read.plan.steps):
            return f"the plan has no step {target}"
        if target >= index:
            return "this is the step itself" if target == index else "this is a later step"
        target_step = self.read.plan.steps[target]
        return "" if target_step.has_result else f"step {target}, of type {target_step.type}, has no result"

    def check_numbers(self) -> None:
        """Note duplicate step numbers, and dependencies on steps that do not come earlier."""
        numbers = [step.number for step in self.read.plan.steps]
        seen: set[int] = set()
        for index, (step, fields) in enumerate(zip(self.read.plan.steps, self.read.steps, strict=True)):
            if fields is None:
                continue
            number = step.number
            if number is None:
                self.problems.add(fields.line, f"{fields.where}: stepNumber is missing", f"Write stepNumber: {index + 1}")
            elif number in seen:
                self.problems.add(
                    fields.line_of("stepNumber"), f"{fields.where}: two steps have the number {number}", "Renumber them"
                )
            for dependency in step.depends_on:
                if dependency not in seen:
                    why = "does not come before it" if dependency in numbers else "does not exist"
                    self.problems.add(fields.line_of("dependsOn"), f"{fields.where}: dependsOn: step {dependency} {why}")
            if number is not None:
                seen.add(number)


def _check_question(question: PlanQuestion, fields: Fields | None, problems: Problems) -> None:
    """Note problems in a question's schema, which must describe an object."""
    if fields is None:
        return
    line = fields.line_of("requestedSchema" if "requestedSchema" in fields else "schema")
    kind = question.schema.get("type", "object")
    if kind != "object":
        problems.add(line, f"{fields.where}: the answer must be an object, not {kind}", _SCHEMA)
        return
    try:
        check_schema(question.schema, f"{fields.where}: requestedSchema", _SCHEMA)
    except SettingsError as error:
        problems.add(line, error.what, error.advice)


def _line_at(fields: Fields, place: Place) -> int:
    """Return the line of the argument at this place, or of the nearest value that encloses it."""
    line, node = fields.line, cast(Node, fields.node)
    for key in ("args", *place):
        if isinstance(node, MappingNode) and key in node.entries:
            line, node = node.entries[str(key)].line, node.entries[str(key)].value
        elif isinstance(node, ListNode) and isinstance(key, int) and key < len(node.items):
            node = node.items[key]
            line = node.line
        else:
            break
    return line
