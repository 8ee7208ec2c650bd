"""The expressions of a task file with their lines, and whether the names in them are known."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable
from functools import partial
from typing import NamedTuple

from agentnb.core.expressions import OF_TASKS, names_in, pieces
from agentnb.errors import ExpressionError, near
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import Node, texts_in
from agentnb.workflow.graph.nodes import Node as GraphNode
from agentnb.workflow.tasks.spec import ALWAYS_KNOWN
from agentnb.workflow.templates.template_forms import warn_of_other_form


class _Place(NamedTuple):
    expression: str
    line: int
    where: str
    extra: tuple[str, ...]
    """Names that are known here only."""
    sees_result: bool
    """Whether it may read the fields of a result, whose names nobody knows before it runs."""


class ExpressionPlaces:
    """Collects the expressions while a file is read; they are checked when all its variables are known."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._places: list[_Place] = []

    def add(self, expression: str, line: int, where: str, extra: Iterable[str] = ()) -> None:
        """Note an expression that stands by itself."""
        self._places.append(_Place(expression, line, where, tuple(extra), False))

    def add_texts(self, node: Node | None, where: str, extra: Iterable[str] = (), *, sees_result: bool = False) -> None:
        """Note each ``${expression}`` in the texts of a node."""
        for text in () if node is None else texts_in(node):
            try:
                found = [piece for piece in pieces(text.text, OF_TASKS) if not isinstance(piece, str)]
                warn_of_other_form(text, where, self._problems, OF_TASKS)
                for piece in found:
                    self._places.append(_Place(piece.expression, text.line_of(piece.place), where, tuple(extra), sees_result))
            except ExpressionError as error:
                self._problems.add(text.line, f"{where}: {error.what}", error.advice)

    def check(self, declared: Collection[str], tasks: Iterable[GraphNode]) -> None:
        """Note what cannot be evaluated, and every name that no variable has."""
        known = dict.fromkeys([*declared, *(name for task in tasks for name in task.post), *ALWAYS_KNOWN])
        for place in self._places:
            try:
                names = names_in(place.expression)
            except ExpressionError as error:
                self._problems.add(place.line, f"{place.where}: {error.what}", error.advice)
                continue
            for name in () if place.sees_result else names:
                if name not in known and name not in place.extra:
                    hint = partial(near, name, ChainMap(known, dict.fromkeys(place.extra)))
                    self._problems.add(place.line, f"{place.where}: {place.expression[:80]}: there is no {name}", hint)
