"""Parser and checks of a task file; all problems are reported at once, before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, TypeAlias, cast

from agentnb.workflow.checks.reachability_checks import warn_of_ways
from agentnb.workflow.defaults import DEFAULT_LOOPS, DEFAULT_PLANS
from agentnb.workflow.form.agent_reader import OF_WORKFLOWS, read_limits
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import MappingNode, ScalarNode, kind_of, plain, read_mapping, read_yaml
from agentnb.workflow.graph.nodes import Node
from agentnb.workflow.tasks.task_checks import ExpressionPlaces, link_tasks
from agentnb.workflow.tasks.task_reader import IN_FLUXOR, TASK_KEYS, VARIABLE, TaskReader
from agentnb.workflow.tasks.task_spec import ApprovalMode, ApprovalRules, TaskFile

STAGES = ("stage", "pipeline", "tasks")
OF_FILES = ("name", "description", "init", "vars", *STAGES, "max_loop_iterations", "max_plan_iterations", "limits", "approval")
"""Top-level keys of a file."""
MODES = ("ask", "auto", "deny")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_OF_OTHERS = ("workflow", "agents", "variants")
_TOP_KEY = re.compile(rf"""^(?P<quote>["']?)(?P<key>{"|".join((*STAGES, *_OF_OTHERS))})(?P=quote)\s*:""", re.MULTILINE)
CheckActions: TypeAlias = Callable[[TaskFile, Problems], None]
"""Reports unknown actions of a task file."""
_EXAMPLE = "For example: stage: {main: {fetch: {action: tides:fetch}}}"


def is_task_file(text: str) -> bool:
    """True if a YAML text is a task file, that is, has one of `STAGES` and no key of another format at its top level."""
    keys = top_keys(text)
    return keys.isdisjoint(_OF_OTHERS) and not keys.isdisjoint(STAGES)


def top_keys(text: str) -> frozenset[str]:
    """Return the top-level keys of a YAML text that are in `STAGES` or that mark workflows and experiments."""
    if text.lstrip().startswith("{") and isinstance(node := read_yaml(text, Problems()), MappingNode):
        return frozenset(node.entries) & {*_OF_OTHERS, *STAGES}
    return frozenset(match["key"] for match in _TOP_KEY.finditer(text))


def read_tasks(
    text: str, problems: Problems, inputs: Collection[str] = (), check_actions: CheckActions | None = None
) -> TaskFile:
    """Parse a task file as far as possible and add its problems to ``problems``.

    ``inputs``: names of inputs in addition to the declared variables; ``check_actions``: reports unknown actions; by
    default they are not checked.
    """
    empty = TaskFile(source=problems.source, text=text)
    node = read_mapping(text, problems, "A task file", _EXAMPLE)
    if node is None:
        return empty
    file = Fields(node, "task file", problems)
    file.refuse_unknown(OF_FILES, {"output": "To set the text of the run, set the variable answer in a post"})
    key, *others = [word for word in STAGES if word in file] or ["stage"]
    for duplicate in others:
        problems.add(file.line_of(duplicate), f"task file: {key} and {duplicate} mean the same", "Keep one of them")
    places = ExpressionPlaces(problems)
    stage = _Stage(places, problems)
    tasks = stage.read(file, key)
    declared = {**_variables(file, "init", places), **_variables(file, "vars", places), **stage.variables}
    spec = replace(
        empty,
        tasks=tuple(link_tasks(tasks, stage.blocks, problems)),
        name=file.text("name") or "",
        description=file.text("description") or "",
        variables=declared,
        inputs=tuple(inputs),
        max_loop_iterations=file.whole("max_loop_iterations", 1) or DEFAULT_LOOPS,
        max_plan_iterations=file.whole("max_plan_iterations", 1) or DEFAULT_PLANS,
        limits=read_limits(file.fields("limits", "limits of the task file"), OF_WORKFLOWS),
        approval=_approval(file),
    )
    places.check({*declared, *inputs}, tasks)
    if not problems.found:
        lines = {task.path: task.line for task in spec.tasks}
        warn_of_ways(spec.graph, problems, lambda path: (f"task {path}", lines[path]))
    if check_actions is not None:
        check_actions(spec, problems)
    return spec


class _Stage:
    """The blocks of a file and their tasks, in sequence."""

    def __init__(self, places: ExpressionPlaces, problems: Problems) -> None:
        self.blocks: dict[str, range] = {}
        self.variables: dict[str, Any] = {}
        """Variables declared between the tasks of a block."""
        self._tasks: list[Node] = []
        self._lines: dict[str, int] = {}
        """Line on which each task or block name is first used."""
        self._places = places
        self._reader = TaskReader(places, problems, self._take_name)
        self._problems = problems

    def read(self, file: Fields, key: str) -> tuple[Node, ...]:
        stage = file.fields(key, key)
        if stage is not None:
            self._read(stage, "")
        if not self._tasks and not self._problems.found:
            self._problems.add(file.line_of(key), f"{key}: there are no tasks", _EXAMPLE)
        return tuple(self._tasks)

    def _read(self, block: Fields, path: str) -> None:
        self.variables.update(_variables(block, "vars", self._places))
        for name, entry in block.node.entries.items():
            where = f"{path}/{name}" if path else name
            if name == "vars":
                continue
            if not isinstance(entry.value, MappingNode):
                problem = f"{where}: a block contains tasks and blocks, which must be mappings, not {kind_of(entry.value)}"
                hint = IN_FLUXOR.get(name) or IN_FLUXOR.get(path.rpartition("/")[2], _EXAMPLE)
                self._problems.add(entry.line, problem, hint)
                continue
            fields = Fields(entry.value, f"task {where}", self._problems)
            self._take_name(name, entry.line)
            if any(key in TASK_KEYS for key in fields):
                self._tasks.append(self._reader.task(fields, name, where))
                continue
            first = len(self._tasks)
            self._read(fields, where)
            self.blocks[name] = range(first, len(self._tasks))
            if first == len(self._tasks) and not fields.node.entries:
                hint = f"A task has one of {', '.join(TASK_KEYS)}"
                self._problems.add(entry.line, f"{name}: this is neither a task nor a block with tasks", hint)

    def _take_name(self, name: str, line: int) -> None:
        if not NAME.fullmatch(name):
            self._problems.add(line, f'"{name}" is not a valid name for a task or block', "Use letters, digits, - and _")
        elif name in self._lines:
            problem = f'The name "{name}" is used twice, first in line {self._lines[name]}'
            self._problems.add(line, problem, "Give each task and block of a file a unique name")
        self._lines.setdefault(name, line)


def _approval(file: Fields) -> ApprovalRules:
    node, line = file.node_at("approval"), file.line_of("approval")
    if isinstance(node, ScalarNode):
        return ApprovalRules(mode=cast(ApprovalMode, file.choice("approval", MODES) or "auto"), line=line)
    section = file.fields("approval", "approval")
    if section is None:
        return ApprovalRules()
    section.refuse_unknown(("mode", "allow", "block"))
    named = {key: frozenset(section.texts(key) or ()) for key in ("allow", "block")}
    return ApprovalRules(mode=cast(ApprovalMode, section.choice("mode", MODES) or "auto"), **named, line=line)


def _variables(fields: Fields, key: str, places: ExpressionPlaces) -> dict[str, Any]:
    section = fields.fields(key, key)
    places.add_texts(None if section is None else section.node, key)
    entries = section.node.entries if section is not None else {}
    for name, entry in entries.items():
        if not VARIABLE.fullmatch(name):
            fields.problems.add(entry.line, f'{key}: "{name}" is not a valid variable name', "Use letters, digits and _")
    return {name: plain(entry.value) for name, entry in entries.items()}
