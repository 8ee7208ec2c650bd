"""The expressions of a task file with their lines, and whether the names in them are known."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable
from functools import partial
from typing import NamedTuple

from agentnb.core.expressions import OF_TASKS, Piece, names_in, pieces
from agentnb.errors import ExpressionError, near
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import Node, texts_in
from agentnb.workflow.graph.nodes import Node as GraphNode
from agentnb.workflow.tasks.spec import ALWAYS_KNOWN
from agentnb.workflow.templates.template_forms import warn_of_other_form

UNKNOWN_NAME = "W_UNKNOWN_NAME"
"""The code of the warning of a ``$name`` among other words that no variable has."""


class _Place(NamedTuple):
    expression: Piece
    line: int
    where: str
    extra: tuple[str, ...] | None
    """Names that are known here only; None where fields of a result are, whose names nobody knows before it runs."""


class ExpressionPlaces:
    """Collects the expressions while a file is read; they are checked when all its variables are known."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._places: list[_Place] = []

    def add(self, expression: str, line: int, where: str, extra: Iterable[str] = ()) -> None:
        """Note an expression that stands by itself."""
        self._places.append(_Place(Piece(expression, 0), line, where, tuple(extra)))

    def add_texts(self, node: Node | None, where: str, extra: tuple[str, ...] | None = ()) -> None:
        """Note each ``${expression}`` and ``$name`` in the texts of a node."""
        for text in () if node is None else texts_in(node):
            try:
                found = [piece for piece in pieces(text.text, OF_TASKS) if not isinstance(piece, str)]
                warn_of_other_form(text, where, self._problems, OF_TASKS)
                self._places += [_Place(piece, text.line_of(piece.place), where, extra) for piece in found]
            except ExpressionError as error:
                self._problems.add(text.line, f"{where}: {error.what}", error.advice)

    def check(self, declared: Collection[str], tasks: Collection[GraphNode]) -> None:
        """Note what cannot be evaluated, and every name that no variable has."""
        known = dict.fromkeys([*declared, *(name for task in tasks for name in task.sets), *ALWAYS_KNOWN])
        ids = {task.id for task in tasks}
        for place in self._places:
            written, _, bare = place.expression
            try:
                names = names_in(written)
            except ExpressionError as error:
                self._problems.add(place.line, f"{place.where}: {error.what}", error.advice)
                continue
            extra = dict.fromkeys(place.extra or ())
            for name in () if place.extra is None else names:
                if name in known or name in extra:
                    continue
                what = f"{place.where}: {written[:80]}: there is no {name}"
                is_task = f"{name} is a task: keep its result with post: {{{name}: ${{result}}}}"
                hint = is_task if name in ids else partial(near, name, ChainMap(known, extra))
                if bare:
                    self._problems.warn(place.line, f"{what}, so it stays as it is written", hint, code=UNKNOWN_NAME)
                else:
                    self._problems.add(place.line, what, hint)
