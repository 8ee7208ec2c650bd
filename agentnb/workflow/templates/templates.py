"""Template values: ``{{ $steps.qa.output.score }}`` of a workflow, ``${plan.steps}`` of a task file.

``$steps.ID.output`` is the output of a step; a longer path refers to a value within the JSON in the output, whether it stands
alone, in a code fence or within prose. For a parallel block: ``$steps.par.outputs.ID.output``,
``$steps.par.outputs[-1].output`` and ``$steps.par.order``; ``steps`` is an alias of ``outputs``. For nested blocks:
``$steps.outer.outputs.inner.outputs.ID``, or ``$steps.outer.outputs.inner.ID`` for short. Other roots are ``$prompt`` and
``$inputs.NAME``, and in a map ``$item`` and ``$index``.

Variables of a task file are set when the run begins, and later by the ``post`` of each task.
"""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import msgspec

from agentnb.advice import WriteExpression
from agentnb.core.expressions import (
    OF_TASKS,
    OF_WORKFLOWS,
    Piece,
    as_text,
    evaluate,
    fill_in,
    pieces,
    references_in,
    substitute,
)
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.step_outputs import Entry, leaves
from agentnb.core.run.step_outputs import as_text as output_text
from agentnb.core.schema.data_paths import PathError, Reference, below, describe_value, item
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import ExpressionError, suggest_names
from agentnb.workflow.form.workflow_spec import Context
from agentnb.workflow.templates.json_in_text import below_output, json_values, parse_result

ROOTS = ("$steps", "$prompt", "$inputs", "$item", "$index")
"""Roots of a path: step outputs, the run's prompt and inputs, and, in a map, the item and its index."""
EXAMPLE = "$steps.ID.output"
TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
"""Texts that a condition accepts as true or false, ignoring case."""
BLOCK_OUTPUTS = ("outputs", "steps")
"""Names for a block's outputs in a path."""
NOT_TAKEN = "If its branch may be skipped, set on_error on the condition: on_error: {continue: false}"
"""Advice for a condition that reads a step without an output, given once the step's name is known to be valid."""


class NoOutput(PathError):
    """Raised for a template that reads a step without an output, because the step has not run or has failed."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Values that templates of a workflow may read: its prompt, inputs and steps."""

    spelling = OF_WORKFLOWS
    no_list = ("map {}: over", "Use a list, such as {{ $steps.ID.output.items }}")
    """Problem and advice for a value that should be a list."""

    names: ChainMap[str, Any]
    """Values by name; names visible only to some nodes come first."""
    variables: dict[str, Any] = field(default_factory=dict)
    """The subset of values set by a run."""
    steps: Mapping[str, Entry] = field(default_factory=dict)
    """Entries of steps that have an output, by id, as in the step context of a run."""
    blocks: tuple[tuple[str, Collection[str], RunFacts], ...] = ()
    """Open enclosing blocks: the path, the ids of the steps that run in sequence, and the run's facts."""
    parsed: dict[str, list[Any]] = field(default_factory=dict, repr=False, compare=False)
    """JSON values already parsed from outputs, by text."""

    @classmethod
    def of_inputs(cls, inputs: Mapping[str, Any] = MappingProxyType({}), **known: Any) -> Scope:
        """Return the scope of a workflow with these inputs. ``known``: values of additional fields."""
        return cls(ChainMap({"$prompt": "", "$inputs": inputs}), **known)

    def with_run(self, run: Run) -> Scope:
        """Return the scope with the prompt and outputs of a starting run."""
        return replace(self.with_names({"$prompt": run.prompt}), steps=run.steps)

    @property
    def prompt(self) -> str:
        """Prompt of the workflow run."""
        return str(self.names["$prompt"])

    def holds(self, condition: str) -> bool:
        """Evaluate a condition."""
        return truth(condition, self)

    def evaluate(self, expression: str) -> Any:
        """Evaluate an expression."""
        try:
            return evaluate(expression, self.value_of, _is_true)
        except ExpressionError as error:
            raise _quote_template(expression, error) from None

    def list_in(self, value: Any) -> Any:
        """Return a list, or the list in a JSON text; return any other value unchanged."""
        return next((data for data in json_values(value) if isinstance(data, list)), value) if isinstance(value, str) else value

    def items(self, over: Any, node: str) -> Sequence[Any]:
        """Return the list that the node with this id iterates over. Raises `ExpressionError`."""
        value = self.list_in(render(over, self))
        if not isinstance(value, list | tuple):
            problem, hint = self.no_list
            raise ExpressionError(f"{problem.format(node)} is not a list: {str(over)[:100]}", hint)
        return value

    def with_names(self, names: Mapping[str, Any]) -> Scope:
        """Return a child scope with additional names; the parent keeps its values."""
        return replace(self, names=self.names.new_child(dict(names)))

    def with_item(self, name: str, item: Any, index: int) -> Scope:
        """Return a child scope with the item of a map."""
        return self.with_names({name: item} if name else {"$item": item, "$index": index})

    def in_block(self, block: str, names: Collection[str], run: RunFacts) -> Scope:
        """Return a child scope with the outputs of an open block; of its sequential steps, only those with these ids."""
        return replace(self, blocks=(*self.blocks, (block, names, run)))

    def after(self, post: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Evaluate ``post`` for a result in plain data, and return the variables that it sets; fields of the result take
        precedence.

        Raises `ExpressionError`.
        """
        seen = {**(result if isinstance(result, dict) else {}), "result": result}
        are_plain = set(map(id, seen.values()))
        sets: dict[str, Any] = {}
        names = ChainMap(seen, sets, *self.names.maps)
        for written, data in post.items():
            value, name = substitute(data, names), written.removesuffix("[]")
            plain = value if id(value) in are_plain else plain_data(value, f"The value of {name} in post")
            before = names.parents[name] if name != written else None
            if not isinstance(before, list | None):
                raise ExpressionError(f"post: {written}: {name} is not a list", f"Add init: {{{name}: []}}")
            sets[name] = plain if name == written else [*(before or ()), plain]
        return sets

    @property
    def seen(self) -> Mapping[str, tuple[str, Entry]]:
        """Path and entry of each step that can be read, by id."""
        entries = {name: (name, entry) for name, entry in self.steps.items()}
        for block, names, run in self.blocks:
            entries |= {name: (f"{block}/{name}", entry) for name, entry in run.open_outputs(block).items() if name in names}
        return entries

    def value_of(self, path: Reference) -> Any:
        """Return the value at the path. Raises `PathError`."""
        root = path.root
        if root not in ROOTS:
            raise PathError(f"there is no {root}", suggest_names(root, ROOTS))
        if root == "$steps":
            if not path.parts:
                raise PathError("$steps does not name a step", f"Write {EXAMPLE}")
            entries = {name: entry for name, (_, entry) in self.seen.items()} if self.blocks else self.steps
            return self._entry(_look_up(entries, path, 0, "has no output for"), path, 1)
        if root not in self.names:
            raise PathError(f"{root} is not available here", "Only the step of a map has it")
        return below(self.names[root], path)

    def _entry(self, entry: Any, path: Reference, done: int) -> Any:
        """Resolve the parts of the path from index ``done`` within a step's entry."""
        if done == len(path.parts):
            step, name = path.upto(done), "outputs" if "outputs" in entry else "output"
            raise PathError(f"{step} is a step, not a value", f"Write {step}.{name}")
        part, outputs = path.parts[done], entry.get("outputs")
        if outputs is None:
            return self._below(entry, path, done)
        if part in BLOCK_OUTPUTS:
            return outputs if done + 1 == len(path.parts) else self._entry(_child(entry, path, done + 1), path, done + 2)
        if isinstance(part, str) and part in outputs and part not in entry:
            return self._entry(outputs[part], path, done + 1)
        return below(entry, path, done)

    def _below(self, value: Any, path: Reference, done: int) -> Any:
        """Resolve the parts of the path from index ``done`` within a step's entry; an ``output`` that is text is
        parsed as JSON.
        """
        count = len(path.parts)
        end = path.parts.index("output", done) + 1 if "output" in path.parts[done:] else count
        value = below(value, path, done, end)
        if isinstance(value, list) and end < count:  # of a map: each output may itself be JSON
            value, end = item(value, path, end), end + 1
        return below_output(value, path, end, self._values_in)

    def _values_in(self, text: str) -> list[Any]:
        if text not in self.parsed:
            self.parsed[text] = json_values(text)
        return self.parsed[text]


class TaskScope(Scope):
    """Values that templates of a task file may read: its variables."""

    __slots__ = ()
    spelling = OF_TASKS
    no_list = ("emit: forEach", "Use a list, such as ${results}")

    @classmethod
    def of_tasks(cls, values: Mapping[str, Any], declared: Iterable[str]) -> Scope:
        """Return the scope with these initial variables; other ``declared`` variables are null until set."""
        variables = dict(values)
        return cls(ChainMap(variables, dict.fromkeys(declared)), variables)

    def with_run(self, run: Run) -> Scope:
        """Return the scope with the prompt of a starting run as ``query``."""
        if run.prompt and self.variables.get("query") is None:
            self.variables["query"] = run.prompt
        return self

    def holds(self, condition: str) -> bool:
        """Evaluate a condition; 0 and empty values are false."""
        return bool(self.evaluate(condition))

    def evaluate(self, expression: str) -> Any:
        """Evaluate an expression."""
        return evaluate(expression, self.names)

    def list_in(self, value: Any) -> Any:
        """Return a list, or the list in a JSON text; null is the empty list."""
        data = parse_result(value)
        return [] if data is None else data


def _child(entry: Any, path: Reference, at: int) -> Any:
    part, outputs = path.parts[at], entry["outputs"]
    if type(part) is not int:
        return _look_up(outputs, path, at, "has no")
    order = entry.get("order", [*outputs])
    if not -len(order) <= part < len(order):
        problem = f"{path.upto(at)} has {len(order)} outputs, so [{part}] is out of range"
        raise PathError(problem, "Indexes start at 0; -1 is the last item")
    return outputs[order[part]]


def _look_up(entries: Mapping[str, Any], path: Reference, at: int, lacks: str) -> Any:
    part = path.parts[at]
    if not isinstance(part, str) or part not in entries:
        raise NoOutput(
            f"{path.upto(at)} {lacks} {part}", suggest_names(str(part), list(entries)) or "No step has an output yet"
        )
    return entries[part]


def has_templates(text: str) -> bool:
    """True if a text may contain templates."""
    return "{{" in text


def render(data: Any, scope: Scope, *, is_copied: bool = True) -> Any:
    """Replace the templates in plain data with their values; keys stay unchanged.

    A text that consists of one template becomes its value, of any type, copied unless the caller guarantees not to change it.
    In longer texts, texts are inserted verbatim and other values as JSON. Inserted texts are not searched for templates. Raises
    `ExpressionError`.
    """

    def value(expression: str) -> Any:
        result = scope.evaluate(expression)
        return _copy_data(result) if is_copied else result

    return fill_in(data, scope.spelling, value, scope.names)


def _copy_data(data: Any) -> Any:
    """Copy plain data through JSON, ten times as fast as `copy.deepcopy`."""
    if not isinstance(data, dict | list):
        return data
    try:
        return msgspec.json.decode(msgspec.json.encode(data))
    except (TypeError, ValueError, OverflowError):  # a number beyond the range of JSON
        return copy.deepcopy(data)


def render_text(text: str, scope: Scope) -> str:
    """Replace the templates in a text; the result is always a text."""
    value = render(text, scope)
    return as_text(text, value, OF_WORKFLOWS)


def truth(text: str, scope: Scope) -> bool:
    """Evaluate a condition: a boolean, or one of the texts and numbers in `TRUTHS`. Raises `ExpressionError`."""
    try:
        value = render(text.strip(), scope)
    except NoOutput as error:
        raise NoOutput(error.what, NOT_TAKEN) from error
    holds = value if isinstance(value, bool) else TRUTHS.get(str(value).strip().lower()) if type(value) in (str, int) else None
    if holds is None:
        problem = f'workflow: condition did not resolve to boolean: "{text.strip()}"'
        raise ExpressionError(
            problem, f"It is {describe_value(value)}. Compare it, for example with ==, or make the step answer true or false"
        )
    return holds


def references(text: str) -> tuple[Reference, ...]:
    """Return the paths in a text's templates; a path in brackets comes after the path that contains it.

    Raises `ExpressionError` for an invalid template, or for a name without a ``$``.
    """
    result: list[Reference] = []
    for piece in pieces(text, OF_WORKFLOWS):
        if isinstance(piece, Piece):
            try:
                paths = references_in(piece.expression)
                for path in paths:
                    if path.root not in ROOTS:
                        raise PathError(f"there is no {path.root}", suggest_names(path.root, ROOTS))
            except ExpressionError as error:
                raise _quote_template(piece.expression, error) from None
            result += [path._replace(place=piece.place + path.place) for path in paths]
    return tuple(result)


def _quote_template(expression: str, error: ExpressionError) -> ExpressionError:
    """Return a copy of the error that quotes the template with its braces."""
    written, why = " ".join(expression.split()), error.why or error.what
    advice = tuple([WriteExpression(EXAMPLE) if isinstance(hint, WriteExpression) else hint for hint in error.advice])
    quoted = type(error)(f"{{{{ {written[:200]}{'...' if len(written) > 200 else ''} }}}}: {why}", advice)
    quoted.why = why
    return quoted


def _is_true(value: Any) -> bool:
    """Return the truth value of an operand of ``&&``, ``||`` and ``!``; the text ``false`` is false, as in a condition."""
    return TRUTHS.get(value.strip().lower(), True) if isinstance(value, str) and value.strip() else bool(value)


WITHOUT_PROMPT = "Please proceed with the workflow step."
"""Prompt of a step if the workflow is run without one."""


def with_prior_outputs(prompt: str, scope: Scope, context: Context) -> str:
    """Return a step's prompt, preceded by the nonempty outputs of completed steps."""
    if context == "none":
        return prompt
    seen = scope.seen
    shown = dict(seen.values() if context == "all" else [seen[name] for name in context if name in seen])
    parts = [
        f"[{path}{_made_by(entry)}]:\n{text}"
        for path, entry in leaves(shown)
        if not _is_condition(entry) and (text := output_text(entry["output"]))
    ]
    if not parts:
        return prompt
    return "\n\n".join(["--- Prior Step Outputs ---", *parts, "--- End Prior Step Outputs ---", prompt])


def _made_by(entry: Entry) -> str:
    kind = next((kind for kind in ("agent", "tool", "workflow") if kind in entry), None)
    return "" if kind is None else f" ({kind}: {entry[kind]})"


def _is_condition(entry: Entry) -> bool:
    return isinstance(entry["output"], bool) and "attempts" not in entry["runs"][-1]
