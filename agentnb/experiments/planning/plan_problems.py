"""The problems of an experiment, found before anything runs, each expressed as a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.agent.price_check import check_has_price
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, MissingKey, SettingsError
from agentnb.examples import path as example
from agentnb.experiments.planning.check_time import TooSlow, run_check_here
from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.experiment_tasks import ExperimentTask, list_names, names_column, prompt_of
from agentnb.experiments.planning.judge_verdicts import AskedCheck
from agentnb.experiments.planning.run_folders import names_folder, row_in_copy
from agentnb.experiments.planning.variants import Variant, equal_variants, forked_changes, is_persona, name_of
from agentnb.interchange.files import load_trace
from agentnb.models.model import Model
from agentnb.models.registry import check_key, check_model, make_model
from agentnb.runtime.budget import Budget
from agentnb.workflow.files.declared_files import model_names
from agentnb.workflow.workflow import Workflow

MAX_SHAPES = 20
"""Maximum number of rows, each with different columns, on which a check is tried."""


def plan_problems(tasks: Sequence[ExperimentTask], variants: Sequence[Variant], *, aa: bool) -> list[str]:
    """Return the combined problems of the tasks and variants. ``aa``: whether variants may be equal."""
    problems: list[str] = []
    twice = [name for name, count in Counter(task.id for task in tasks).items() if count > 1]
    if twice:
        problems.append(f"Tasks with the same id: {list_names(twice)}. Give each task its own id")
    if not aa:
        for first, second in equal_variants(variants):
            problems.append(f"The variants {first} and {second} are equal. To see what chance alone does: aa=True")
    problems += _template_problems(tasks, variants)
    if any(task.run is not None for task in tasks):
        for variant in variants:
            if isinstance(variant.work, Workflow):
                problems.append(f"Variant {variant.name}: a workflow cannot be forked from recorded runs")
            elif unknown := forked_changes(variant):
                problems.append(f"Variant {variant.name}: a fork of a recorded run keeps its {', '.join(unknown)}")
    return problems


def settings_problems(settings: Mapping[str, Any]) -> Iterable[str]:
    """Yield the problems of an experiment's settings, checked individually."""
    for name in ("repeats", "places"):
        value = settings[name]
        if value is not None and (type(value) is not int or value < 1):
            yield f"{name}={value!r}: give a whole number of at least 1"
    if type(settings["seed"]) is not int:
        yield f"seed={settings['seed']!r}: give a whole number"
    if settings["seeds"] not in ("shared", "independent"):
        yield f"seeds={settings['seeds']!r}: choose shared or independent"
    if settings["executor"] not in ("kernel", "processes") and not callable(getattr(settings["executor"], "submit", None)):
        yield f"executor={settings['executor']!r}: choose kernel, processes, or an object with submit, such as a Dask client"
    for name, unit in (("budget", "US dollars"), ("check_seconds", "seconds")):
        value = settings[name]
        is_amount = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        if not is_amount and not (name == "budget" and value is None):
            yield f"{name}={value!r}: give {unit}, more than 0"


def _template_problems(tasks: Sequence[ExperimentTask], variants: Iterable[Variant]) -> Iterable[str]:
    """Yield the columns that the variants' templates name but that the rows lack."""
    for variant in variants:
        if variant.template is None:
            continue
        if tasks and not names_column(variant.template, tasks[0].row):
            yield f"Variant {variant.name}: its prompt uses no column, so all tasks are the same. Add {{{{ prompt }}}} to it"
        lacking: dict[str, list[str]] = {}
        for task in tasks:
            try:
                prompt_of(task.row, variant.template)
            except SettingsError as error:
                lacking.setdefault(str(error), []).append(task.id)
        for problem, ids in lacking.items():
            yield f"Variant {variant.name}, tasks {list_names(ids)}: {problem}"


def example_problems(
    checks: Sequence[Check], tasks: Sequence[ExperimentTask], seconds: float, *, have_folders: bool
) -> list[str]:
    """Return the checks that raise or take longer than ``seconds`` on a recorded example run with the tasks' rows.

    Tries one row per set of columns. ``have_folders``: whether the runs of all tasks have their own folders. If so, or if the
    row has a folder, the check gets a copy, as in a run.
    """
    run = load_trace(example("healthy"))
    shapes = {frozenset(task.row): task.row for task in reversed(tasks)}
    rows = [*shapes.values()][: -MAX_SHAPES - 1 : -1]
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if any(check.takes_row for check in checks):
            rows = [
                row_in_copy(row, Path(folder, str(number))) if have_folders or names_folder(row) else row
                for number, row in enumerate(rows)
            ]
        return [problem for check in checks if (problem := _check_problem(check, run, rows, tasks, seconds))]


def _check_problem(
    check: Check, run: Run, rows: Sequence[Mapping[str, Any]], tasks: Sequence[ExperimentTask], seconds: float
) -> str:
    for row in rows if check.takes_row else rows[:1]:
        error = run_check_here(check, run, row, seconds).error
        if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
            lacking = [task.id for task in tasks if error.args[0] not in task.row]
            whose = f"the tasks {list_names(lacking)} lack" if len(lacking) < len(tasks) else "the rows lack"
            return f"The check {check.name} reads the column {error}, which {whose}: they have {', '.join(row)}"
        if isinstance(error, TooSlow):
            return f"The check {check.name}, on an example run: {error}. Give checks more time: check_seconds={10 * seconds:g}"
        if error is not None:
            return f"The check {check.name} raises on an example run: {type(error).__name__}: {error}".partition("\n")[0]
    return ""


def check_models(variants: Sequence[Variant], models: Sequence[str | Model], budget: float | None) -> list[str]:
    """Return the problems of the models: unknown names, missing keys and, if there is a budget, missing prices."""
    problems: list[str] = []
    agents = [variant.work for variant in variants if isinstance(variant.work, Agent)]
    own = [agent.used_model for agent in agents] if not models else []
    declared = [
        name for variant in variants if isinstance(variant.work, Workflow) for name in model_names(variant.work.declared)
    ]
    for model in {name_of(model): model for model in (*models, *own, *declared)}.values():
        try:
            _check_usable(model)
        except MissingKey as error:
            problems.append(str(error))
        except AgentnbError as error:
            problems.append(f"{name_of(model)}: {error}")
    twice = [name for name, count in Counter(map(name_of, models)).items() if count > 1]
    if twice:
        problems.append(f"Duplicate model names: {list_names(twice)}. List each once, or give the objects distinct names")
    if problems or budget is None:
        return problems
    return [*_price_problems(variants, models, budget)]


def _check_usable(model: str | Model) -> None:
    """Raise `AgentnbError` if a model is unknown or its key is missing."""
    check_model(model)
    if isinstance(model, str):
        check_key(model)


def judge_problems(checks: Iterable[Check], budget: float | None) -> list[str]:
    """Return the problems of the judges' models: unknown names, missing keys and missing prices."""
    problems: list[str] = []
    for check in checks:
        if isinstance(check.function, AskedCheck):
            model = check.function.model
            try:
                _check_usable(model)
                if budget is not None:
                    check_has_price(make_model(model), Agent(model), Budget(budget))
            except AgentnbError as error:
                problems.append(f"The judge {check.name}: {error}")
    return problems


def _price_problems(variants: Iterable[Variant], models: Sequence[str | Model], budget: float) -> Iterable[str]:
    problems: dict[str, None] = {}
    for variant in variants:
        for model in models or (variant.model,):
            try:
                if isinstance(variant.work, Agent) and model is not None:
                    check_has_price(make_model(model), variant.work, Budget(budget))
                elif isinstance(variant.work, Workflow):
                    orchestration = variant.work.orchestration(model=model)
                    if orchestration.check is not None:
                        orchestration.check(Budget(budget))
            except AgentnbError as error:
                problems[str(error)] = None
    return problems


def are_free(variants: Iterable[Variant], models: Sequence[str | Model], checks: Iterable[Check] = ()) -> bool:
    """True if all models, including the judges', are free, that is, personas without a price."""
    used: list[str | Model | None] = [*models] or [variant.model for variant in variants]
    used += [check.function.model for check in checks if isinstance(check.function, AskedCheck)]
    return all(model is not None and is_persona(model) and "price=" not in name_of(model) for model in used)
