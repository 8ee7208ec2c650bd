"""What a task file is made of, as it was declared: these classes are the schema of the form.

Texts are as written: `agentnb.workflow.tasks.variables` knows what ``${plan.steps}`` means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from agentnb.policies.permissions.rules import Rule
from agentnb.tools.mcp.server import server_tools
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.workflow.form.problems import Problem
from agentnb.workflow.form.spec import DEFAULT_LOOPS, StepSpec, written_as

DEFAULT_PLANS = 50
"""Plans that a run may make unless its file says otherwise."""
ALWAYS_KNOWN = ("query", "context", "model", "tools", "results", "transcript", "promptTemplate")
"""Variables that every task file has; null unless they are passed or set."""
_SEPARATORS = re.compile(r"[./:]")
ApprovalMode = Literal["ask", "auto", "deny"]
Mode = Literal["all", "first", "anyError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goto:
    """Where to continue after a task."""

    task: str
    """The name of a task or a block, or ``end``."""
    when: str | None = None
    """An expression; None for always."""
    line: int = field(default=0, metadata=written_as(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """How long several tasks are waited for, and what their results are together."""

    mode: Mode = "all"
    """``all``: until all have ended, and if one has failed that is a failure. ``first``: until one has ended, well or not.
    ``anyError``: like ``all``, but a failure ends it at once. Those that are still running then are cancelled."""
    on: tuple[str, ...] = ()
    """The tasks in the background that are waited for; without any, all that run."""
    merge: Literal["append", "replace"] = "append"
    """``append``: the list of the results, in the order of the tasks; ``replace``: the result of the last one to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStep(StepSpec):
    """Calls an action, sets variables, and says where to continue; each of them may be missing."""

    kind: ClassVar[str] = "task"
    action: str | None = None
    """``service:method``: an action of agentnb, or the tool ``service_method``."""
    input: Mapping[str, Any] = field(default_factory=dict)
    """Plain data; its texts may hold ``${...}``. A text that is exactly one expression keeps the type of its value."""
    when: str | None = None
    """An expression: if it is false, the task is skipped, with its ``post`` and its ``goto``."""
    post: Mapping[str, Any] = field(default_factory=dict)
    """Variables that are set when the action has ended, in this order. Their texts see the fields of its result first."""
    goto: tuple[Goto, ...] = ()
    """The first whose condition holds is taken, after ``post``."""
    handler: OnErrorStep | None = field(default=None, metadata=written_as("onError"))
    """What is done once when the task fails, before the run goes on."""
    abort: bool = False
    """Whether the run ends when the task has failed."""
    depends_on: tuple[str, ...] = field(default=(), metadata=written_as("dependsOn"))
    """Tasks, or blocks, that must have ended before it begins, as far as they have begun."""
    in_background: bool = field(default=False, metadata=written_as("async"))
    """Whether the next task begins without waiting for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitStep(TaskStep):
    """Does one task for each item of a list, eight of them at the same time."""

    kind: ClassVar[str] = "emit"
    each: Any = field(default=None, metadata=written_as("forEach"))
    """A text with an expression whose value is a list, or the list."""
    item_name: str = field(default="", metadata=written_as("as"))
    """The variable that the task reads the item from."""
    task: TaskStep
    wait: Await = field(default=Await(), metadata=written_as("await"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitStep(TaskStep):
    """Waits for tasks in the background; its result are theirs."""

    kind: ClassVar[str] = "await"
    wait: Await = field(default=Await(), metadata=written_as("await"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OnErrorStep(StepSpec):
    """The action of an ``onError``. Its texts see ``step.name``, what has failed, and ``error``, the text of the failure."""

    kind: ClassVar[str] = "on_error"
    action: str
    input: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStep(StepSpec):
    """A tool that an action calls while it works, such as for a step of a plan."""

    kind: ClassVar[str] = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    """Which tools may be called without asking the person. Names are those of tools."""

    mode: ApprovalMode = "auto"
    """``ask``: the person decides about each call; ``auto``: all may be called; ``deny``: none."""
    allow: frozenset[str] = frozenset()
    """Tools that may be called whatever the mode."""
    block: frozenset[str] = frozenset()
    """Tools that may never be called."""
    line: int = field(default=0, metadata=written_as(None))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The list that says of each tool whether it may be called."""
        named = [*(Rule("deny", name) for name in sorted(self.block)), *(Rule("allow", name) for name in sorted(self.allow))]
        return (*named, Rule("allow" if self.mode == "auto" else self.mode, "*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A whole task file."""

    tasks: tuple[TaskStep, ...] = field(default=(), metadata=written_as(None))
    """In the order in which they run, whatever the blocks around them."""
    blocks: Mapping[str, range] = field(default_factory=dict, metadata=written_as(None))
    """Blocks by name, with the places of their tasks."""
    variables: Mapping[str, Any] = field(default_factory=dict, metadata=written_as("init"))
    """What ``init`` and ``vars`` say: the values that variables begin with, unless they are passed."""
    inputs: tuple[str, ...] = field(default=(), metadata=written_as(None))
    """Names of what is passed besides."""
    max_loop_iterations: int = DEFAULT_LOOPS
    """How often a goto may run its target within one loop."""
    max_plan_iterations: int = DEFAULT_PLANS
    """How many plans its planners may make together."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``budget`` and ``max_seconds`` of the whole run."""
    approval: ApprovalRules = ApprovalRules()
    source: str = field(default="", metadata=written_as(None))
    """The file that it was read from."""
    text: str = field(default="", metadata=written_as(None))
    """The YAML."""
    warnings: tuple[Problem, ...] = field(default=(), metadata=written_as(None))
    """What is probably not meant."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that its actions stand for, each once; some may be actions of agentnb."""
        return tuple(dict.fromkeys(map(tool_name, self.actions)))

    @property
    def server_words(self) -> tuple[str, ...]:
        """Its actions that name a tool of an MCP server, each once: ``mcp:clock/now``."""
        return tuple(dict.fromkeys(action for action in self.actions if server_tools(action)))

    @property
    def actions(self) -> list[str]:
        """What its tasks call, and what is called when one fails, as it is written."""
        each = [one for task in self.tasks for one in ((task, task.task) if isinstance(task, EmitStep) else (task,))]
        return [action for one in each for action in (one.action, one.handler and one.handler.action) if action]


def tool_name(action: str) -> str:
    """Return the name of the tool that an action stands for: ``my/tool:summarise`` is ``my_tool_summarise``."""
    return _SEPARATORS.sub("_", tool_of_word(action))
