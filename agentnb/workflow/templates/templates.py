"""The values that texts read: ``{{ $steps.qa.output.score }}`` of a workflow, ``${plan.steps}`` of a task file.

``$steps.ID.output`` is the output of a step, and what follows it is read in the JSON that the output holds, be it alone, in a
code fence or within prose. Of a parallel block: ``$steps.par.outputs.ID.output``, ``$steps.par.outputs[-1].output`` and
``$steps.par.order``; ``steps`` is another name for ``outputs``. Of a block in a block:
``$steps.outer.outputs.inner.outputs.ID``, or short ``$steps.outer.outputs.inner.ID``. Besides there are ``$prompt`` and
``$inputs.NAME``, and in a map ``$item`` and ``$index``.

The variables of a task file are set when the run begins, and one after the other by the ``post`` of its tasks.
"""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from agentnb.advice import WriteExpression
from agentnb.core.expressions import (
    OF_TASKS,
    OF_WORKFLOWS,
    Piece,
    Spelling,
    as_text,
    evaluate,
    filled,
    pieces,
    references_in,
    substituted,
)
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.step_outputs import Entry, leaves
from agentnb.core.run.step_outputs import as_text as output_text
from agentnb.core.schema.data_paths import PathError, Reference, below, item, shown
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import ExpressionError, near
from agentnb.workflow.form.spec import Context
from agentnb.workflow.templates.json_in_text import below_output, json_values, parsed

ROOTS = ("$steps", "$prompt", "$inputs", "$item", "$index")
"""What a path may begin with: outputs of steps, the prompt and the inputs of the run, and in a map the item and its place."""
EXAMPLE = "$steps.ID.output"
TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
"""The texts that a condition takes as true or false, in whatever case."""
BLOCK_OUTPUTS = ("outputs", "steps")
"""What the outputs of a block are called."""
NOT_TAKEN = "If it is in a branch that may not be taken, give the condition on_error: {continue: false}"
"""What to do if a condition reads a step that has given nothing: its name was checked before."""


class NoOutput(PathError):
    """A template reads a step that has given nothing: it has not run, or it failed."""


class Form(NamedTuple):
    """The differences between kinds of files in what their texts read."""

    spelling: Spelling
    is_true: Callable[[Any], bool]
    """Whether an operand of ``&&``, ``||`` and ``!`` is true."""
    list_in: Callable[[Any], Any]
    """Returns the list that a value is, or holds as JSON in a text; anything else as it is."""
    no_list: tuple[str, str]
    """The problem with what is no list, and what to write."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What texts may read: the variables of a task file, or the prompt, inputs and steps of a workflow."""

    names: ChainMap[str, Any]
    """The values by name, those that only some nodes know in front."""
    form: Form
    variables: dict[str, Any] = field(default_factory=dict)
    """Those among them that a run sets."""
    steps: Mapping[str, Entry] = field(default_factory=dict)
    """The entries of the steps that have an output, by id, as in the step context of a run."""
    blocks: tuple[tuple[str, Collection[str], RunFacts], ...] = ()
    """The open blocks around, by path, with the ids of the steps in them that follow one another."""
    parsed: dict[str, list[Any]] = field(default_factory=dict, repr=False, compare=False)
    """The JSON in outputs that were read before."""

    @classmethod
    def of_inputs(cls, inputs: Mapping[str, Any] = MappingProxyType({}), **known: Any) -> Scope:
        """Return what a workflow with these inputs reads; ``known``: more fields."""
        return cls(ChainMap({"$prompt": "", "$inputs": inputs}), WORKFLOW, **known)

    @classmethod
    def of_tasks(cls, values: Mapping[str, Any], declared: Iterable[str]) -> Scope:
        """Return what a task file reads that begins with these variables; others that are ``declared`` are null until set."""
        variables = dict(values)
        return cls(ChainMap(variables, dict.fromkeys(declared)), TASKS, variables)

    def begun(self, run: Run) -> Scope:
        """Return it with the prompt and the outputs of a run that begins; the prompt of a task file is its ``query``."""
        if self.form is WORKFLOW:
            return replace(self.with_names({"$prompt": run.prompt}), steps=run.steps)
        if run.prompt and self.variables.get("query") is None:
            self.variables["query"] = run.prompt
        return self

    @property
    def prompt(self) -> str:
        """The prompt of the run of a workflow."""
        return str(self.names["$prompt"])

    def holds(self, condition: str) -> bool:
        """Return whether a condition holds: in a workflow as `truth` says; in a task file what is neither 0 nor empty."""
        return truth(condition, self) if self.form is WORKFLOW else bool(_value(condition, self))

    def items(self, over: Any, node: str) -> Sequence[Any]:
        """Return the list that the node with this id goes over. Raises `ExpressionError`."""
        value = self.form.list_in(rendered(over, self))
        if not isinstance(value, list | tuple):
            what, hint = self.form.no_list
            raise ExpressionError(f"{what.format(node)} is not a list: {str(over)[:100]}", hint)
        return value

    def with_names(self, names: Mapping[str, Any]) -> Scope:
        """Return it with some more names, whose values change no others."""
        return replace(self, names=self.names.new_child(dict(names)))

    def with_item(self, name: str, item: Any, index: int) -> Scope:
        """Return it with the item that a node for one of a list works on."""
        return self.with_names({name: item} if name else {"$item": item, "$index": index})

    def in_block(self, block: str, names: Collection[str], run: RunFacts) -> Scope:
        """Return it with the outputs of steps of an open block: of those with these ids, which follow one another."""
        return replace(self, blocks=(*self.blocks, (block, names, run)))

    def after(self, post: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Return what a ``post`` sets after this result, which is plain data: each sees the fields of the result first.

        Raises `ExpressionError`.
        """
        seen = {**(result if isinstance(result, dict) else {}), "result": result}
        are_plain = set(map(id, seen.values()))
        sets: dict[str, Any] = {}
        names = ChainMap(seen, sets, *self.names.maps)
        for written, data in post.items():
            value, name = substituted(data, names), written.removesuffix("[]")
            plain = value if id(value) in are_plain else plain_data(value, f"What post sets as {name}")
            before = names.parents[name] if name != written else None
            if not isinstance(before, list | None):
                raise ExpressionError(f"post: {written}: {name} is not a list", f"Begin with init: {{{name}: []}}")
            sets[name] = plain if name == written else [*(before or ()), plain]
        return sets

    @property
    def seen(self) -> Mapping[str, tuple[str, Entry]]:
        """The paths and entries of the steps that can be read now, by id."""
        entries = {name: (name, entry) for name, entry in self.steps.items()}
        for block, names, run in self.blocks:
            entries |= {name: (f"{block}/{name}", entry) for name, entry in run.open_outputs(block).items() if name in names}
        return entries

    def value_of(self, path: Reference) -> Any:
        """Return the value of a path. Raises `PathError`."""
        root = path.root
        if root not in ROOTS:
            raise PathError(f"there is no {root}", near(root, ROOTS))
        if root == "$steps":
            if not path.parts:
                raise PathError("$steps names no step", f"Write {EXAMPLE}")
            entries = {name: entry for name, (_, entry) in self.seen.items()} if self.blocks else self.steps
            return self._entry(_named(entries, path, 0, "has no output of"), path, 1)
        if root not in self.names:
            raise PathError(f"there is no {root} here", "Only the step of a map has one")
        return below(self.names[root], path)

    def _entry(self, entry: Any, path: Reference, done: int) -> Any:
        """Return what the parts from ``done`` name in the entry of a step."""
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
        """Return what the parts from ``done`` name in the entry of a step, where a text as ``output`` is read as JSON."""
        count = len(path.parts)
        end = path.parts.index("output", done) + 1 if "output" in path.parts[done:] else count
        value = below(value, path, done, end)
        if isinstance(value, list) and end < count:  # of a map: each output may be JSON itself
            value, end = item(value, path, end), end + 1
        return below_output(value, path, end, self._values_in)

    def _values_in(self, text: str) -> list[Any]:
        if text not in self.parsed:
            self.parsed[text] = json_values(text)
        return self.parsed[text]


def _child(entry: Any, path: Reference, at: int) -> Any:
    part, outputs = path.parts[at], entry["outputs"]
    if type(part) is not int:
        return _named(outputs, path, at, "has no")
    order = entry.get("order", [*outputs])
    if not -len(order) <= part < len(order):
        what = f"{path.upto(at)} has {len(order)} outputs, and none at [{part}]"
        raise PathError(what, "Count from 0, from the end with -1")
    return outputs[order[part]]


def _named(entries: Mapping[str, Any], path: Reference, at: int, lacks: str) -> Any:
    part = path.parts[at]
    if not isinstance(part, str) or part not in entries:
        raise NoOutput(f"{path.upto(at)} {lacks} {part}", near(str(part), list(entries)) or "No step has an output yet")
    return entries[part]


def has_templates(text: str) -> bool:
    """Return whether a text may hold templates."""
    return "{{" in text


def rendered(data: Any, scope: Scope, *, is_copied: bool = True) -> Any:
    """Return plain data with the templates in its texts replaced by their values; keys stay as they are.

    A text that is exactly one template becomes its value, of whatever type, which is a copy unless nothing changes it;
    elsewhere a text is inserted as it is, and any other value as JSON. Inserted texts are not searched for templates. Raises
    `ExpressionError`.
    """

    def value(expression: str) -> Any:
        result = _value(expression, scope)
        return _copied(result) if is_copied else result

    return filled(data, scope.form.spelling, value, scope.names)


def _copied(data: Any) -> Any:
    """Return a copy of plain data, by way of JSON, which takes a tenth of the time."""
    if not isinstance(data, dict | list):
        return data
    try:
        return msgspec.json.decode(msgspec.json.encode(data))
    except (TypeError, ValueError, OverflowError):  # a number that is larger than JSON's
        return copy.deepcopy(data)


def rendered_text(text: str, scope: Scope) -> str:
    """Return the text with its templates replaced, also if it is exactly one whose value is no text."""
    value = rendered(text, scope)
    return as_text(text, value, OF_WORKFLOWS)


def truth(text: str, scope: Scope) -> bool:
    """Return whether a condition holds: true and false, and the texts and numbers of `TRUTHS`. Raises `ExpressionError`."""
    try:
        value = rendered(text.strip(), scope)
    except NoOutput as error:
        raise NoOutput(error.what, NOT_TAKEN) from error
    verdict = value if isinstance(value, bool) else TRUTHS.get(str(value).strip().lower()) if type(value) in (str, int) else None
    if verdict is None:
        what = f'workflow: condition did not resolve to boolean: "{text.strip()}"'
        raise ExpressionError(what, f"It is {shown(value)}. Compare it, such as with ==, or let the step answer true or false")
    return verdict


def references(text: str) -> tuple[Reference, ...]:
    """Return the paths that the templates of a text name, those in brackets after what holds them.

    Raises `ExpressionError` for a template that cannot be read, or that uses a name without a ``$``.
    """
    result: list[Reference] = []
    for piece in pieces(text, OF_WORKFLOWS):
        if isinstance(piece, Piece):
            try:
                paths = references_in(piece.expression)
                for path in paths:
                    if path.root not in ROOTS:
                        raise PathError(f"there is no {path.root}", near(path.root, ROOTS))
            except ExpressionError as error:
                raise _quoted(piece.expression, error) from None
            result += [path._replace(place=piece.place + path.place) for path in paths]
    return tuple(result)


def _value(expression: str, scope: Scope) -> Any:
    if scope.form is TASKS:
        return evaluate(expression, scope.names, scope.form.is_true)
    try:
        return evaluate(expression, scope.value_of, scope.form.is_true)
    except ExpressionError as error:
        raise _quoted(expression, error) from None


def _quoted(expression: str, error: ExpressionError) -> ExpressionError:
    """Return the error of a template, which is quoted with its braces."""
    written, why = " ".join(expression.split()), error.why or error.what
    advice = tuple([WriteExpression(EXAMPLE) if isinstance(hint, WriteExpression) else hint for hint in error.advice])
    quoted = type(error)(f"{{{{ {written[:200]}{'...' if len(written) > 200 else ''} }}}}: {why}", advice)
    quoted.why = why
    return quoted


def _is_true(value: Any) -> bool:
    """Return whether an operand of ``&&``, ``||`` and ``!`` is true: the text ``false`` is not, as in a condition."""
    return TRUTHS.get(value.strip().lower(), True) if isinstance(value, str) and value.strip() else bool(value)


def _list_in(value: Any) -> Any:
    return next((candidate for candidate in json_values(value) if isinstance(candidate, list)), value) if isinstance(value, str) else value


def _list_of_tasks(value: Any) -> Any:
    data = parsed(value)
    return [] if data is None else data


WORKFLOW = Form(OF_WORKFLOWS, _is_true, _list_in, ("map {}: over", "Let it read a list, such as {{ $steps.ID.output.items }}"))
TASKS = Form(OF_TASKS, bool, _list_of_tasks, ("emit: forEach", "Let it read a list, such as ${results}"))
WITHOUT_PROMPT = "Please proceed with the workflow step."
"""What a step is told when the workflow is run without a prompt."""


def with_prior_outputs(prompt: str, scope: Scope, context: Context) -> str:
    """Return the prompt of a step, after the outputs of the steps that have completed; empty ones are left out."""
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
