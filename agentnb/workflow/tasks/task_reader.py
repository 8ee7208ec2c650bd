"""Compiler of one task to a graph node; its keys are fields of the classes in `agentnb.workflow.graph.nodes`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

from agentnb.core.step_retry import Retry
from agentnb.errors import SettingsError
from agentnb.tools.mcp.mcp_server import server_tools
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import MappingNode, ScalarNode, kind_of, plain
from agentnb.workflow.form.yaml_source import Node as Written
from agentnb.workflow.graph.nodes import HANDLER, Await, Call, Each, Jump, Node, is_constant
from agentnb.workflow.tasks.task_checks import ExpressionPlaces

TASK_KEYS = (
    "action",
    "input",
    "when",
    "post",
    "goto",
    "onError",
    "abort",
    "dependsOn",
    "async",
    "retry",
    "emit",
    "await",
)
"""Keys of a task; a mapping that has any of them is a task."""
IN_FLUXOR = {
    "transition": "Write goto: [{when: ..., task: NAME}] in the task before it",
    "template": "Write emit: {forEach: ..., as: NAME, task: {...}}",
}
"""Task keys of viant/fluxor that are written differently here, with a hint for each."""
OF_EMITS = ("forEach", "as", "task")
RETRY_TYPES = ("fixed", "exponential", "none")
OF_RETRIES = ("type", "maxRetries", "delay", "multiplier", "maxDelay")
ITEM_KEYS = ("action", "input", "when", "onError", "abort", "retry")
"""Keys of an ``emit`` task. Since it runs in many parallel copies, it cannot set variables or jump."""
_ACTION = re.compile(r"[A-Za-z_][\w./-]*(?::[\w./-]+)?")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
VARIABLE = re.compile(r"[^\W\d]\w*")


class TaskReader:
    """Parser of a file's tasks."""

    def __init__(self, places: ExpressionPlaces, problems: Problems, take_name: Callable[[str, int], None]) -> None:
        """``take_name``: registers the name of a nested task."""
        self._places = places
        self._problems = problems
        self._take_name = take_name

    def task(self, fields: Fields, name: str, path: str) -> Node:
        """Parse a task from a mapping and report its problems."""
        fields.refuse_unknown(TASK_KEYS, IN_FLUXOR)
        common = self._common(fields, name, path)
        common |= {
            "post": self._post(fields),
            "jumps": self._gotos(fields),
            "after": fields.texts("dependsOn") or (),
            "is_beside": bool(fields.flag("async")),
        }
        if "emit" in fields:
            return self._emit_task(fields, common)
        if "await" in fields:
            return self._await_task(fields, common)
        if "action" not in fields:
            hint = "Write action: service:method, or set variables with post"
            _refuse(fields, ("input",), "needs an action", hint)
        return Node(**common)

    def _common(self, fields: Fields, name: str, path: str, extra: tuple[str, ...] = ()) -> dict[str, Any]:
        return {
            "id": name,
            "path": path,
            "line": fields.line,
            "does": self._call(fields, extra),
            "when": self._expression(fields, "when", extra),
            "retry": self._retry(fields),
            "handler": self._handler(fields, path, extra),
            "abort": bool(fields.flag("abort")),
        }

    # Keys shared by several kinds of tasks

    def _action(self, fields: Fields) -> str | None:
        action = fields.text("action")
        try:
            server_tools(action)
        except SettingsError as error:
            fields.add("action", error.what, error.advice)
            return None
        if action is not None and not _ACTION.fullmatch(action):
            hint = "Write service:method, such as tides:fetch for the tool tides_fetch"
            fields.add("action", f'"{action}" is not an action', hint)
        return action

    def _call(self, fields: Fields, extra: tuple[str, ...], *, parses: bool = True) -> Call | None:
        action = self._action(fields)
        self._places.add_texts(fields.node_at("input"), f"{fields.where}: input", extra)
        arguments = fields.mapping("input") or {}
        return (
            None
            if action is None
            else Call(name=action, args=arguments, parses=parses, is_constant=is_constant(arguments, "$"))
        )

    def _expression(self, fields: Fields, key: str, extra: tuple[str, ...] = ()) -> str | None:
        text = fields.text(key)
        if text is None:
            return None
        if text.startswith("${") and text.endswith("}"):
            text = text[2:-1].strip()
        self._places.add(text, fields.line_of(key), f"{fields.where}: {key}", extra)
        return text

    def _post(self, fields: Fields) -> dict[str, Any]:
        post = fields.fields("post")
        if post is None:
            return {}
        has_result = any(key in fields for key in ("action", "emit", "await"))
        for name, entry in post.node.entries.items():
            if not VARIABLE.fullmatch(name.removesuffix("[]")) or name == "result":
                post.add(entry.line, f'"{name}" is not a valid variable name', "Use letters, digits and _")
            self._places.add_texts(entry.value, post.where, None if has_result else ("result",))
        return {name: plain(entry.value) for name, entry in post.node.entries.items()}

    def _gotos(self, fields: Fields) -> tuple[Jump, ...]:
        jumps = [self._goto(node, f"{fields.where}: goto") for node in fields.nodes("goto")]
        return tuple(jump for jump in jumps if jump is not None)

    def _goto(self, node: Written, where: str) -> Jump | None:
        if not isinstance(node, MappingNode):
            self._problems.add(node.line, f"{where} must be a mapping, not {kind_of(node)}", "Write goto: {task: NAME}")
            return None
        fields = Fields(node, where, self._problems)
        fields.refuse_unknown(("task", "when"))
        task = fields.text("task")
        if task is None:
            fields.add("", "the task is missing", "Write goto: {task: NAME}")
            return None
        when = self._expression(fields, "when")
        return Jump(to=task, when=when, reason=when or "", line=fields.line_of("task"))

    def _handler(self, fields: Fields, path: str, extra: tuple[str, ...]) -> Node | None:
        section = fields.fields("onError")
        if section is None:
            return None
        section.refuse_unknown(("action", "input"))
        call = self._call(section, (*extra, "step", "error"), parses=False)
        if call is None:
            section.add("", "the action is missing", "Write onError: {action: service:method}")
            return None
        # A sibling of the task's path, not a child: it may run after the task has ended.
        return Node(kind="on_error", id=f"{path}{HANDLER}", path=f"{path}{HANDLER}", line=section.line, does=call)

    def _retry(self, fields: Fields) -> Retry:
        retry = fields.fields("retry")
        if retry is None:
            return Retry()
        retry.refuse_unknown(OF_RETRIES)
        kind = retry.choice("type", RETRY_TYPES) or "fixed"
        times = retry.whole("maxRetries")
        delay, longest = self._duration(retry, "delay"), self._duration(retry, "maxDelay")
        multiplier = retry.number("multiplier", 1)
        if times is None and kind != "none" and retry.node_at("maxRetries") is None:
            retry.add("", "maxRetries is missing", "Write maxRetries: 2")
        return Retry(
            max_attempts=0 if kind == "none" or times is None else times,
            backoff="exponential" if kind == "exponential" else "fixed",
            initial_delay_seconds=1.0 if delay is None else delay,
            max_delay_seconds=longest,
            multiplier=2.0 if multiplier is None else multiplier,
        )

    def _duration(self, fields: Fields, key: str) -> float | None:
        node = fields.node_at(key)
        if node is None:
            return None
        if isinstance(node, ScalarNode):
            if type(node.value) in (int, float) and cast(float, node.value) >= 0:
                return float(cast(float, node.value))
            if match := _DURATION.fullmatch(node.text.strip()):
                return float(match[1]) * _SECONDS[match[2]]
        fields.add(node.line, f"{key} is not a duration: {kind_of(node)}", "Write 500ms, 1s, 5m or 1h")
        return None

    # Tasks that coordinate others

    def _emit_task(self, fields: Fields, common: dict[str, Any]) -> Node:
        _refuse(
            fields,
            ("action", "input", "retry"),
            "belongs to the task in emit, not around it",
            "Move it into emit: task",
        )
        emit, wait = fields.fields("emit"), self._await(fields)
        if emit is None:
            return Node(**common)
        emit.refuse_unknown(OF_EMITS)
        for key in OF_EMITS:
            if key not in emit:
                emit.add("", f"{key} is missing", "Write emit: {forEach: ${LIST}, as: NAME, task: {...}}")
        name = emit.text("as") or ""
        if name and not VARIABLE.fullmatch(name):
            emit.add("as", f'"{name}" is not a valid variable name')
        self._places.add_texts(emit.node_at("forEach"), f"{emit.where}: forEach")
        task = self._item_task(emit, common["path"], name)
        if task is None:
            return Node(**common)
        common |= {"is_beside": common["is_beside"] or wait is None, "timeout": self._timeout(fields.node_at("await"))}
        work = Each(over=emit.data("forEach"), item_name=name, node=task, wait=wait or Await())
        return Node(**{**common, "kind": "emit", "does": work})

    def _item_task(self, emit: Fields, path: str, name: str) -> Node | None:
        tasks = emit.fields("task")
        if tasks is None:
            return None
        if len(tasks.node.entries) != 1:
            count = len(tasks.node.entries)
            tasks.add("", f"exactly one task, keyed by its name, not {count}")
            return None
        ((key, entry),) = tasks.node.entries.items()
        self._take_name(key, entry.line)
        if not isinstance(entry.value, MappingNode):
            tasks.add(entry.line, f"{key} must be a mapping, not {kind_of(entry.value)}")
            return None
        fields = Fields(entry.value, f"task {path}/{key}", self._problems)
        others = [word for word in TASK_KEYS if word not in ITEM_KEYS]
        hint = "Move it to the task around emit, which sees all results"
        _refuse(fields, others, "does not apply in emit, whose tasks run in parallel", hint)
        fields.refuse_unknown(TASK_KEYS)
        if "action" not in fields:
            fields.add("", "the action is missing", "Write action: service:method")
        return Node(**self._common(fields, key, f"{path}/{key}", (name,)))

    def _await_task(self, fields: Fields, common: dict[str, Any]) -> Node:
        wait = self._await(fields)
        if wait is None:
            return Node(**common)
        problem = "cannot be combined with await, which belongs to emit or to background tasks"
        hint = "Use dependsOn, or a separate task that awaits"
        _refuse(fields, ("action", "input", "async", "retry"), problem, hint)
        return Node(**{**common, "kind": "await", "does": wait, "timeout": self._timeout(fields.node_at("await"))})

    def _await(self, fields: Fields) -> Await | None:
        node = fields.node_at("await")
        if node is None or isinstance(node, ScalarNode):
            return Await() if fields.flag("await") else None
        section = fields.fields("await")
        if section is None:
            return None
        section.refuse_unknown(("mode", "on", "timeout", "merge"))
        on = section.texts("on") or ()
        if on and "emit" in fields:
            section.add("on", "on is only for background tasks", "Omit it: emit tasks are awaited")
        mode = cast(Literal["all", "first", "anyError"], section.choice("mode", ("all", "first", "anyError")) or "all")
        merge = cast(Literal["append", "replace"], section.choice("merge", ("append", "replace")) or "append")
        return Await(mode=mode, on=on, merge=merge)

    def _timeout(self, node: Written | None) -> float | None:
        return self._duration(Fields(node, "await", self._problems), "timeout") if isinstance(node, MappingNode) else None


def _refuse(fields: Fields, keys: Iterable[str], problem: str, hint: str) -> None:
    for key in keys:
        if key in fields:
            fields.add(key, f"{key} {problem}", hint)
