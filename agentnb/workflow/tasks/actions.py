"""What a task calls: an action of agentnb, by its name in a table, or a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agentnb.advice import Advised, GiveTools
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.errors import nearest
from agentnb.tools.builtin.named import near_tools
from agentnb.tools.tool import Tool
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.graph.nodes import HANDLER, Graph
from agentnb.workflow.tasks.spec import TaskFile, tool_name


class ToolAnswer(NamedTuple):
    """What a tool gave that an action called."""

    result: Any
    """Plain data, else the text that a model would read; None if the tool failed."""
    error: str | None = None


class ModelAnswer(NamedTuple):
    """What a model replied to an action."""

    id: str
    """Of the reply; the same again after a kill."""
    text: str
    calls: tuple[ToolCall, ...] = ()
    stop_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCall:
    """One attempt at the action of a task: its input, and what the action may do.

    After a kill, an action that had not ended is called again. What it called through this is not done a second time if it had
    ended: give each a key that is the same again.
    """

    input: Mapping[str, Any]
    """With its ``${...}`` replaced."""
    path: str
    """That of the task."""
    tools: Toolbox
    settings: Mapping[str, Any]
    """What the run was given for its models: ``model`` and ``replies``."""
    call_tool: Callable[..., Awaitable[ToolAnswer]]
    """``await call.call_tool(key, name, arguments, retries=0, block=None)``: call a tool as a step of its own, tried again on
    an error. With a ``block`` the call is logged as one that must not run. A call that a kill cut off is an error, and not
    made again, unless its tool is ``repeatable``."""
    run: Callable[..., Awaitable[Run]]
    """``await call.run(key, what, prompt)``: run an agent as a nested run, and return that, however it ended."""
    ask: Callable[..., Awaitable[dict[str, Any]]]
    """``await call.ask(key, message, schema=None, call=None)``: ask the person, also for a call, which they see. Returns
    ``{"action": "accept", "content": ANSWER}``, or ``decline`` or ``cancel`` without content. Where nobody is here to answer,
    the run is suspended, if it can be; else it raises."""
    ask_model: Callable[..., Awaitable[ModelAnswer]]
    """``await call.ask_model(key, request, operation, model=None)``: call a model beside all conversations, as a step of its
    own. ``model``: its name, by default the model of the run."""
    propose: Callable[[str, dict[str, Any]], None]
    """``call.propose(plan_id, plan)``: log that a plan was made, as plain data, unless the log has it."""
    check_plans: Callable[[str], None]
    """``call.check_plans(key)``: raise if the run may make no further plan, unless a process that died began this call of a
    model."""
    abort: Callable[[str], None]
    """``call.abort(reason)``: end the run with this error when the action has returned what it has; ``post`` still sees it."""
    walk: Callable[[Graph, Any], Awaitable[None]]
    """``await call.walk(graph, hands)``: walk a graph of steps of the action; ``await hands.do(execution)`` does each."""
    skip: Callable[[str, str], None]
    """``call.skip(key, reason)``: log that a step of the action is not run, and why."""
    work_dir: Path
    """The folder of the run."""
    failed: Callable[[str, str], Awaitable[bool]]
    """``await call.failed(name, error)``: do what ``onError`` says, once for each execution of the task. If it returns True the
    action stops and returns what it has, which ``post`` still sees: then the run ends."""


Action: TypeAlias = Callable[[ActionCall], Awaitable[Any]]
"""Does the work of a task and returns its result as plain data."""


@dataclass(frozen=True, slots=True)
class ActionTable:
    """The actions and tools of one run."""

    tools: Toolbox
    actions: Mapping[str, Action] = field(default_factory=dict)
    """By name, such as ``llm/core:plan``."""

    def action(self, name: str) -> Action | None:
        """Return the action of this name; None if it is a tool."""
        return self.actions.get(name)

    def tool(self, name: str) -> Tool | None:
        """Return the tool of this name, as a task file or a plan may write it; None if there is none."""
        return self.tools.get(name) or self.tools.get(tool_name(name))

    def may_have(self, name: str) -> bool:
        """Return whether it has this action, this tool, or an MCP server that may have this tool once a run is connected."""
        return name in self.actions or self.tools.may_have(name) or self.tools.may_have(tool_name(name))

    def label(self, name: str) -> str:
        """Return what a log calls it: the action, or the tool by its own name."""
        return name if self.action(name) is not None else tool_name(name)

    def check(self, file: TaskFile) -> None:
        """Raise `WorkflowProblems` with all actions of a file that are neither in the table nor a tool."""
        problems = Problems(file.source)
        self.note(file, problems)
        problems.check()

    def note(self, file: TaskFile, problems: Problems) -> None:
        """Note in ``problems`` all actions of a file that are neither in the table nor a tool."""
        table = replace(self, tools=self.tools.with_words(file.server_words))
        for node, call in file.graph.calls():
            if not table.may_have(call.name):
                task = node.path.removesuffix(HANDLER)
                what = f"task {task}: there is no action {call.name}, and no tool {tool_name(call.name)}"
                problems.add(node.line, what, self._advice(call.name))
        for name in sorted(file.approval.allow | file.approval.block):
            if not table.tools.may_have(name):
                problems.add(file.approval.line, f"approval: there is no tool {name}", self._advice(name))

    def _advice(self, name: str) -> Advised:
        own = [one.spec.name for one in self.tools]
        return nearest(name, self.actions) or near_tools(name, own, GiveTools((tool_name(name),), lead="Give it as a tool"))
