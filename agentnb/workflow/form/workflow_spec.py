"""Data types of a workflow as declared; these classes are also the schema of its YAML.

A field is a key of the file, with the same name unless `key_of` says otherwise. Texts are as written:
`agentnb.workflow.templates.templates` evaluates ``{{ $steps.qa.output }}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

from agentnb.core.step_retry import ONCE, Retry
from agentnb.workflow.defaults import DEFAULT_LOOPS, MAX_PARALLEL_ITEMS
from agentnb.workflow.form.problems import Problem

Context: TypeAlias = "Literal['all', 'none'] | tuple[str, ...]"
"""Earlier outputs shown to an agent before its prompt: all, none, or those of the steps with these ids."""
END = "end"
"""Goto target that ends the workflow."""


def written_as(name: str | None) -> dict[str, Any]:
    """Return field metadata with the key's name in the file, or None if the file has no such key."""
    return {"key": name}


def key_of(item: Field[Any]) -> str | None:
    """Return the key of a field in the file, or None for fields without a key, such as lines and paths."""
    key: str | None = item.metadata.get("key", item.name)
    return key


def keys_of(kind: type) -> tuple[str, ...]:
    """Return the keys of one of these classes in the file."""
    return tuple(key for item in fields(kind) if (key := key_of(item)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OnError:
    """Handling of a step's final failure. At most one field is set; if none is, the run fails."""

    continue_with: Any = field(default=None, metadata=written_as("continue"))
    """The step counts as completed, with this output."""
    continues: bool = field(default=False, metadata=written_as(None))
    """True if ``continue_with`` was set, which may be None."""
    goto: str | int | None = None
    """Id, or index in the top-level list, of the step to continue at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """Fields of every step."""

    kind: ClassVar[str] = ""
    id: str
    """Unique in the workflow; by default the name of the agent or tool, or the kind with a number."""
    path: str = field(metadata=written_as(None))
    """Ids of the enclosing blocks and its own, joined with ``/``."""
    line: int = field(default=0, metadata=written_as(None))
    """Line of the declaration, from 1; 0 if it was not read from a text."""
    end: bool = False
    """True if the workflow ends after this step."""
    timeout: float | None = None
    """Maximum seconds of one attempt."""
    retry: Retry = ONCE
    on_error: OnError = OnError()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep(StepSpec):
    """Runs an agent with the prompt of the workflow, or with its own."""

    kind: ClassVar[str] = "agent"
    agent: str = field(metadata=written_as("name"))
    """``name`` in the file: one of ``agents``, or of the agents passed from Python."""
    prompt: str | None = None
    """Replaces the prompt of the workflow; may contain templates."""
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
    """Runs its children in parallel until all have ended."""

    kind: ClassVar[str] = "parallel"
    steps: tuple[Step, ...]
    max_concurrency: int | None = None
    """Maximum children at the same time, or None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GotoStep(StepSpec):
    """Continues at another step of the top-level list: forward, or backward for a loop."""

    kind: ClassVar[str] = "goto"
    target: str | int = field(metadata=written_as("goto"))
    """An id, an index in the top-level list from 0, or `END`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep(StepSpec):
    """Calls a tool."""

    kind: ClassVar[str] = "tool"
    tool: str = field(metadata=written_as("name"))
    args: Mapping[str, Any] = field(default_factory=dict)
    """Plain data whose texts may contain templates. A text that is exactly one template keeps the type of its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanStep(StepSpec):
    """Asks the person: to confirm, to choose, to fill in a form, or for a text."""

    kind: ClassVar[str] = "human"
    ask: str
    """The question; may contain templates."""
    choices: tuple[Any, ...] = ()
    form: Mapping[str, Any] | None = None
    """JSON Schema of the answer."""
    confirm: bool = False
    """True for a yes-or-no question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStep(StepSpec):
    """Runs a step for each item of a list. The step can read ``$item`` and ``$index`` (from 0)."""

    kind: ClassVar[str] = "map"
    over: Any
    """A template whose value is a list, or the list itself."""
    step: Step
    max_concurrency: int = MAX_PARALLEL_ITEMS


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
"""Classes of steps by their ``type`` in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An agent declared in a workflow. Missing settings have the defaults of `agentnb.Agent`."""

    name: str = field(metadata=written_as(None))
    line: int = field(default=0, metadata=written_as(None))
    model: str | None = None
    """``provider:model``; by default the model of the run."""
    instruction: str = ""
    """System prompt; may contain templates."""
    description: str | None = None
    """Purpose, shown to agents with it in ``sub_agents``; by default the first sentence of its instruction."""
    sub_agents: tuple[str, ...] = ()
    """Agents of the workflow that it may delegate to, each with a tool of its name."""
    tools: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Rules for calls that it may never make, even if the run allows them: ``bash(rm *)``."""
    structured_output: Mapping[str, Any] | None = None
    """JSON Schema that its answers must satisfy."""
    guidance: str | None = None
    policy: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``max_rounds``, ``max_seconds`` and other limits of an agent, by name."""
    replies: tuple[Any, ...] = ()
    """Replies of a scripted model, in place of ``model``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A complete workflow."""

    steps: tuple[Step, ...]
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    max_loop_iterations: int = DEFAULT_LOOPS
    """Maximum runs of a step within one loop."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``budget`` and ``max_seconds`` of the whole run, shared by all branches."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Names and defaults of the run's inputs, read as ``$inputs.name``."""
    output: tuple[str, ...] = ()
    """Result of the run: step ids or templates; the first one whose steps have run is used. By default the output of the last
    step.
    """
    source: str = field(default="", metadata=written_as(None))
    """Path of its file; relative paths are resolved from its folder."""
    text: str = field(default="", metadata=written_as(None))
    """Its YAML text."""
    is_typed: bool = field(default=False, metadata=written_as(None))
    """True if the person typed the YAML in a cell: its models may have any address."""
    warnings: tuple[Problem, ...] = field(default=(), metadata=written_as(None))
    """Probable mistakes that do not prevent a run."""
    nested: Mapping[str, Any] = field(default_factory=dict, metadata=written_as(None), repr=False)
    """Parsed files that it runs, by step path; empty if they were not read with it."""
    files: Mapping[str, str] = field(default_factory=dict, metadata=written_as(None), repr=False)
    """Texts of these files and their nested files, by path."""
    runs: int = field(default=0, metadata=written_as(None), repr=False)
    """Number of nested file runs that its steps declare, at any depth."""
