"""The jumps and dependencies of a task file with their places in it, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec.structs import replace

from agentnb.advice import Advised
from agentnb.errors import near
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.spec import END
from agentnb.workflow.graph.nodes import Await, Jump, Node


def linked(tasks: Sequence[Node], blocks: Mapping[str, range], problems: Problems) -> Iterator[Node]:
    """Yield the tasks with the places of what their names mean, and note names that mean nothing."""
    places = {task.id: place for place, task in enumerate(tasks)}
    targets = {END: len(tasks), **{name: span.start for name, span in blocks.items()}, **places}
    background = {task.id: place for place, task in reversed([*enumerate(tasks)]) if task.is_beside}
    for place, task in enumerate(tasks):
        _check_gotos(task, targets, problems)
        if isinstance(task.does, Await):
            _check_awaited(task, task.does, place, background, problems)
        after = [one for name in task.after for one in _named(name, task, place, blocks, places, problems)]
        jumps = [replace(jump, place=targets.get(jump.to, -1)) for jump in task.jumps]
        if jumps and all(jump.when is not None for jump in jumps):
            onward = tasks[place + 1].id if place + 1 < len(tasks) else END
            jumps.append(Jump(to=onward, place=place + 1, reason="no goto holds"))
        yield replace(task, after=tuple(tasks[one].id for one in after), jumps=tuple(jumps))


def _check_gotos(task: Node, targets: Collection[str], problems: Problems) -> None:
    if task.jumps and task.is_beside:
        what = f"task {task.path}: a task in the background goes nowhere"
        problems.add(task.jumps[0].line, what, "Write the goto in a task after it, with dependsOn")
    for jump in task.jumps:
        if jump.to not in targets:
            what = f'task {task.path}: goto: there is no task or block "{jump.to}"'
            problems.add(jump.line, what, partial(near, jump.to, [name for name in targets if name != END]))


def _named(
    name: str, task: Node, place: int, blocks: Mapping[str, range], places: Mapping[str, int], problems: Problems
) -> range:
    """Return the places of the tasks that a dependency means; none if it is wrong."""
    found = blocks.get(name) or (range(places[name], places[name] + 1) if name in places else None)
    if found is None:
        what = f'task {task.path}: dependsOn: there is no task or block "{name}"'
        problems.add(task.line, what, partial(near, name, chain(places, blocks)))
    elif found.stop > place:
        what = f'task {task.path}: dependsOn: "{name}" does not come before it'
        problems.add(task.line, what, "Tasks begin in the order of the file: write that one first")
    else:
        return found
    return range(0)


def _check_awaited(task: Node, wait: Await, place: int, background: Mapping[str, int], problems: Problems) -> None:
    for name in wait.on:
        if background.get(name, place) >= place:
            what = f'task {task.path}: await: "{name}" does not run in the background before it'
            problems.add(task.line, what, partial(_suggest_background, name, place, background))


def _suggest_background(name: str, place: int, background: Mapping[str, int]) -> Advised:
    before = sorted((task for task in background if background[task] < place), key=background.__getitem__)
    return near(name, before) if before else "Only tasks with async: true, or with emit and no await, are"
