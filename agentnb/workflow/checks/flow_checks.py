"""Checks of control flow: goto targets, unreachable steps, and conditions that wait for later steps."""

from __future__ import annotations

from functools import partial

from agentnb.errors import suggest_names
from agentnb.workflow.checks.reachability_checks import ENDLESS, check_ways
from agentnb.workflow.checks.reference_checks import Read
from agentnb.workflow.form.fields import SourceMap
from agentnb.workflow.form.problems import Hint, Problems
from agentnb.workflow.form.step_tree import Located, StepTree, walk, walk_all
from agentnb.workflow.form.workflow_spec import END, ConditionStep, GotoStep, MapStep, Step
from agentnb.workflow.graph.nodes import Graph

DEFERRED = "W_DEFERRED_CONDITION"
"""Warning code for a condition that reads a later step; that step then runs first."""
LATER = "W_LATER_STEP"
"""Warning code for a template that is rendered before the step that it reads has run."""
MAX_DEFERRED = 20_000
"""Maximum number of steps run early because conditions read them, counted once per condition."""
MAX_NAMED = 5
"""Maximum number of steps named in one message."""


class FlowChecks:
    """Checks of the order of steps. ``reads``: the steps read by each step's templates."""

    def __init__(self, graph: Graph, tree: StepTree, reads: list[Read], places: SourceMap, problems: Problems) -> None:
        self._graph = graph
        self._tree = tree
        self._reads = reads
        self._read_by: dict[str, tuple[str, ...]] = {}
        for read in reads:
            self._read_by[read.path] = (*self._read_by.get(read.path, ()), read.wanted)
        self._places = places
        self._problems = problems
        self._deferred = 0
        """Number of steps found so far that run before a condition."""

    def check(self) -> None:
        """Run all checks."""
        for located in self._tree.all:
            step = located.step
            if (target := _target(step)) is not None:
                self._check_target(located, "goto" if isinstance(step, GotoStep) else "on_error", target)
            if step.end and located.blocks:
                block = located.blocks[-1].step
                self._add(step, "end", f"a step in the {block.kind} block {block.id} cannot end the workflow")
            if isinstance(step, ConditionStep):
                self._check_condition(located, step)
            if isinstance(step, MapStep) and isinstance(step.step, ConditionStep):
                hint = "Put the condition into a parallel block: step: {type: parallel, steps: [...]}"
                self._add(step.step, "type", "the step of a map cannot be a condition", hint)
        if not self._places.unread and self._deferred <= MAX_DEFERRED:
            check_ways(self._graph, self._add_at, partial(self._add_at, code=ENDLESS))
            self._check_order()

    def _add(self, step: Step, key: str, message: str, hint: Hint = "", code: str = "") -> None:
        """Report a problem, or a warning if there is a code."""
        where = self._places.names.get(step.path, f"step {step.path}")
        self._problems.add(self._places.line(step.path, key, step.line), f"{where}: {message}", hint, code)

    def _add_at(self, path: str, message: str, hint: Hint, code: str = "") -> None:
        self._add(self._tree.by_path[path].step, "", message, hint, code)

    def _check_target(self, located: Located, key: str, target: str | int) -> None:
        step = located.step
        if located.blocks:
            block = located.blocks[-1].step
            self._add(step, key, f"a goto cannot leave the {block.kind} block {block.id}", "Put it after the block")
            return
        if target == END or self._tree.top_index(target) is not None or target in self._places.unread:
            return
        if isinstance(target, int):
            if self._places.unread:
                return
            last = len(self._tree.steps) - 1
            self._add(step, key, f"goto {target}: the top-level steps are numbered from 0 to {last}")
        elif destination := self._tree.by_id.get(target):
            inside = destination.around[-1].step
            hint = f"Go to {destination.top.step.id}, or move {target} to the top-level list"
            self._add(step, key, f'goto "{target}": that step is inside {inside.id}, not in the top-level list', hint)
        else:
            self._add(
                step, key, f'goto "{target}": there is no such step', lambda: suggest_names(target, self._known_targets())
            )

    def _known_targets(self) -> list[str]:
        return [*dict.fromkeys(step.id for step in self._tree.steps if not isinstance(step, GotoStep)), END]

    def _check_condition(self, located: Located, step: ConditionStep) -> None:
        """Report a condition that reads its own branches, and check the later siblings that it reads."""
        own = {inner.id for inner in walk(step)}
        for wanted in self._read_by.get(step.path, ()):
            if wanted in own:
                problem = f"the condition {step.id} waits for {wanted}, which is " + (
                    "itself" if wanted == step.id else "in its own branch"
                )
                self._add(step, "condition", problem, "Make it read an earlier step")
        if located.around and located.around[-1].step.kind == "parallel":
            return  # parallel siblings are not visible
        if (last := self._deferred_to(located)) > located.index:
            self._check_deferral(located, step, last)

    def _deferred_to(self, located: Located) -> int:
        """Return the index of the last sibling that must run before a condition; the condition's own index if there is none."""
        last, depth = located.index, len(located.around)
        for wanted in self._read_by.get(located.step.path, ()) if isinstance(located.step, ConditionStep) else ():
            chain = (*target.around, target) if (target := self._tree.by_id.get(wanted)) else ()
            if len(chain) > depth and chain[depth].siblings is located.siblings:
                last = max(last, chain[depth].index)
        return last

    def _check_deferral(self, located: Located, step: ConditionStep, last: int) -> None:
        self._deferred += last - located.index
        if self._deferred > MAX_DEFERRED:
            problem = f"with the condition {step.id}, conditions wait for more than {MAX_DEFERRED:,} later steps in total"
            self._add(step, "condition", problem, "Put the conditions after the steps that they read")
            return
        first = located.siblings[located.index + 1 : last + 1]
        own = {inner.id for inner in walk(step)}
        ids = [earlier.id for earlier in first if not isinstance(earlier, GotoStep)]
        names = " and ".join(ids[:MAX_NAMED]) + (f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else "")
        if leaving := next((earlier for earlier in first if not self._falls_through(earlier)), None):
            problem = f"the condition {step.id} waits for {first[-1].id}, but {leaving.id} before it jumps elsewhere"
            self._add(step, "condition", problem, f"Put the condition after {first[-1].id}")
            return
        for earlier in walk_all(first):
            if isinstance(earlier, ConditionStep) and own & set(self._read_by.get(earlier.path, ())):
                self._add(step, "condition", f"the conditions {step.id} and {earlier.id} wait for each other")
                return
        problem = f"the condition {step.id} reads a later step: {names} will run before it"
        self._add(step, "condition", problem, f"Put it after {first[-1].id}", DEFERRED)

    def _check_order(self) -> None:
        """Warn about templates that read a step that cannot have run when the template is first rendered."""
        earliest = self._gotos_back()
        for read in self._reads:
            reader, wanted = self._tree.by_path[read.path], self._tree.by_id[read.wanted]
            reader_top, wanted_top = reader.top, wanted.top
            defers = reader.step is reader_top.step and isinstance(reader_top.step, ConditionStep)
            is_itself = wanted.step is reader.step
            if (
                (not is_itself and wanted_top.index <= max(reader_top.index, self._deferred_to(reader_top)))
                or defers
                or earliest[wanted_top.index] <= reader_top.index
            ):
                continue
            if is_itself:
                self._problems.warn(
                    read.line, f"{read.where}: the step {read.wanted} reads itself", "Read an earlier step", code=LATER
                )
                continue
            message = f"{read.where}: {read.wanted} runs after {reader.step.id}, so its output does not exist yet"
            self._problems.warn(read.line, message, f"Put {wanted_top.step.id} before {reader_top.step.id}", code=LATER)

    def _gotos_back(self) -> list[int]:
        """Return, for each top-level index, the earliest index reached by a goto from it or from any later step."""
        count = len(self._tree.steps)
        earliest = [count] * (count + 1)
        for index in range(count - 1, -1, -1):
            targets = [self._tree.top_index(_target(step)) for step in walk(self._tree.steps[index])]
            earliest[index] = min([earliest[index + 1], *(target for target in targets if target is not None)])
        return earliest

    def _falls_through(self, step: Step) -> bool:
        """True if the step's next sibling may run after it."""
        if step.end or isinstance(step, GotoStep):
            return False
        if isinstance(step, ConditionStep):
            branches = (step.true_, step.false_)
            return any(all(self._falls_through(inner) for inner in branch) for branch in branches)
        return True


def _target(step: Step) -> str | int | None:
    """Return the step's goto target, including a goto on failure."""
    return step.target if isinstance(step, GotoStep) else step.on_error.goto
