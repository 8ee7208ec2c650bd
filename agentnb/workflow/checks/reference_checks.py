"""Checks of template references before the run: steps, blocks and the steps inside them, inputs, items."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from agentnb.core.expressions import OF_WORKFLOWS
from agentnb.core.schema.data_paths import Reference
from agentnb.errors import ExpressionError, suggest_names, suggest_similar
from agentnb.workflow.checks.call_checks import warn_of_other_form
from agentnb.workflow.form.fields import OF_WORKFLOW, SourceMap, Use
from agentnb.workflow.form.problems import Hint, Problems
from agentnb.workflow.form.step_tree import Located, StepTree
from agentnb.workflow.form.workflow_spec import AgentSpec, AgentStep, ConditionStep, GotoStep, ParallelStep, Step
from agentnb.workflow.templates.templates import BLOCK_OUTPUTS, TRUTHS, has_templates, references

UNDECLARED = "W_UNDECLARED_PATH"
"""Warning code for a path in the output of an agent whose ``structured_output`` does not declare it."""
ONLY_IN_MAPS = "Only the step of a map has it"
MAX_READS = 100_000
"""Maximum number of template paths to check; those in an instruction count once for each step of its agent."""
OUTPUT_HINT = "Write the id of a step, or a template such as {{ $steps.ID.output }}"
_OF_STEPS = ("output", "runs", "agent", "tool")
_OF_BLOCKS = ("outputs", "steps", "order", "attempts")


class Read(NamedTuple):
    """A step that another step's template reads."""

    path: str
    """Path of the step for which the template is rendered."""
    wanted: str
    """Id of the step that is read."""
    where: str
    """The template, for messages."""
    line: int


@dataclass(slots=True)
class ReferenceChecks:
    """Checks of all templates."""

    tree: StepTree
    agents: Mapping[str, AgentSpec]
    places: SourceMap
    problems: Problems
    python_agents: Collection[str] = ()
    """Agents passed from Python."""
    inputs: Collection[str] | None = None
    """Available inputs, if known."""
    remaining_reads: int = MAX_READS
    reads: list[Read] = field(default_factory=list)
    """The steps that templates read."""

    def check(self) -> None:
        """Check all texts with templates."""
        for use in self.places.uses:
            if use.is_of_agent and use.owner in self.python_agents:
                continue
            if self.remaining_reads < 0:
                self.problems.add(
                    use.node.line, f"The templates read more than {MAX_READS:,} values", "Repeat less, for example with a map"
                )
                return
            self._check_use(use)

    def _check_use(self, use: Use) -> None:
        text = use.node.text
        where = f"{self._name_of(use)}: {use.key}"
        if use.owner == OF_WORKFLOW and not has_templates(text):
            self._check_id(text.strip(), use, where)
            return
        try:
            read_paths = references(text)
        except ExpressionError as error:
            self.problems.add(use.node.line_of(text.find("{{")), f"{where}: {error.what}", error.advice)
            return
        if use.key == "condition" and text.strip() and not has_templates(text) and text.strip().lower() not in TRUTHS:
            self.problems.add(
                use.node.line, f'{where}: "{text.strip()}" contains no template', 'For example: "{{ $steps.qa.output.ok }}"'
            )
        warn_of_other_form(use.node, where, self.problems, OF_WORKFLOWS)
        located = self.tree.by_path.get(use.owner)  # the text is rendered for this step, or for the steps of the agent
        seen_from = self.tree.users.get(use.owner, []) if use.is_of_agent else [located] if located else []
        self.remaining_reads -= 1 + len(read_paths) * max(1, len(seen_from))
        if self.remaining_reads < 0:
            return
        for reference in read_paths:
            line, written = use.node.line_of(reference.place), f"{where}: {{{{ {reference.written} }}}}"
            check = _Check(self, seen_from, reference, partial(self._note, line, written))
            if use.owner == OF_WORKFLOW and reference.root in ("$item", "$index"):
                self.problems.add(use.node.line, f"{where}: {reference.root} is not available here", ONLY_IN_MAPS)
            if not self.places.unread.intersection(reference.parts[:1]):
                check.run(self.inputs)
            if check.step_id:
                self.reads += [Read(viewer.step.path, check.step_id, written, line) for viewer in seen_from]

    def _note(self, line: int, where: str, problem: str, hint: Hint = "", code: str = "") -> None:
        self.problems.add(line, f"{where}: {problem}", hint, code)

    def _name_of(self, use: Use) -> str:
        if use.is_of_agent:
            return f'agent "{use.owner}"'
        return "workflow" if use.owner == OF_WORKFLOW else self.places.names.get(use.owner, use.owner)

    def _check_id(self, step_id: str, use: Use, where: str) -> None:
        """Check the id of the step whose output is the workflow's result."""
        if not step_id or step_id in self.tree.in_no_block or step_id in self.places.unread:
            return
        line, reference = use.node.line, Reference("$steps", (step_id,), step_id)
        note = partial(self._note, line, where)
        _Check(self, [], reference, lambda problem, hint="": note(problem, hint or OUTPUT_HINT)).run(None)


@dataclass(slots=True)
class _Check:
    """Check of one template path against the declared steps."""

    checks: ReferenceChecks
    seen_from: list[Located]
    reference: Reference
    note: Callable[..., None]
    """Reports a problem with a hint, or a warning if it has a code."""
    step_id: str = ""

    def run(self, inputs: Collection[str] | None) -> None:
        root = self.reference.root
        if root == "$steps":
            self._check_steps()
        elif root == "$inputs" and inputs is not None and self.reference.parts:
            part = self.reference.parts[0]
            if isinstance(part, str) and part not in inputs:
                self.note(
                    f"there is no input {part}",
                    lambda: suggest_similar(part, inputs) or f"Declare it: inputs: {{{part}: DEFAULT}}",
                )
        elif (
            root in ("$item", "$index")
            and self.seen_from
            and not any(around.step.kind == "map" for viewer in self.seen_from for around in viewer.around)
        ):
            self.note(f"{root} is not available here", ONLY_IN_MAPS)
        elif root in ("$prompt", "$index") and self.reference.parts:
            self.note(f"{root} is {'a string' if root == '$prompt' else 'a number'} and has no {self.reference.parts[0]}")

    def _check_steps(self) -> None:
        if not self.reference.parts:
            self.note("$steps does not name a step", "Write $steps.ID.output")
            return
        part = self.reference.parts[0]
        if part is None:
            return
        inner = {id(steps): steps for viewer in self.seen_from if viewer.blocks for steps in [self.checks.tree.beside(viewer)]}
        visible = ChainMap(self.checks.tree.in_no_block, *inner.values())  # plus siblings in enclosing blocks
        if not isinstance(part, str) or part not in visible:
            self._not_visible(str(part), visible)
            return
        self.step_id = part
        self._check_entry(visible[part], 1)

    def _not_visible(self, part: str, visible: Mapping[str, Step]) -> None:
        target = self.checks.tree.by_id.get(part)
        if target is None:
            self.note(f"there is no step {part}", lambda: suggest_names(part, visible))
        elif isinstance(target.step, GotoStep):
            self.note(f"{part} is a goto and has no output", lambda: suggest_names(part, visible))
        elif outer := next((block.step.id for block in target.blocks if block.step.kind == "map"), ""):
            self.note(f"{part} is in the map {outer}, which has one output for each item", f"Write $steps.{outer}.output[0]")
        else:
            path = ".outputs.".join([*(block.step.id for block in target.blocks), part])
            around = {block.step.path for viewer in self.seen_from for block in viewer.blocks}
            if not around.isdisjoint(block.step.path for block in target.blocks):
                self.note(f"{part} runs at the same time, so its output is not available here", "Read it after the block")
            else:
                self.note(f"{part} is in the parallel block {target.blocks[0].step.id}", f"Write $steps.{path}.output")

    def _check_entry(self, step: Step, done: int) -> None:
        """Check the parts of the path from index ``done`` within a step's entry."""
        path = self.reference.upto(done)
        if done == len(self.reference.parts):
            name = "outputs" if isinstance(step, ParallelStep) else "output"
            self.note(f"{path} is a step, not a value", f"Write {path}.{name}")
            return
        part = self.reference.parts[done]
        if part is None:
            return
        if isinstance(step, ParallelStep):
            self._check_block(step, part, done)
        elif part == "output":
            self._check_output(step, done + 1)
        elif part not in _OF_STEPS:
            self.note(f"{path} has no {part}", f"Write {path}.output{'' if isinstance(step, ConditionStep) else f'.{part}'}")

    def _check_block(self, step: ParallelStep, part: Any, done: int) -> None:
        children = self.checks.tree.children(step)
        if part in BLOCK_OUTPUTS:
            if done + 1 < len(self.reference.parts):
                self._check_child(step, children, done + 1)
        elif part in children and part not in _OF_BLOCKS:
            self._check_entry(children[part], done + 1)
        elif part not in _OF_BLOCKS:
            self.note(
                f"{self.reference.upto(done)} has no {part}",
                lambda: suggest_names(str(part), [*_OF_BLOCKS[:1], *_OF_BLOCKS[2:], *children]),
            )

    def _check_child(self, step: ParallelStep, children: Mapping[str, Step], at: int) -> None:
        part = self.reference.parts[at]
        path = self.reference.upto(at)
        if part is None:
            return
        if isinstance(part, int):
            count = len(children)
            if not -count <= part < count:
                self.note(f"{path} has {count} outputs, so [{part}] is out of range", "Indexes start at 0; -1 is the last item")
            elif count == len(step.steps):  # a branch not taken has no output, so indexes are unpredictable
                self._check_entry(list(children.values())[part], at + 1)
        elif part in children:
            self._check_entry(children[part], at + 1)
        else:
            self.note(f"{path} has no {part}", lambda: suggest_names(part, children))

    def _check_output(self, step: Step, done: int) -> None:
        remaining = self.reference.parts[done:]
        if not remaining:
            return
        if isinstance(step, ConditionStep):
            self.note(f"{self.reference.upto(done)} is true or false and has no {remaining[0]}")
        if not isinstance(step, AgentStep) or step.agent in self.checks.python_agents or step.agent not in self.checks.agents:
            return
        schema = self.checks.agents[step.agent].structured_output
        written = ".".join(str(part) for part in remaining if part is not None)
        if schema is None:
            hint = f"Add it to the structured_output of the agent {step.agent}"
            self.note(f"{written} is read from the output of {step.id}, which is free text", hint, UNDECLARED)
        elif lacks := _lacks(schema, remaining):
            self.note(f"the structured_output of {step.agent} declares no {lacks[0]}", suggest_names(*lacks), UNDECLARED)


def _lacks(schema: Any, parts: Iterable[Any]) -> tuple[str, list[str]] | None:
    """Return the first undeclared field of a path and the declared ones, or None if the schema is inconclusive."""
    for part in parts:
        if not isinstance(schema, dict):
            return None
        if isinstance(part, int):
            schema = schema.get("items")
            continue
        properties = schema.get("properties")
        if not isinstance(part, str) or not isinstance(properties, dict):
            return None
        if part not in properties:
            return None if {"$ref", "anyOf", "oneOf", "allOf", "patternProperties"} & set(schema) else (part, list(properties))
        schema = properties[part]
    return None
