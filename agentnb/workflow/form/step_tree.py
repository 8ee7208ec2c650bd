"""The steps of a workflow with their enclosing steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from agentnb.workflow.form.workflow_spec import AgentStep, ConditionStep, GotoStep, MapStep, ParallelStep, Step, ToolStep


@dataclass(frozen=True, slots=True)
class Located:
    """A step and its position."""

    step: Step
    siblings: tuple[Step, ...]
    """The list that contains it."""
    index: int
    """Its index in that list."""
    around: tuple[Located, ...]
    """The enclosing steps, outermost first."""

    @property
    def top(self) -> Located:
        """The step itself, or its ancestor at the top level."""
        return self.around[0] if self.around else self

    @property
    def blocks(self) -> tuple[Located, ...]:
        """The enclosing parallel blocks and maps, outermost first."""
        return tuple(outer for outer in self.around if isinstance(outer.step, ParallelStep | MapStep))


def lists_in(step: Step) -> tuple[tuple[Step, ...], ...]:
    """Return the lists of child steps: branches or children."""
    if isinstance(step, ConditionStep):
        return (step.true_, step.false_)
    if isinstance(step, ParallelStep):
        return (step.steps,)
    return ((step.step,),) if isinstance(step, MapStep) else ()


def walk(step: Step) -> Iterator[Step]:
    """Yield the step and all nested steps, in file order."""
    yield step
    for steps in lists_in(step):
        yield from walk_all(steps)


def walk_all(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps of a list and all nested steps, in file order."""
    for step in steps:
        yield from walk(step)


def with_branches(step: Step) -> Iterator[Step]:
    """Yield the step and, for a condition, the steps of its branches; branches do not extend the path."""
    yield step
    if isinstance(step, ConditionStep):
        for branch in lists_in(step):
            for inner in branch:
                yield from with_branches(inner)


class StepTree:
    """All steps of a workflow, in file order."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.all: list[Located] = list(_locate(steps, ()))
        self.by_path: dict[str, Located] = {located.step.path: located for located in self.all}
        self._children: dict[str, dict[str, Step]] = {}
        self._beside: dict[tuple[str, ...], dict[str, Step]] = {}
        self.by_id: dict[str, Located] = {}
        for located in self.all:
            self.by_id.setdefault(located.step.id, located)

    @cached_property
    def users(self) -> dict[str, list[Located]]:
        """Steps grouped by the agent that does their work."""
        users: dict[str, list[Located]] = {}
        for located in self.all:
            if isinstance(located.step, AgentStep):
                users.setdefault(located.step.agent, []).append(located)
        return users

    def children(self, block: ParallelStep) -> dict[str, Step]:
        """Return the steps with an output in a block, by id: its children, and the steps in the branches of its conditions."""
        if block.path not in self._children:
            self._children[block.path] = {inner.id: inner for step in block.steps for inner in with_branches(step)}
        return self._children[block.path]

    def top_index(self, target: str | int | None) -> int | None:
        """Return the top-level index of a goto target, or None if the target is unknown."""
        if isinstance(target, int):
            return target if 0 <= target < len(self.steps) else None
        return self._top.get(target) if target is not None else None

    @cached_property
    def _top(self) -> dict[str, int]:
        return {step.id: index for index, step in reversed([*enumerate(self.steps)])}

    @cached_property
    def in_no_block(self) -> dict[str, Step]:
        """Steps with an output that are not inside parallel blocks or maps, by id."""
        return {
            located.step.id: located.step
            for located in reversed(self.all)
            if not located.blocks and not isinstance(located.step, GotoStep)
        }

    def beside(self, viewer: Located) -> dict[str, Step]:
        """Return the steps with an output that are in the same child of each enclosing block as the viewer, by id."""
        chain = (*viewer.around, viewer)
        children = [after.step for block, after in pairwise(chain) if isinstance(block.step, ParallelStep | MapStep)]
        key = tuple(child.path for child in children)
        if key not in self._beside:
            inner = (step for child in children for step in with_branches(child))
            self._beside[key] = {step.id: step for step in inner if not isinstance(step, GotoStep)}
        return self._beside[key]


def _locate(steps: tuple[Step, ...], around: tuple[Located, ...]) -> Iterator[Located]:
    for index, step in enumerate(steps):
        located = Located(step, steps, index, around)
        yield located
        for inner in lists_in(step):
            yield from _locate(inner, (*around, located))


def names_of_tool_steps(steps: Iterable[Step]) -> list[str]:
    """Return the names of the tools that these steps call."""
    return [step.tool for step in steps if isinstance(step, ToolStep)]
