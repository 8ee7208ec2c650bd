"""Checks of a task file: jumps, dependencies, and names in expressions, with their positions in the source."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from agentnb.advice import Advised
from agentnb.core.expressions import OF_TASKS, Piece, names_in, pieces
from agentnb.errors import ExpressionError, suggest_names
from agentnb.workflow.checks.call_checks import warn_of_other_form
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.workflow_spec import END
from agentnb.workflow.form.yaml_source import Node as Written
from agentnb.workflow.form.yaml_source import texts_in
from agentnb.workflow.graph.nodes import Await, Jump, Node
from agentnb.workflow.tasks.task_spec import ALWAYS_KNOWN

UNKNOWN_NAME = "W_UNKNOWN_NAME"
"""Warning code for a ``$name`` in a text that matches no variable."""


class _Occurrence(NamedTuple):
    expression: Piece
    line: int
    where: str
    extra: tuple[str, ...] | None
    """Names known only here, or None where a result's fields, unknown before the run, are in scope."""


class ExpressionPlaces:
    """Collects expressions while a file is parsed; they are checked once all variables are known."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._places: list[_Occurrence] = []

    def add(self, expression: str, line: int, where: str, extra: Iterable[str] = ()) -> None:
        """Add an expression that is a complete value."""
        self._places.append(_Occurrence(Piece(expression, 0), line, where, tuple(extra)))

    def add_texts(self, node: Written | None, where: str, extra: tuple[str, ...] | None = ()) -> None:
        """Add every ``${expression}`` and ``$name`` in a node's texts."""
        for text in () if node is None else texts_in(node):
            try:
                expressions = [piece for piece in pieces(text.text, OF_TASKS) if not isinstance(piece, str)]
                warn_of_other_form(text, where, self._problems, OF_TASKS)
                self._places += [_Occurrence(piece, text.line_of(piece.place), where, extra) for piece in expressions]
            except ExpressionError as error:
                self._problems.add(text.line, f"{where}: {error.what}", error.advice)

    def check(self, declared: Collection[str], tasks: Collection[Node]) -> None:
        """Report invalid expressions and unknown names."""
        known_names = dict.fromkeys([*declared, *(name for task in tasks for name in task.sets), *ALWAYS_KNOWN])
        ids = {task.id for task in tasks}
        for occurrence in self._places:
            written, _, bare = occurrence.expression
            try:
                names = names_in(written)
            except ExpressionError as error:
                self._problems.add(occurrence.line, f"{occurrence.where}: {error.what}", error.advice)
                continue
            extra = dict.fromkeys(occurrence.extra or ())
            for name in () if occurrence.extra is None else names:
                if name in known_names or name in extra:
                    continue
                problem = f"{occurrence.where}: {written[:80]}: unknown variable {name}"
                is_task = f"{name} is a task: store its result with post: {{{name}: ${{result}}}}"
                hint = is_task if name in ids else partial(suggest_names, name, ChainMap(known_names, extra))
                message, code = (f"{problem}, so the text is not replaced", UNKNOWN_NAME) if bare else (problem, "")
                self._problems.add(occurrence.line, message, hint, code)


def link_tasks(tasks: Sequence[Node], blocks: Mapping[str, range], problems: Problems) -> Iterator[Node]:
    """Yield the tasks with their jumps and dependencies resolved; report unknown names."""
    places = {task.id: index for index, task in enumerate(tasks)}
    targets = {END: len(tasks), **{name: span.start for name, span in blocks.items()}, **places}
    background = {task.id: index for index, task in reversed([*enumerate(tasks)]) if task.is_beside}
    for index, task in enumerate(tasks):
        _check_gotos(task, targets, problems)
        if isinstance(task.does, Await):
            _check_awaited(task, task.does, index, background, problems)
        after = [dependency for name in task.after for dependency in _resolve(name, task, index, blocks, places, problems)]
        jumps = [replace(jump, place=targets.get(jump.to, -1)) for jump in task.jumps]
        if jumps and all(jump.when is not None for jump in jumps):
            onward = tasks[index + 1].id if index + 1 < len(tasks) else END
            jumps.append(Jump(to=onward, place=index + 1, reason="no goto condition is true"))
        yield replace(task, after=tuple(tasks[dependency].id for dependency in after), jumps=tuple(jumps))


def _check_gotos(task: Node, targets: Collection[str], problems: Problems) -> None:
    if task.jumps and task.is_beside:
        problem = f"task {task.path}: a background task cannot jump"
        problems.add(task.jumps[0].line, problem, "Write the goto in a task after it, with dependsOn")
    for jump in task.jumps:
        if jump.to not in targets:
            problem = f'task {task.path}: goto: there is no task or block "{jump.to}"'
            problems.add(jump.line, problem, partial(suggest_names, jump.to, [name for name in targets if name != END]))


def _resolve(
    name: str, task: Node, place: int, blocks: Mapping[str, range], places: Mapping[str, int], problems: Problems
) -> range:
    """Return the indexes of the tasks to which a dependency refers; empty if it is invalid."""
    span = blocks.get(name) or (range(places[name], places[name] + 1) if name in places else None)
    if span is None:
        problem = f'task {task.path}: dependsOn: there is no task or block "{name}"'
        problems.add(task.line, problem, partial(suggest_names, name, chain(places, blocks)))
    elif span.stop > place:
        problem = f'task {task.path}: dependsOn: "{name}" does not come before it'
        problems.add(task.line, problem, "Tasks start in the order of the file: put that task first")
    else:
        return span
    return range(0)


def _check_awaited(task: Node, wait: Await, place: int, background: Mapping[str, int], problems: Problems) -> None:
    for name in wait.on:
        if background.get(name, place) >= place:
            problem = f'task {task.path}: await: "{name}" is not an earlier background task'
            problems.add(task.line, problem, partial(_suggest_background, name, place, background))


def _suggest_background(name: str, place: int, background: Mapping[str, int]) -> Advised:
    before = sorted((task for task in background if background[task] < place), key=background.__getitem__)
    return suggest_names(name, before) if before else "Background tasks have async: true, or emit without await"
