"""What a workflow is made of, as it was declared: these classes are the schema of the YAML form.

A key of the form is a field here, under the same name unless `key_of` says otherwise.
Texts are as written: `agentnb.workflow.templates.templates` knows what ``{{ $steps.qa.output }}`` means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

from agentnb.core.step_retry import ONCE, Retry
from agentnb.workflow.defaults import AT_ONCE, DEFAULT_LOOPS
from agentnb.workflow.form.problems import Problem

Context: TypeAlias = "Literal['all', 'none'] | tuple[str, ...]"
"""Which earlier outputs an agent is shown before its prompt: all, none, or those of the steps with these ids."""
END = "end"
"""The target of a goto that ends the workflow."""


def written_as(name: str | None) -> dict[str, Any]:
    """Return the metadata of a field whose key in the form is called otherwise; None if the form does not have it."""
    return {"key": name}


def key_of(item: Field[Any]) -> str | None:
    """Return the key of the form for a field of these classes; None if the form has none, as for lines and paths."""
    key: str | None = item.metadata.get("key", item.name)
    return key


def keys_of(kind: type) -> tuple[str, ...]:
    """Return the keys that the form has for one of these classes."""
    return tuple(key for item in fields(kind) if (key := key_of(item)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OnError:
    """What happens when a step has failed and is not tried again. Exactly one of its fields is given; else the run fails."""

    continue_with: Any = field(default=None, metadata=written_as("continue"))
    """The step counts as completed, with this output."""
    continues: bool = field(default=False, metadata=written_as(None))
    """Whether ``continue_with`` was given; None may be what it continues with."""
    goto: str | int | None = None
    """The id, or the place in the top-level list, of the step to continue at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """What all steps have."""

    kind: ClassVar[str] = ""
    id: str
    """Unique in the workflow; by default the name of the agent or tool, or the kind with a number."""
    path: str = field(metadata=written_as(None))
    """The ids of the blocks around the step and its own, joined with ``/``."""
    line: int = field(default=0, metadata=written_as(None))
    """Where the step is declared, from 1; 0 if it was not read from a text."""
    end: bool = False
    """Whether the workflow ends after this step."""
    timeout: float | None = None
    """Seconds that one attempt may take."""
    retry: Retry = ONCE
    on_error: OnError = OnError()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep(StepSpec):
    """An agent works on the prompt of the workflow, or on one of its own."""

    kind: ClassVar[str] = "agent"
    agent: str = field(metadata=written_as("name"))
    """``name`` in the form: one of ``agents``, or of the agents that are passed in Python."""
    prompt: str | None = None
    """Instead of the prompt of the workflow; may hold templates."""
    context: Context = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionStep(StepSpec):
    """Runs one of two branches."""

    kind: ClassVar[str] = "condition"
    condition: str
    """A template whose value is true or false."""
    true_: tuple[Step, ...] = field(default=(), metadata=written_as("true"))
    false_: tuple[Step, ...] = field(default=(), metadata=written_as("false"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelStep(StepSpec):
    """Runs its children at the same time, and ends when all have."""

    kind: ClassVar[str] = "parallel"
    steps: tuple[Step, ...]
    max_concurrency: int | None = None
    """How many run at the same time; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GotoStep(StepSpec):
    """Continues at another step of the top-level list: forward, or back, which is a loop."""

    kind: ClassVar[str] = "goto"
    target: str | int = field(metadata=written_as("goto"))
    """An id, a place in the top-level list from 0, or `END`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep(StepSpec):
    """Calls a tool."""

    kind: ClassVar[str] = "tool"
    tool: str = field(metadata=written_as("name"))
    args: Mapping[str, Any] = field(default_factory=dict)
    """Plain data; its texts may hold templates. A text that is exactly one template keeps the type of its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanStep(StepSpec):
    """Asks the person: to confirm, to choose, to fill a form, or for a text."""

    kind: ClassVar[str] = "human"
    ask: str
    """The question; may hold templates."""
    choices: tuple[Any, ...] = ()
    form: Mapping[str, Any] | None = None
    """The JSON Schema of the answer."""
    confirm: bool = False
    """Whether the answer is yes or no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStep(StepSpec):
    """Does a step for each item of a list. In the step, ``$item`` and ``$index`` (from 0) may be read."""

    kind: ClassVar[str] = "map"
    over: Any
    """A template whose value is a list, or the list."""
    step: Step
    max_concurrency: int = AT_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep(StepSpec):
    """Runs the workflow of another file as a nested run; its output is the result of that run."""

    kind: ClassVar[str] = "workflow"
    file: str
    """Relative to the file that names it."""
    prompt: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)


Step: TypeAlias = AgentStep | ConditionStep | ParallelStep | GotoStep | ToolStep | HumanStep | MapStep | WorkflowStep
KINDS: dict[str, type[StepSpec]] = {
    kind.kind: kind for kind in (AgentStep, ConditionStep, ParallelStep, GotoStep, ToolStep, HumanStep, MapStep, WorkflowStep)
}
"""The classes of steps by the word for ``type`` in the form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An agent as a workflow declares it. What it leaves out is as in `agentnb.Agent`."""

    name: str = field(metadata=written_as(None))
    line: int = field(default=0, metadata=written_as(None))
    model: str | None = None
    """``provider:model``; by default the model that the workflow is run with."""
    instruction: str = ""
    """Its system prompt; may hold templates."""
    description: str | None = None
    """What it is for, to the agents whose ``sub_agents`` it is; by default the first sentence of its instruction."""
    sub_agents: tuple[str, ...] = ()
    """The agents of the workflow that it may give a task to, each with a tool of its name."""
    tools: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Rules about calls that it may not make, whatever the run allows: ``bash(rm *)``."""
    structured_output: Mapping[str, Any] | None = None
    """The JSON Schema that its answers must fit."""
    guidance: str | None = None
    policy: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``max_rounds``, ``max_seconds`` and other limits of an agent, by their names there."""
    replies: tuple[Any, ...] = ()
    """What a scripted model replies, instead of ``model``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A whole workflow."""

    steps: tuple[Step, ...]
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    max_loop_iterations: int = DEFAULT_LOOPS
    """How often a step may run within one loop."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``budget`` and ``max_seconds`` of the whole run, shared by all branches."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Names and defaults of what is passed when it is run; read as ``$inputs.name``."""
    output: tuple[str, ...] = ()
    """What the run gives: ids of steps, or templates, of which the first whose steps have run counts. By default it is what the
    step that ran last gave."""
    source: str = field(default="", metadata=written_as(None))
    """The file that it was read from; relative files are looked up beside it."""
    text: str = field(default="", metadata=written_as(None))
    """The YAML."""
    is_typed: bool = field(default=False, metadata=written_as(None))
    """Whether the person typed the YAML in a cell: its models may have any address."""
    warnings: tuple[Problem, ...] = field(default=(), metadata=written_as(None))
    """What is doubtful in it, though it can run."""
    nested: Mapping[str, Any] = field(default_factory=dict, metadata=written_as(None), repr=False)
    """What the files that it runs declare, by the paths of their steps; empty if these were not read with it."""
    files: Mapping[str, str] = field(default_factory=dict, metadata=written_as(None), repr=False)
    """The texts of these files and of those within them, by path."""
    runs: int = field(default=0, metadata=written_as(None), repr=False)
    """Number of runs of files that its steps declare, at any depth."""
