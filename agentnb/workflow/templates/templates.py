"""The values of templates: ``{{ $steps.qa.output.score }}`` in prompts, instructions, conditions and arguments.

``$steps.ID.output`` is the output of a step, and what follows it is read in the JSON that the output holds, be it alone, in a
code fence or within prose. Of a parallel block: ``$steps.par.outputs.ID.output``, ``$steps.par.outputs[-1].output`` and
``$steps.par.order``; ``steps`` is another name for ``outputs``. Of a block in a block:
``$steps.outer.outputs.inner.outputs.ID``, or short ``$steps.outer.outputs.inner.ID``. Besides there are ``$prompt`` and
``$inputs.NAME``, and in a map ``$item`` and ``$index``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from agentnb.advice import Advised
from agentnb.core.expressions import check_size, evaluate, filled
from agentnb.core.redaction import change_texts
from agentnb.core.run.facts import RunFacts
from agentnb.detect.run import Run
from agentnb.errors import ExpressionError, near
from agentnb.workflow.templates.branch_outputs import BranchOutputs
from agentnb.workflow.templates.json_in_text import json_values
from agentnb.workflow.templates.references import ROOTS, Reference, Template, path_name, pieces, refused

TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
"""The texts that a condition takes as true or false, in whatever case."""
BLOCK_OUTPUTS = ("outputs", "steps")
"""What the outputs of a block are called."""
NOT_TAKEN = "If it is in a branch that may not be taken, give the condition on_error: {continue: false}"
"""What to do if a condition reads a step that has given nothing: its name was checked before."""


class _Missing:
    """No item: the template does not stand in a map."""


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Scope:
    """What templates may read."""

    steps: Mapping[str, Any] = field(default_factory=dict)
    """The entries of the steps that have an output, by id, as in the step context of a run."""
    prompt: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    item: Any = MISSING
    """The item that a map works on."""
    index: int | None = None
    """Its place in the list, from 0."""
    parsed: dict[str, list[Any]] = field(default_factory=dict, repr=False, compare=False)
    """The JSON in outputs that were read before."""

    def begun(self, run: Run) -> Scope:
        """Return it with the prompt and the outputs of a run that begins."""
        return replace(self, steps=run.steps, prompt=run.prompt)

    def holds(self, condition: str) -> bool:
        """Return whether a condition holds; see `truth`."""
        return truth(condition, self)

    def items(self, over: Any, node: str) -> Sequence[Any]:
        """Return the list that the map with this id goes over; a text may hold it as JSON. Raises `ExpressionError`."""
        value = rendered(over, self)
        if isinstance(value, str):
            value = next((one for one in json_values(value) if isinstance(one, list)), value)
        if not isinstance(value, list | tuple):
            what = f"map {node}: over is not a list: {str(over)[:100]}"
            raise ExpressionError(what, "Let it read a list, such as {{ $steps.ID.output.items }}")
        return value

    def with_item(self, name: str, item: Any, index: int) -> Scope:
        """Return it with the item that a step of a map works on."""
        return replace(self, item=item, index=index)

    def in_block(self, block: str, names: Collection[str], run: RunFacts) -> Scope:
        """Return it with the outputs of steps of an open block: of those with these ids, which follow one another."""
        return replace(self, steps=BranchOutputs(self.steps, run, block, names))


def has_templates(text: str) -> bool:
    """Return whether a text may hold templates."""
    return "{{" in text


def rendered(data: Any, scope: Scope) -> Any:
    """Return plain data with the templates in its texts replaced by their values; keys stay as they are.

    A text that is exactly one template becomes its value, of whatever type, which is a copy; elsewhere a text is inserted as it
    is, and any other value as JSON. Inserted texts are not searched for templates. Raises `ExpressionError`.
    """
    return filled(
        data,
        pieces,
        lambda template: copy.deepcopy(_value(template, scope)),
        lambda template: _as_text(template.expression, _value(template, scope)),
    )


def rendered_text(text: str, scope: Scope) -> str:
    """Return the text with its templates replaced, also if it is exactly one whose value is no text."""
    value = rendered(text, scope)
    return value if isinstance(value, str) else _as_text(text, value)


def truth(text: str, scope: Scope) -> bool:
    """Return whether a condition holds: true and false, and the texts and numbers of `TRUTHS`. Raises `ExpressionError`."""
    try:
        value = rendered(text.strip(), scope)
    except NoOutput as error:
        raise NoOutput(error.what, NOT_TAKEN) from error
    found = value if isinstance(value, bool) else TRUTHS.get(str(value).strip().lower()) if type(value) in (str, int) else None
    if found is None:
        what = f'workflow: condition did not resolve to boolean: "{text.strip()}"'
        raise ExpressionError(what, f"It is {_shown(value)}. Compare it, such as with ==, or let the step answer true or false")
    return found


def _as_text(expression: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        check_size(value)
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise refused(expression, f"its value cannot be written as text ({error})") from None


def _value(template: Template, scope: Scope) -> Any:
    try:
        return evaluate(template.translated, _Paths(template, scope), _is_true)
    except _PathError as error:
        kind = NoOutput if isinstance(error, _NoEntry) else ExpressionError
        raise refused(template.expression, error.what, error.advice, kind) from None
    except ExpressionError as error:
        why, advice = template.restored(error.why or error.what), change_texts(error.advice, template.restored)
        raise refused(template.expression, why, advice) from None


def _is_true(value: Any) -> bool:
    """Return whether an operand of ``&&``, ``||`` and ``!`` is true: the text ``false`` is not, as in a condition."""
    return TRUTHS.get(value.strip().lower(), True) if isinstance(value, str) and value.strip() else bool(value)


class NoOutput(ExpressionError):
    """A template reads a step that has given nothing: it has not run, or it failed."""


class _PathError(ExpressionError):
    """A path has no value; ``what`` says why, without the expression."""


class _NoEntry(_PathError):
    """A path names a step that has given nothing."""


class _Paths(Mapping[str, Any]):
    """The values of the paths of a template, each looked up when it is needed: not behind ``false &&``."""

    def __init__(self, template: Template, scope: Scope) -> None:
        self._paths = {path_name(number): reference for number, reference in enumerate(template.references)}
        self._scope = scope

    def __getitem__(self, name: str) -> Any:
        return _Walk(self._paths[name], self._scope).value()

    def __iter__(self) -> Iterator[str]:
        return iter(ROOTS)

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __len__(self) -> int:
        return len(self._paths)


class _Walk:
    """One path through what a scope holds."""

    def __init__(self, reference: Reference, scope: Scope) -> None:
        self._reference = reference
        self._scope = scope
        self._parts = tuple(_Walk(part, scope).value() if isinstance(part, Reference) else part for part in reference.parts)

    def value(self) -> Any:
        root, scope = self._reference.root, self._scope
        if root == "$steps":
            return self._in_steps()
        if root == "$prompt":
            return self._below(scope.prompt, 0)
        if root == "$inputs":
            return self._below(dict(scope.inputs), 0)
        if isinstance(scope.item, _Missing):
            self._refuse(f"there is no {root} here", "Only the step of a map has one")
        return self._below(scope.item if root == "$item" else scope.index, 0)

    def _in_steps(self) -> Any:
        if not self._parts:
            self._refuse("$steps names no step", "Write $steps.ID.output")
        return self._entry(self._named(self._scope.steps, 0, "has no output of"), 1)

    def _entry(self, entry: Any, done: int) -> Any:
        """Return what the parts from ``done`` name in the entry of a step."""
        if done == len(self._parts):
            path = self._upto(done)
            name = "outputs" if "outputs" in entry else "output"
            self._refuse(f"{path} is a step, not a value", f"Write {path}.{name}")
        if "outputs" not in entry:
            return self._below(entry, done, is_entry=True)
        part, outputs = self._parts[done], entry["outputs"]
        if part in BLOCK_OUTPUTS:
            if done + 1 == len(self._parts):
                return outputs
            return self._entry(self._child(entry, done + 1), done + 2)
        if isinstance(part, str) and part in outputs and part not in entry:
            return self._entry(outputs[part], done + 1)
        return self._below(entry, done)

    def _child(self, entry: Any, at: int) -> Any:
        part, outputs = self._parts[at], entry["outputs"]
        if type(part) is int:
            order = entry.get("order", list(outputs))
            if not -len(order) <= part < len(order):
                self._refuse(
                    f"{self._upto(at)} has {len(order)} outputs, and none at [{part}]", "Count from 0, from the end with -1"
                )
            return outputs[order[part]]
        return self._named(outputs, at, "has no")

    def _named(self, entries: Mapping[str, Any], at: int, lacks: str) -> Any:
        part = self._parts[at]
        if not isinstance(part, str) or part not in entries:
            hint = near(str(part), list(entries)) or "No step has an output yet"
            raise _NoEntry(f"{self._upto(at)} {lacks} {part}", hint)
        return entries[part]

    def _below(self, value: Any, done: int, *, is_entry: bool = False) -> Any:
        """Return what the parts from ``done`` name in plain data; in an entry, texts under ``output`` are read as JSON."""
        for at in range(done, len(self._parts)):
            part = self._parts[at]
            value = self._item(value, part, at)
            if is_entry and part == "output":
                return self._output(value, at + 1)
        return value

    def _output(self, value: Any, done: int) -> Any:
        if done < len(self._parts) and isinstance(value, list) and isinstance(self._parts[done], int):
            value, done = self._item(value, self._parts[done], done), done + 1  # of a map: each output may be JSON itself
        if done == len(self._parts) or not isinstance(value, str):
            return self._below(value, done)
        values = self._scope.parsed.setdefault(value, json_values(value)) if value not in self._scope.parsed else None
        return self._in_json(self._scope.parsed[value] if values is None else values, value, done)

    def _in_json(self, values: list[Any], text: str, done: int) -> Any:
        """Return what the path names in the one JSON of the text that has it."""
        path = self._upto(done)
        if not values:
            self._refuse(
                f"{path} is not JSON, and has no {self._parts[done]}: {_shown(text)}", "Give its agent a structured_output"
            )
        found: list[Any] = []
        missing: list[_PathError] = []
        for value in sorted(values, key=lambda value: isinstance(value, list)):  # what an object lacks says most
            try:
                found.append(self._below(value, done))
            except _PathError as error:
                missing.append(error)
        if not found:
            raise missing[0]
        if any(other != found[0] for other in found):
            self._refuse(
                f"{path} holds {len(found)} JSON values with different {self._upto(len(self._parts))}",
                "Give its agent a structured_output, so that it answers with one",
            )
        return found[0]

    def _item(self, value: Any, part: Any, at: int) -> Any:
        path = self._upto(at)
        if isinstance(value, Mapping):
            if not isinstance(part, str) or part not in value:
                self._refuse(f"{path} has no {part}", near(str(part), [name for name in value if isinstance(name, str)]))
            return value[part]
        if not isinstance(value, list | tuple) or type(part) is not int:
            hint = "Count from 0, from the end with -1" if isinstance(value, list | tuple) else ""
            self._refuse(f"{path} is {_shown(value)}, and has no {part}", hint)
        if not -len(value) <= part < len(value):
            self._refuse(f"{path} has {len(value)} items, and none at [{part}]", f"Ask first: len({path}) > 0 && ...")
        return value[part]

    def _upto(self, count: int) -> str:
        return self._reference.upto(count)

    def _refuse(self, what: str, hint: Advised = "") -> NoReturn:
        raise _PathError(what, hint)


def _shown(value: Any, most: int = 60) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        line = " ".join(value.split())
        return f"the text {line[:most]!r}" + ("..." if len(line) > most else "")
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"the number {value}"
