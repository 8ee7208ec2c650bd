"""Parser of workflow steps from the nodes of a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from agentnb.advice import Plain
from agentnb.core.schema.json_schema import is_pattern as is_regular_expression
from agentnb.core.step_retry import KNOWN_WORDS, NEVER_RETRIED, Retry, is_pattern
from agentnb.errors import suggest_names, suggest_similar
from agentnb.tools.mcp.wire_names import registry_name
from agentnb.workflow.defaults import MAX_PARALLEL_ITEMS
from agentnb.workflow.form.fields import Fields, SourceMap, hint_for_unknown
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.step_ids import BRANCHES, Named
from agentnb.workflow.form.workflow_spec import (
    KINDS,
    AgentStep,
    ConditionStep,
    Context,
    GotoStep,
    HumanStep,
    MapStep,
    OnError,
    ParallelStep,
    Step,
    ToolStep,
    WorkflowStep,
    keys_of,
)
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node, ScalarNode, kind_of, shorten

MAX_RETRIES = "max_retries"
"""A clearer alternative to ``max_attempts`` that does not count the first attempt."""
_LIST_IN_BRACES = re.compile(r"\{\{\s*(\[[^{}]*\])\s*\}\}")
TYPES = f"The types are {', '.join(KINDS)}"
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "condition": ("retry", "timeout"),
    "goto": ("retry", "timeout", "on_error", "end"),
    "human": ("retry",),
}
"""Common step keys that are meaningless for a kind of step, and are therefore refused."""

REQUIRED = {"agent": "name", "condition": "condition", "tool": "name", "human": "ask", "workflow": "file"}
"""The text key that each kind of step requires."""
TEMPLATES = ("prompt", "condition", "args", "ask", "inputs")
"""Step keys whose texts may contain templates, in addition to ``over``."""


def step_keys(kind: str) -> tuple[str, ...]:
    """Return the keys of a kind of step. All kinds accept ``name``, which is usually only a note."""
    left_out = LEFT_OUT.get(kind, ())
    return ("type", "name", *(key for key in keys_of(KINDS[kind]) if key not in (*left_out, "name")))


class StepReader:
    """Parser of steps; errors are reported as problems, and invalid steps are left out."""

    def __init__(self, names: dict[str, Named], places: SourceMap, problems: Problems) -> None:
        self._names = names
        self._places = places
        self._problems = problems

    def steps(self, nodes: tuple[Node, ...], where: str, above: str = "") -> tuple[Step, ...]:
        """Parse the steps in a list labelled ``where``. ``above``: path of the enclosing block."""
        read = (self.step(node, f"{where}[{index}]", above) for index, node in enumerate(nodes))
        return tuple(step for step in read if step is not None)

    def step(self, node: Node, where: str, above: str = "") -> Step | None:
        """Parse one step."""
        if not isinstance(node, MappingNode):
            hint = "Write its type and settings, for example {type: agent, name: writer}"
            self._problems.add(node.line, f"{where} must be a mapping, not {kind_of(node)}", hint)
            return None
        fields = Fields(node, where, self._problems)
        named = self._names[where]
        common: dict[str, Any] = {"id": named.id, "path": f"{above}/{named.id}".lstrip("/"), "line": node.line}
        self._places.names[common["path"]] = where
        for key, entry in node.entries.items():
            self._places.lines[common["path"], key] = entry.value.line if isinstance(entry.value, ScalarNode) else entry.line
        if named.goto:
            self._places.lines[common["path"], "goto"] = fields.line_of("id")
            return GotoStep(**common, target=named.goto)
        kind = self._kind(fields)
        step: Step | None = None
        if kind is not None:
            self._refuse_unknown(fields, kind)
            text = self._required_text(fields, REQUIRED[kind], kind) if kind in REQUIRED else ""
            for key in [key for key in TEMPLATES if key in step_keys(kind)]:
                self._places.add_use(common["path"], key, fields.node_at(key))
            parsed_step = getattr(self, f"_{kind}")(fields, common | self._common(fields, kind), text or "")  # method by kind
            step = None if text is None else parsed_step
        if step is None:
            self._places.unread.add(named.id)
        return step

    def _kind(self, fields: Fields) -> str | None:
        kind = fields.text("type")
        if kind in KINDS:
            return kind
        if kind is None and "goto" in fields and "type" not in fields:
            return "goto"
        if kind is None and "type" not in fields:
            hint = "To end the run here, write {goto: end}" if set(fields) == {"end"} else TYPES
            fields.add("", "a step requires type", hint)
        elif kind is not None:
            fields.add("type", f'unknown type "{kind}"', (*suggest_similar(kind, KINDS), Plain(TYPES)))
        return None

    def _refuse_unknown(self, fields: Fields, kind: str) -> None:
        keys = step_keys(kind)
        for key in [key for key in fields if key not in keys]:
            kinds = [candidate for candidate in KINDS if key in step_keys(candidate)]
            hint = f"It is only for steps of type {', '.join(kinds)}" if kinds else ""
            problem = f'unknown key "{key}" for a step of type {kind}'
            fields.add(key, problem, hint or hint_for_unknown(key, fields.node.entries[key].value, keys))

    def _common(self, fields: Fields, kind: str) -> dict[str, Any]:
        left_out = LEFT_OUT.get(kind, ())
        readers: dict[str, Callable[[], Any]] = {
            "end": lambda: bool(fields.flag("end")),
            "timeout": lambda: fields.number("timeout", above=True, example="seconds, such as timeout: 300"),
            "retry": lambda: self._retry(fields.fields("retry", example="retry: {max_retries: 2}")),
            "on_error": lambda: self._on_error(fields),
        }
        return {key: read() for key, read in readers.items() if key not in left_out and key in fields}

    def _retry(self, fields: Fields | None) -> Retry:
        if fields is None:
            return Retry()
        fields.refuse_unknown((MAX_RETRIES, *keys_of(Retry)))
        if MAX_RETRIES in fields and "max_attempts" in fields:
            fields.add(
                "max_attempts",
                "max_retries and max_attempts mean the same: the attempts after the first",
                "Remove max_attempts",
            )
        settings = {
            "max_attempts": fields.whole(MAX_RETRIES if MAX_RETRIES in fields else "max_attempts"),
            "backoff": fields.choice("backoff", ("fixed", "exponential")),
            "initial_delay_seconds": fields.number("initial_delay_seconds"),
            "max_delay_seconds": fields.number("max_delay_seconds"),
            "multiplier": fields.number("multiplier", 1),
            "on": tuple(word for word in fields.texts("on") or () if self._is_known(word, fields)) or None,
        }
        return Retry(**{key: value for key, value in settings.items() if value is not None})  # type: ignore[arg-type]

    def _is_known(self, word: str, fields: Fields) -> bool:
        line, where = fields.line_of("on"), f"{fields.where}: on"
        if word in KNOWN_WORDS:
            return True
        if is_pattern(word):
            if not (is_valid := is_regular_expression(word[1:-1])):
                hint = "Write a JSON Schema pattern, such as /timed out|busy/"
                self._problems.add(line, f"{where}: {shorten(word)} is not a regular expression", hint)
            return is_valid
        if word in NEVER_RETRIED:
            self._problems.add(line, f'{where}: "{word}" is never retried', "Remove it")
        else:
            pattern = Plain(f"To match the error's text, write /{re.escape(word)}/")
            self._problems.add(line, f'{where}: unknown failure "{word}"', (*suggest_names(word, KNOWN_WORDS), pattern))
        return False

    def _on_error(self, fields: Fields) -> OnError:
        node = fields.node_at("on_error")
        if node is None or (isinstance(node, ScalarNode) and node.text == "fail"):
            return OnError()
        inner = Fields(node, f"{fields.where}: on_error", self._problems) if isinstance(node, MappingNode) else None
        if inner is None or set(inner) not in ({"continue"}, {"goto"}):
            fields.add(node.line, f"on_error must be fail, {{continue: VALUE}} or {{goto: ID}}, not {kind_of(node)}")
            return OnError()
        if "continue" in inner:
            return OnError(continue_with=inner.data("continue"), continues=True)
        return OnError(goto=_target(inner))

    def _agent(self, fields: Fields, common: dict[str, Any], name: str) -> Step:
        return AgentStep(**common, agent=name, prompt=fields.text("prompt"), context=self._context(fields))

    def _context(self, fields: Fields) -> Context:
        node = fields.node_at("context")
        if isinstance(node, ScalarNode) and node.text in ("all", "none"):
            return "all" if node.text == "all" else "none"
        if isinstance(node, ListNode):
            return fields.texts("context") or ()
        if node is not None:
            fields.add(
                node.line,
                f"context must be all, none or a list of step ids, not {kind_of(node)}",
                f"Write [{node.text}]" if isinstance(node, ScalarNode) else "",
            )
        return "all"

    def _condition(self, fields: Fields, common: dict[str, Any], condition: str) -> Step:
        true_, false_ = (self._branch(fields, key, common["path"]) for key in BRANCHES)
        on_error = common.get("on_error", OnError())
        if on_error.continues and not isinstance(on_error.continue_with, bool):
            fields.add(
                "on_error",
                "on_error: a condition can continue only with true or false",
                "Write {continue: true} or {continue: false}",
            )
        return ConditionStep(**common, condition=condition.strip(), true_=true_, false_=false_)

    def _branch(self, fields: Fields, key: str, path: str) -> tuple[Step, ...]:
        node = fields.node_at(key)
        above = path.rpartition("/")[0]
        if isinstance(node, ListNode):
            return self.steps(node.items, f"{fields.where}.{key}", above)
        if isinstance(node, MappingNode):
            step = self.step(node, f"{fields.where}.{key}[0]", above)
            return () if step is None else (step,)
        if node is not None:
            hint = f"To continue at a step, write {{goto: {node.text}}}"
            fields.add(node.line, f"{key} must be a step or a list of steps, not {kind_of(node)}", hint)
        return ()

    def _parallel(self, fields: Fields, common: dict[str, Any], _: str) -> Step | None:
        nodes = fields.items("steps")
        at_once = fields.whole("max_concurrency", 1)
        if not nodes:
            if nodes is not None or fields.node_at("steps") is None:
                fields.add("steps", "parallel step requires steps")
            return None
        steps = self.steps(nodes, f"{fields.where}.steps", common["path"])
        return ParallelStep(**common, steps=steps, max_concurrency=at_once)

    def _goto(self, fields: Fields, common: dict[str, Any], _: str) -> Step | None:
        target = _target(fields)
        if target is None:
            if "goto" not in fields or fields.node_at("goto") is None:
                hint = "Use the id of a step, its position in the list (from 0), or end"
                fields.add("", "goto step requires goto", hint)
            return None
        return GotoStep(**common, target=target)

    def _tool(self, fields: Fields, common: dict[str, Any], name: str) -> Step:
        return ToolStep(**common, tool=registry_name(name), args=fields.mapping("args") or {})

    def _human(self, fields: Fields, common: dict[str, Any], ask: str) -> Step:
        choices, confirm, form = fields.items("choices"), fields.flag("confirm"), fields.mapping("form")
        ways = [key for key in ("choices", "form", "confirm") if fields.node_at(key) is not None]
        if len(ways) > 1:
            fields.add(ways[1], f"a human step has only one of {' and '.join(ways)}")
        if choices is not None and not choices:
            fields.add("choices", "choices is empty", "List the choices")
        if form is not None:
            form = fields.schema("form", form, "For example: {type: object, properties: {name: {type: string}}}")
        chosen = tuple(fields.data("choices")) if choices else ()
        return HumanStep(**common, ask=ask, choices=chosen, form=form, confirm=bool(confirm))

    def _map(self, fields: Fields, common: dict[str, Any], _: str) -> Step | None:
        over, at_once = fields.node_at("over"), fields.whole("max_concurrency", 1)
        example = 'For example: "{{ $steps.plan.output.items }}"'
        if isinstance(over, ScalarNode) and (braced := _LIST_IN_BRACES.fullmatch(over.text.strip())):
            fields.add(over.line, "over: write a list without braces", f"Write over: {braced[1]}")
        elif over is None:
            fields.add("", "map step requires over", example)
        else:
            self._places.add_use(common["path"], "over", over)
            if not isinstance(over, ListNode) and not (isinstance(over, ScalarNode) and "{{" in over.text):
                fields.add(over.line, f"over must be a list or a template, not {kind_of(over)}", example)
        node = fields.node_at("step")
        if node is None:
            fields.add("", "map step requires step")
            return None
        step, value = self.step(node, f"{fields.where}.step", common["path"]), fields.data("over")
        value = value.strip() if isinstance(value, str) else value
        if step is None or over is None:
            return None
        return MapStep(**common, over=value, step=step, max_concurrency=at_once or MAX_PARALLEL_ITEMS)

    def _workflow(self, fields: Fields, common: dict[str, Any], file: str) -> Step:
        return WorkflowStep(**common, file=file, prompt=fields.text("prompt"), inputs=fields.mapping("inputs") or {})

    def _required_text(self, fields: Fields, key: str, kind: str) -> str | None:
        if fields.node_at(key) is None:
            fields.add("", f"{kind} step requires {key}")
            return None
        text = fields.text(key)
        if text is not None and not text.strip():
            fields.add(key, f"{key} is blank")
            return None
        return text


def _target(fields: Fields) -> str | int | None:
    node = fields.node_at("goto")
    if isinstance(node, ScalarNode) and type(node.value) is int:
        return node.value
    return fields.text("goto")
