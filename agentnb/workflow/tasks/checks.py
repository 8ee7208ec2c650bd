"""What is wrong in a task file beyond single keys: names of tasks that do not exist, and tasks that wait for later ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import chain

from agentnb.advice import Advised
from agentnb.errors import near
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.spec import END
from agentnb.workflow.tasks.spec import AwaitStep, TaskFile, TaskStep


def check_file(file: TaskFile, problems: Problems) -> None:
    """Note what is wrong."""
    places = {task.id: place for place, task in enumerate(file.tasks)}
    targets = {**{name: span.start for name, span in file.blocks.items()}, **places}
    background = {task.id: place for place, task in reversed([*enumerate(file.tasks)]) if task.in_background}
    for place, task in enumerate(file.tasks):
        _check_gotos(task, targets, problems)
        _check_depends(task, place, file.blocks, places, problems)
        if isinstance(task, AwaitStep):
            _check_awaited(task, place, background, problems)


def _check_gotos(task: TaskStep, targets: Collection[str], problems: Problems) -> None:
    if task.goto and task.in_background:
        what = f"task {task.path}: a task in the background goes nowhere"
        problems.add(task.goto[0].line, what, "Write the goto in a task after it, with dependsOn")
    for goto in task.goto:
        if goto.task not in targets and goto.task != END:
            what = f'task {task.path}: goto: there is no task or block "{goto.task}"'
            problems.add(goto.line, what, partial(near, goto.task, targets))


def _check_depends(
    task: TaskStep, place: int, blocks: Mapping[str, range], places: Mapping[str, int], problems: Problems
) -> None:
    for name in task.depends_on:
        last = blocks[name].stop - 1 if name in blocks else places.get(name)
        if last is None:
            what = f'task {task.path}: dependsOn: there is no task or block "{name}"'
            problems.add(task.line, what, partial(near, name, chain(places, blocks)))
        elif last >= place:
            what = f'task {task.path}: dependsOn: "{name}" does not come before it'
            problems.add(task.line, what, "Tasks begin in the order of the file: write that one first")


def _check_awaited(task: AwaitStep, place: int, background: Mapping[str, int], problems: Problems) -> None:
    for name in task.wait.on:
        if background.get(name, place) >= place:
            what = f'task {task.path}: await: "{name}" does not run in the background before it'
            problems.add(task.line, what, partial(_suggest_background, name, place, background))


def _suggest_background(name: str, place: int, background: Mapping[str, int]) -> Advised:
    before = sorted((task for task in background if background[task] < place), key=background.__getitem__)
    return near(name, before) if before else "Only tasks with async: true, or with emit and no await, are"
