"""What the templates of a text name: ``{{ $steps.qa.output.score >= 0.5 && len($steps.par.order) == 2 }}`` names two values.

Between double braces stands an expression of `agentnb.core.expressions`, whose names begin with ``$``. A path is taken out of
it here, since ids may hold dashes: ``$steps.first-draft.output`` is one path, and a minus sign behind a path needs a blank. To
write two braces as they are: ``{{ "{{" }}``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, TypeAlias

from agentnb.advice import Advised, WriteExpression
from agentnb.core.expressions import STRING, names_in
from agentnb.core.redaction import change_texts
from agentnb.errors import ExpressionError, near

ROOTS = ("$steps", "$prompt", "$inputs", "$item", "$index")
"""What a path may begin with: outputs of steps, the prompt and the inputs of the run, and in a map the item and its place."""
EXAMPLE = "$steps.ID.output"
_ENDS = re.compile(rf"""((?:{STRING}|[^"'}}]|\}}(?!\}}))*)\}}\}}""")
"""The rest of a template: the expression and the braces that close it."""
_NEXT = re.compile(rf"(?:{STRING}|[^\"'$])+")
"""What stands in an expression before the next path."""
_ROOT = re.compile(r"\$[^\W\d]\w*")
_FIELD = re.compile(r"\.([^\W\d](?:[\w-]*\w)?)")
_PLACE = re.compile(rf"\[\s*(?:(-?[0-9]{{1,9}})|({STRING})|(?=\$))\s*")
_CLOSES = re.compile(r"\s*\]")
MAX_NESTED = 8
"""Paths within the brackets of paths."""

Part: TypeAlias = "str | int | Reference"


@dataclass(frozen=True, slots=True)
class Reference:
    """A path: ``$steps.par.outputs[1].output`` is the root ``$steps`` with the parts par, outputs, 1 and output."""

    root: str
    parts: tuple[Part, ...]
    written: str
    place: int = 0
    """Where in the text it begins."""

    def upto(self, count: int) -> str:
        """Return the path as far as its first ``count`` parts, as a person would write it."""
        return self.root + "".join(_written(part) for part in self.parts[:count])


@dataclass(frozen=True, slots=True)
class Template:
    """One ``{{ expression }}`` of a text."""

    expression: str
    """As written, without the braces."""
    translated: str
    """The same with a name for each of its paths, that of `path_name`."""
    references: tuple[Reference, ...]

    def restored(self, message: str) -> str:
        """Return a message about the translated expression with the paths as they were written."""
        for number, reference in enumerate(self.references):
            message = message.replace(path_name(number), reference.written)
        return _CUT_NAME.sub("...", message)


_NAME = re.compile(r"\b__([0-9]{1,3})__\b")

_CUT_NAME = re.compile(r"\b_(?:_[0-9]*_?)?\.\.\.")
"""What is left of such a name at the end of a text that was cut."""


def path_name(number: int) -> str:
    """Return the name that stands in a translated expression for its path with this number, from 0."""
    return f"__{number}__"


@lru_cache(maxsize=4096)
def pieces(text: str) -> tuple[str | Template, ...]:
    """Return the pieces of a text: texts as they are, and templates. Raises `ExpressionError` for a template that is none."""
    found: list[str | Template] = []
    start = 0
    while (begin := text.find("{{", start)) >= 0:
        if begin > start:
            found.append(text[start:begin])
        rest = _ENDS.match(text, begin + 2)
        if rest is None:
            beginning = text[begin : begin + 60]
            hint = 'Close it with }}, and its texts with their quotes; two braces as they are: {{ "{{" }}'
            raise ExpressionError(f"{beginning} does not end", hint)
        found.append(_template(rest[1], begin + 2))
        start = rest.end()
    if start < len(text):
        found.append(text[start:])
    return tuple(found)


def references(text: str) -> tuple[Reference, ...]:
    """Return the paths that the templates of a text name, those in brackets after what holds them.

    Raises `ExpressionError` for a template that cannot be read, or that uses a name without a ``$``.
    """
    found: list[Reference] = []
    for piece in pieces(text):
        if isinstance(piece, Template):
            for reference in piece.references:
                found += [reference, *_within(reference)]
    return tuple(found)


def _within(reference: Reference) -> Iterator[Reference]:
    for part in reference.parts:
        if isinstance(part, Reference):
            yield part
            yield from _within(part)


def _template(expression: str, place: int) -> Template:
    translated: list[str] = []
    paths: list[Reference] = []
    at = 0
    while at < len(expression):
        if between := _NEXT.match(expression, at):
            if taken := _NAME.search(between[0]):
                _refuse(expression, f"there is no {taken[0]}", near(taken[0], ROOTS))
            translated.append(between[0])
            at = between.end()
        elif expression[at] == "$":
            path, at = _path(expression, at, place, 0)
            translated.append(f" {path_name(len(paths))} ")
            paths.append(path)
        else:
            _refuse(expression, f"the text that begins at {expression[at : at + 20]} does not end", "Write \"text\" or 'text'")
    template = Template(expression.strip(), "".join(translated).strip(), tuple(paths))
    _check(template)
    return template


def _check(template: Template) -> None:
    try:
        names = names_in(template.translated)
    except ExpressionError as error:
        advice = change_texts(error.advice, template.restored)
        ours = tuple([WriteExpression(EXAMPLE) if isinstance(one, WriteExpression) else one for one in advice])
        _refuse(template.expression, template.restored(error.why or error.what), ours)
    for name in names:
        if not _NAME.fullmatch(name):
            # `near` names the roots, of which `steps` for `$steps` is the usual mistake.
            _refuse(template.expression, f"there is no {name}", near(name, ROOTS))


def _path(expression: str, start: int, place: int, nested: int) -> tuple[Reference, int]:
    if nested > MAX_NESTED:
        _refuse(expression, f"paths are nested deeper than {MAX_NESTED} brackets", "Write it flatter")
    root = _ROOT.match(expression, start)
    if root is None or root[0] not in ROOTS:
        name = root[0] if root else expression[start : start + 20]
        _refuse(expression, f"there is no {name}", near(name, ROOTS))
    parts: list[Part] = []
    at = root.end()
    while at < len(expression) and expression[at] in ".[":
        if field := _FIELD.match(expression, at):
            parts.append(field[1])
            at = field.end()
            continue
        part, at = _bracketed(expression, at, place, nested)
        parts.append(part)
    return Reference(root[0], tuple(parts), expression[start:at], place + start), at


def _bracketed(expression: str, start: int, place: int, nested: int) -> tuple[Part, int]:
    part: Part
    if not (bracket := _PLACE.match(expression, start)):
        _refuse(expression, f"{expression[start : start + 20]} names nothing", 'Write .name, [0], [-1], ["name"] or [$index]')
    at = bracket.end()
    if bracket[1]:
        part = int(bracket[1])
    elif bracket[2]:
        part = str(ast.literal_eval(bracket[2]))
    else:
        part, at = _path(expression, at, place, nested + 1)
    if not (closed := _CLOSES.match(expression, at)):
        _refuse(expression, f"{expression[start : start + 20]} is not closed", "Close it with ]")
    return part, closed.end()


def _written(part: Part) -> str:
    if isinstance(part, Reference):
        return f"[{part.written}]"
    return f"[{part}]" if isinstance(part, int) else f".{part}" if _FIELD.fullmatch(f".{part}") else f'["{part}"]'


def _refuse(expression: str, why: str, hint: Advised = "") -> NoReturn:
    raise refused(expression, why, hint)


def refused(expression: str, why: str, hint: Advised = "", kind: type[ExpressionError] = ExpressionError) -> ExpressionError:
    """Return the error that quotes a template and says why it has no value."""
    written = " ".join(expression.split())
    error = kind(f"{{{{ {written[:200]}{'...' if len(written) > 200 else ''} }}}}: {why}", hint)
    error.why = why
    return error
