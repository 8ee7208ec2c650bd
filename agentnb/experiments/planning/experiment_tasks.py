"""Tasks of an experiment: rows with an id and a prompt, functions that return such a row for a seed, or recorded runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any, TypeAlias

from agentnb.core.messages import encodable
from agentnb.detect.agent_runs import check_of_agent
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError
from agentnb.experiments.planning.content_hash import content_hash, source_of
from agentnb.experiments.planning.run_folders import WORK_DIR, folder_content, names_folder
from agentnb.interchange.files import load_traces

ID, PROMPT, CLUSTER = "id", "prompt", "cluster"
"""Special columns: the name of the task, its prompt, and its group of related tasks."""
TRACES, AT_ROUND = "traces", "at_round"
"""Keys for tasks from recorded runs: the source of the runs, and the first live round of a fork."""
_FIELD = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_NAME = re.compile(r"[^\W\d][\w -]*")
"""Unambiguous column names; any other text in braces is left as it is unless it names a column."""
MAX_NAMED = 5
"""Maximum number of tasks named in a problem."""

TaskFunction: TypeAlias = Callable[[int], Mapping[str, Any]]
"""Makes a task's row for a seed."""
ClusterKey: TypeAlias = tuple[bool, str]
"""(True, cluster), or (False, task) for a task without a cluster."""


@dataclass(frozen=True, slots=True)
class ExperimentTask:
    """A task that every variant runs."""

    id: str
    row: Mapping[str, Any] = field(default_factory=dict)
    """The task's columns; for a function, those for seed 0."""
    make: TaskFunction | None = None
    run: Run | None = None
    """The recorded run to fork."""
    at_round: int = 1
    content: str = ""
    """Hash of the row, the function's source, or the recorded events before the round."""
    files: str = ""
    """Hash of the row's folder; empty if the row has none, or for a function, whose rows may name several folders."""

    @property
    def cluster(self) -> str:
        """The group of related tasks; empty if the task belongs to none."""
        group = self.row.get(CLUSTER)
        return "" if _is_gap(group) else str(group)

    @property
    def cluster_key(self) -> ClusterKey:
        """Key of its cluster, or of the task itself."""
        return cluster_key(self.cluster, self.id)

    def row_for(self, seed: int) -> Mapping[str, Any]:
        """Return the columns of the task for this seed."""
        if self.make is None:
            return self.row
        row = {**_make_row(self.make, seed), ID: self.id}
        _check_prompt(row)
        return row


def cluster_key(cluster: str, task: str) -> ClusterKey:
    """Return a key that is unique to a cluster. A task without a cluster never shares the key of a cluster that has the task's
    name.
    """
    return bool(cluster), cluster or task


def places_by_cluster(tasks: Sequence[ExperimentTask]) -> list[list[int]]:
    """Return the positions of the tasks in each cluster, ordered by the cluster's first task."""
    clusters: dict[ClusterKey, list[int]] = {}
    for position, task in enumerate(tasks):
        clusters.setdefault(task.cluster_key, []).append(position)
    return [*clusters.values()]


def read_tasks(source: Any, problems: list[str]) -> tuple[ExperimentTask, ...]:
    """Return the tasks in a data frame, in a list of rows and functions, or in ``{"traces": SOURCE, "at_round": K}``.

    Problems are appended to ``problems``, each as a sentence.
    """
    tasks: list[ExperimentTask] = []
    refused: dict[str, tuple[list[str], Exception]] = {}
    """Row numbers and first error of each problem; a column that is missing from a data frame counts as a single problem."""
    for number, item in enumerate(_items(source, problems), 1):
        try:
            tasks.append(item if isinstance(item, ExperimentTask) else _task(item))
        except (SettingsError, TypeError) as error:
            refused.setdefault(getattr(error, "what", str(error)), ([], error))[0].append(str(number))
    for numbers, first in refused.values():
        problems.append(f"{'Tasks' if len(numbers) > 1 else 'Task'} {list_names(numbers)}: {first}")
    if not tasks and not problems:
        problems.append('The experiment has no tasks. Give rows with an id and a prompt: [{"id": "a", "prompt": "..."}]')
    return tuple(tasks)


def fill_in(template: str, row: Mapping[str, Any]) -> str:
    """Replace each ``{{ column }}`` in the text. Raises `SettingsError` if the row lacks a column."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not _is_gap(row.get(name)):
            return str(row[name])
        if not _NAME.fullmatch(name):
            return match.group()
        problem = f"the prompt uses {{{{ {name} }}}}, but the row has no such column"
        raise SettingsError(problem, "To send literal braces, put the text into a column and name the column")

    return _FIELD.sub(value, template)


def names_column(template: str, row: Mapping[str, Any]) -> bool:
    """True if a text names a column, whether or not the row has it."""
    return any(name == PROMPT or name in row or _NAME.fullmatch(name) for name in _FIELD.findall(template))


def list_names(names: Sequence[str]) -> str:
    """List the first few names, and say how many more there are."""
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"


def prompt_of(row: Mapping[str, Any], template: str | None) -> str:
    """Return the prompt of a task: the row's prompt, inserted into the variant's template, if any. Raises `SettingsError`."""
    prompt = fill_in(str(row.get(PROMPT, "")), row)
    return encodable(prompt if template is None else fill_in(template, {**row, PROMPT: prompt}))


def _items(source: Any, problems: list[str]) -> Iterable[Any]:
    if hasattr(source, "to_dict") and hasattr(source, "columns"):
        return [_drop_gaps(row) for row in source.to_dict("records")]
    if isinstance(source, Mapping) and TRACES in source:
        return _of_traces(source, problems)
    if callable(source) or isinstance(source, Mapping):
        return [source]
    if isinstance(source, str | Path):
        problems.append(
            f'tasks={str(source)!r} is a path. To fork recorded runs: tasks={{"traces": {str(source)!r}, "at_round": 3}}'
        )
        return []
    if not isinstance(source, Iterable):
        problems.append(f"tasks={source!r} is neither a data frame nor a list of rows")
        return []
    return source


def _drop_gaps(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row of a data frame as plain values, without missing values."""
    plain = {str(name): value.item() if hasattr(value, "item") else value for name, value in row.items()}
    return {name: value for name, value in plain.items() if not _is_gap(value)}


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _task(item: Any) -> ExperimentTask:
    if callable(item):
        row = _make_row(item, 0)
        name = str(row.get(ID) or getattr(item, "__name__", type(item).__name__))
        _check_prompt(row)
        return ExperimentTask(name, {ID: name, **row}, make=item, content=content_hash(source_of(item), row, *_folder_of(row)))
    if not isinstance(item, Mapping):
        raise SettingsError(f"{item!r} is neither a row nor a function of a seed")
    row = {str(name): value for name, value in item.items()}
    if ID not in row:
        columns = f"It has {', '.join(row)}" if row else "It is empty"
        raise SettingsError(f"the row has no column {ID}", f"{columns}. Add it to a frame: frame.assign({ID}=frame.index)")
    _check_prompt(row)
    folder = _folder_of(row)
    return ExperimentTask(encodable(str(row[ID])), row, content=content_hash(row, *folder), files="".join(folder))


def _folder_of(row: Mapping[str, Any]) -> list[str]:
    """Return a list with the hash of a task's folder; empty if the task has none. Raises `SettingsError`."""
    return [folder_content(row[WORK_DIR])] if names_folder(row) else []


def _make_row(make: TaskFunction, seed: int) -> Mapping[str, Any]:
    try:
        row = make(seed)
    except Exception as error:  # whatever the person's function raises
        raise SettingsError(f"{getattr(make, '__name__', make)}({seed}) raised {type(error).__name__}: {error}") from error
    if not isinstance(row, Mapping):
        raise SettingsError(f"{getattr(make, '__name__', make)}({seed}) returned {row!r}, not a row")
    return row


def _check_prompt(row: Mapping[str, Any]) -> None:
    if not str(row.get(PROMPT) or "").strip():
        raise SettingsError(f"the row has no {PROMPT}")
    fill_in(str(row[PROMPT]), row)


def _of_traces(source: Mapping[str, Any], problems: list[str]) -> Sequence[ExperimentTask]:
    at_round = source.get(AT_ROUND, 1)
    tasks: list[ExperimentTask] = []
    try:
        runs = load_traces(source[TRACES])
    except AgentnbError as error:
        problems.append(str(error))
        return []
    if extra := set(source) - {TRACES, AT_ROUND}:
        problems.append(f"Tasks of recorded runs have {TRACES} and {AT_ROUND}, not {', '.join(sorted(extra))}")
    for run in runs:
        try:
            check_of_agent(run, "it cannot be forked")
        except SettingsError as error:
            problems.append(str(error))
            continue
        if type(at_round) is not int or not 1 <= at_round <= len(run.rounds) + 1:
            problems.append(f"at_round={at_round!r}: run {run.id} has {len(run.rounds)} rounds, counted from 1")
            continue
        task = run.origin.task if run.origin is not None else ""
        row = {ID: run.id, PROMPT: run.prompt, **({CLUSTER: task} if task else {})}
        tasks.append(ExperimentTask(run.id, row, run=run, at_round=at_round, content=content_hash(run.id, at_round)))
    return tasks
