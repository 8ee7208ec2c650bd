"""Ids of a file's steps, explicit and default, determined before the steps are parsed.

In a branch, a step's id can make it a goto: ``back_to_trans``, or the id ``trans`` of an earlier step, jumps to the step
``trans``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from agentnb.errors import MAX_PROBLEMS, suggest_similar
from agentnb.workflow.defaults import MAX_STEPS
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.workflow_spec import END
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node, ScalarNode

BACK_TO = "back_to_"
BRANCHES = ("true", "false")
ID_PATTERN = "[A-Za-z_][A-Za-z0-9_-]*"
_ID = re.compile(ID_PATTERN)
_NAMED_AFTER_NAME = ("agent", "tool")
"""Kinds of steps whose default id is the name of the agent or tool."""


class Named(NamedTuple):
    """The id and goto target of a step."""

    id: str
    goto: str = ""
    """Goto target, if the id makes the step a goto."""


class _StepNode(NamedTuple):
    where: str
    node: MappingNode
    in_branch: bool

    def repeats(self, other: _StepNode) -> bool:
        """True if the step only repeats another step of the top-level list."""
        same = all(_text(self.node, key) in ("", _text(other.node, key)) for key in ("type", "name"))
        return "." not in other.where and same and set(self.node.entries) <= {"id", "type", "name"}


def children(node: MappingNode, where: str) -> Iterator[tuple[str, Node, bool]]:
    """Yield the child step nodes, each with its label for messages and whether it is in a branch."""
    for key in (*BRANCHES, "steps"):
        entry = node.entries.get(key)
        if entry is None:
            continue
        in_branch = key in BRANCHES
        if isinstance(entry.value, ListNode):
            yield from ((f"{where}.{key}[{index}]", item, in_branch) for index, item in enumerate(entry.value.items))
        elif in_branch and isinstance(entry.value, MappingNode):
            yield f"{where}.{key}[0]", entry.value, True
    if "step" in node.entries:
        yield f"{where}.step", node.entries["step"].value, False


def named_steps(nodes: tuple[Node, ...], problems: Problems) -> dict[str, Named] | None:
    """Return the names of all steps by their labels in messages, such as ``workflow step[1].true[0]``.

    Returns None and reports a problem if there are too many steps.
    """
    places = list(islice(_places((f"workflow step[{index}]", node, False) for index, node in enumerate(nodes)), MAX_STEPS + 1))
    if len(places) > MAX_STEPS:
        problems.add(nodes[0].line, f"workflow: there are more than {MAX_STEPS:,} steps", "For many items, use a map")
        return None
    own_ids = {step_node.where: step_id for step_node in places if (step_id := _explicit_id(step_node, problems))}
    names = _Names(places, own_ids, problems)
    for step_node in places:
        names.take(step_node)
    return names.done


def _places(steps: Iterator[tuple[str, Node, bool]]) -> Iterator[_StepNode]:
    for where, node, in_branch in steps:
        if isinstance(node, MappingNode):
            yield _StepNode(where, node, in_branch)
            yield from _places(children(node, where))


def _text(node: MappingNode, key: str) -> str:
    entry = node.entries.get(key)
    return entry.value.text if entry and isinstance(entry.value, ScalarNode) and entry.value.value is not None else ""


def _explicit_id(place: _StepNode, problems: Problems) -> str:
    step_id = _text(place.node, "id")
    if step_id and (not _ID.fullmatch(step_id) or step_id == END):
        problem = f'{place.where}: "{step_id}" is not a valid id'
        hint = (
            'The word means the end of the run, as in "goto: end"'
            if step_id == END
            else "Use letters, digits, _ and -, beginning with a letter or _"
        )
        problems.add(place.node.entries["id"].value.line, problem, hint)
        return ""
    return step_id


class _Names:
    """Assigns ids in file order; a default id is never the same as an explicit one."""

    def __init__(self, places: list[_StepNode], own_ids: dict[str, str], problems: Problems) -> None:
        self.done: dict[str, Named] = {}
        self._given = own_ids
        self._problems = problems
        self._taken = set(own_ids.values())
        self._first: dict[str, _StepNode] = {}
        """First step with each id."""
        self._unlike = 0
        """Number of branch steps whose ids look like backward gotos but match no step."""
        self._gotos: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._defaults = {step_node.where: self._default(step_node) for step_node in places if step_node.where not in own_ids}
        self._known = {step_id for step_id in own_ids.values() if not step_id.startswith(BACK_TO)} | set(
            self._defaults.values()
        )

    def take(self, place: _StepNode) -> None:
        step_id = self._given.get(place.where)
        if step_id is None:
            step_id = self._defaults[place.where]
        elif place.in_branch and (target := self._goes_back_to(step_id, place)):
            is_new = step_id != target and step_id not in self._gotos
            self._gotos.add(step_id)
            self.done[place.where] = Named(step_id if is_new else self._next("goto", 1), target)
            return
        elif (first := self._first.get(step_id)) is not None:
            hint = f"Use another, such as {self._next(step_id)}"
            problem = f'{place.where}: the step in line {_line_of_id(first)} already has the id "{step_id}"'
            self._problems.add(_line_of_id(place), problem, hint)
        self._first.setdefault(step_id, place)
        self.done[place.where] = Named(step_id)

    def _goes_back_to(self, step_id: str, place: _StepNode) -> str:
        if step_id in self._first:
            return step_id if place.repeats(self._first[step_id]) else ""
        target = step_id.removeprefix(BACK_TO)
        if target == step_id or target in self._known:
            return target if target != step_id else ""
        self._unlike += 1
        if self._unlike <= MAX_PROBLEMS and (like := suggest_similar(target, self._known)):
            problem = f'{place.where}: there is no step "{target}", so {step_id} is a step, not a goto'
            self._problems.warn(place.node.line, problem, like)
        return ""

    def _default(self, place: _StepNode) -> str:
        kind = _text(place.node, "type") or ("goto" if "goto" in place.node.entries else "step")
        name = _text(place.node, "name")
        base = re.sub(r"[^A-Za-z0-9_-]", "_", name) if kind in _NAMED_AFTER_NAME else ""
        if not base:
            return self._next(re.sub(r"[^A-Za-z0-9_-]", "_", kind), 1)
        base = base if _ID.fullmatch(base) and base != END else f"_{base}"
        step_id = base if base not in self._taken else self._next(base)
        self._taken.add(step_id)
        return step_id

    def _next(self, base: str, start: int = 2) -> str:
        """Return the base name with the next unused number."""
        number = self._numbers.get(base, start)
        while f"{base}_{number}" in self._taken:
            number += 1
        self._numbers[base] = number + 1
        self._taken.add(f"{base}_{number}")
        return f"{base}_{number}"


def _line_of_id(place: _StepNode) -> int:
    entry = place.node.entries.get("id")
    return place.node.line if entry is None else entry.value.line
