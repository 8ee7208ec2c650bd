"""What is wrong in a task file beyond single keys: names of tasks that do not exist, and tasks that wait for later ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentnb.errors import near
from agentnb.workflow.problems import Problems
from agentnb.workflow.spec import END
from agentnb.workflow.tasks.spec import AwaitStep, TaskFile, TaskStep


def check_file(file: TaskFile, problems: Problems) -> None:
    """Note what is wrong."""
    places = {task.id: place for place, task in enumerate(file.tasks)}
    targets = {**{name: span.start for name, span in file.blocks.items()}, **places}
    for place, task in enumerate(file.tasks):
        _check_gotos(task, targets, problems)
        _check_depends(task, place, file.blocks, places, problems)
        if isinstance(task, AwaitStep):
            _check_awaited(task, place, file, places, problems)


def _check_gotos(task: TaskStep, targets: Collection[str], problems: Problems) -> None:
    if task.goto and task.in_background:
        what = f"task {task.path}: a task in the background goes nowhere"
        problems.add(task.goto[0].line, what, "Write the goto in a task after it, with dependsOn")
    for goto in task.goto:
        if goto.task not in targets and goto.task != END:
            what = f'task {task.path}: goto: there is no task or block "{goto.task}"'
            problems.add(goto.line, what, near(goto.task, targets))


def _check_depends(
    task: TaskStep, place: int, blocks: Mapping[str, range], places: Mapping[str, int], problems: Problems
) -> None:
    for name in task.depends_on:
        last = blocks[name].stop - 1 if name in blocks else places.get(name)
        if last is None:
            hint = near(name, [*places, *blocks])
            problems.add(task.line, f'task {task.path}: dependsOn: there is no task or block "{name}"', hint)
        elif last >= place:
            what = f'task {task.path}: dependsOn: "{name}" does not come before it'
            problems.add(task.line, what, "Tasks begin in the order of the file: write that one first")


def _check_awaited(task: AwaitStep, place: int, file: TaskFile, places: Mapping[str, int], problems: Problems) -> None:
    in_background = [one.id for one in file.tasks[:place] if one.in_background]
    for name in task.wait.on:
        if name not in in_background:
            what = f'task {task.path}: await: "{name}" does not run in the background before it'
            hint = near(name, in_background) if in_background else "Only tasks with async: true, or with emit and no await, are"
            problems.add(task.line, what, hint)
