"""The methods of an experiment in words: its plan, its randomisation, and the models and versions that it used."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from agentnb.core.log.events import ModelReplied
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.errors import AgentnbError
from agentnb.experiments.design import DRAWS
from agentnb.experiments.planning.judge_verdicts import AskedCheck
from agentnb.experiments.planning.variants import Variant, name_of
from agentnb.experiments.report import lift_section
from agentnb.experiments.report.document import Block, Facts, Grid, Heading, Paragraph
from agentnb.experiments.report.lift_section import names_of
from agentnb.experiments.report.setup import Setup
from agentnb.experiments.report.versions import versions_here
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.rows import Row
from agentnb.experiments.views.numbers import UNKNOWN, money, total_money
from agentnb.guidance.draws import RandomGuidance
from agentnb.guidance.sets import BUILT_IN, GuidanceSet
from agentnb.workflow.workflow import Workflow

MAX_OF_A_SETTING = 200
ANALYSIS = (
    "Variants are compared within tasks: repeats are averaged within a task and model, models within a task, and tasks have"
    " equal weight",
    "Two tests of the mean must agree: sign flips of whole clusters, and t with cluster-robust standard errors (CR2)",
    "Each 95 % interval covers the intervals of both tests; multiple comparisons are Holm-adjusted",
    "Runs ended by a limit, a policy or an unusable reply: a check that passes or fails is not passed, one that gives a number,"
    " no value or an error is missing, and a check or measure of the record counts",
    "Runs ended by the provider, a kill or a person: missing",
    "The second analysis leaves out all of these runs",
)
NOT_NAMED = "not named"
"""Placeholder for a model whose replies do not name it."""


def methods_of(results: Results, setup: Setup) -> Iterator[Block]:
    """Yield the section on methods."""
    yield Heading("Methods")
    yield Paragraph(_shape(results, setup))
    if prompt := setup.tasks[0].row.get("prompt"):
        yield Paragraph(f"The prompt of the first task, {setup.tasks[0].id}: {first_line(str(prompt), MAX_OF_A_SETTING)}")
    yield Paragraph(_randomisation(results, setup))
    yield Paragraph(_analysis(results, setup))
    yield Heading("Variants", is_inner=True)
    yield Grid(["variant", "definition"], [[variant.name, _change(variant)] for variant in setup.variants])
    yield Heading("Models", is_inner=True)
    yield Grid(*_models(results), numbers=range(2, 6))
    yield Paragraph(
        "Models are listed under their names in the experiment and in the logged replies of their providers."
        " Costs are in US dollars, as logged with each reply: by genai-prices (version below), or by price= in the name of the"
        " model."
    )
    yield Heading("Record", is_inner=True)
    yield Facts([*_record(results, setup)])


def _shape(results: Results, setup: Setup) -> str:
    names = ", ".join(names_of(results, setup))
    clusters = {task.cluster for task in setup.tasks if task.cluster}
    of_clusters = f" in {pluralize(len(clusters), 'cluster')}" if clusters else ""
    repeats = pluralize(int(setup.settings["repeats"]), "repeat")
    planned = pluralize(sum(setup.planned.values()), "run")
    tasks = f"{pluralize(len(setup.tasks), 'task')}{of_clusters}"
    if results.is_by_round:
        drawn = f"A guidance set ({names}) was drawn for each round"
        shape = f"{drawn}, in runs on {tasks}, {repeats} of each task and model"
        who = "A run may draw every set"
    else:
        variants = pluralize(len(setup.variants), "variant")
        shape = f"{variants} ({names}) were planned on {tasks}, {repeats} of each task, variant and model"
        who = "Every variant was planned for every task"
    frozen = ", ".join(results.plan.frozen)
    return f"{shape}, {planned} in all. {who}. The plan was frozen with the first run: {frozen}."


def _randomisation(results: Results, setup: Setup) -> str:
    shared = setup.settings["seeds"] == "shared"
    seeds = "The runs of a task and repeat have the same seed in all variants" if shared else "Each variant has its own seeds"
    unseeded = f" These models do not accept a seed, so {DRAWS}: {', '.join(results.unseeded)}." if results.unseeded else ""
    seed = setup.settings["seed"]
    if results.is_by_round:
        return f"The order of runs was drawn with the seed {seed}, and the sets with the seed of each run.{unseeded}"
    return (
        "Blocks of a task, model and repeat were run in random order, with random order of variants in each block; both were"
        f" drawn with the seed {seed}. {seeds}.{unseeded}"
    )


def _analysis(results: Results, setup: Setup) -> str:
    checks = [check.name for check in setup.checks if check.name != results.primary]
    near = results.plan.frozen.get("near_outcome")
    primary = f"The outcome of rounds is {near}; that of whole runs, not used to compare sets, is {results.primary}"
    sentences = [
        primary if results.is_by_round else f"The primary outcome is {results.primary}{_meaning(results, setup)}",
        *([f"Further checks: {', '.join(checks)}"] if checks else []),
        *[f"{name} is a verdict of the model {model}" for name, model in _judges(setup)],
        *(lift_section.ANALYSIS if results.is_by_round else ANALYSIS),
    ]
    if (look := results.look) is not None:
        planned = f"{pluralize(look.of, 'look')} were planned after whole tasks, with alpha spending of O'Brien-Fleming type"
        sentences.append(f"{planned}: these are the results of {look}, whose level is {look.level:.2g}")
    return f"{'. '.join(sentences)}."


def _meaning(results: Results, setup: Setup) -> str:
    """Return the docstring of the primary's function as the end of a sentence; empty if it has none."""
    function = next((check.function for check in setup.checks if check.name == results.primary), None)
    text = (inspect.getdoc(function) or "").partition("\n\n")[0] if inspect.isfunction(function) else ""
    return f": {first_line(text, MAX_OF_A_SETTING).rstrip('.')}" if text else ""


def _judges(setup: Setup) -> list[tuple[str, str]]:
    """Return the checks that ask a model, each with the model's name."""
    return [(check.name, name_of(check.function.model)) for check in setup.checks if isinstance(check.function, AskedCheck)]


def _change(variant: Variant) -> str:
    """Describe a variant."""
    if isinstance(variant.work, Workflow):
        return f"a workflow (content {variant.content})"
    changes = [f"{name} {_describe_value(value)}" for name, value in (variant.changes or {}).items()]
    changes += [f"prompt {variant.template}"] if variant.template is not None else []
    text = ", ".join(changes) or "an agent with its own settings"
    return f"{first_line(text, MAX_OF_A_SETTING)} (content {variant.content})"


def _describe_value(value: object) -> str:
    if isinstance(value, RandomGuidance):
        among = ", ".join(f"{name} ({propensity:.3g})" for name, propensity in value.among.items())
        return f"drawn by {value.assign} among {among}"
    if isinstance(value, GuidanceSet) and value.name not in BUILT_IN:
        return f"{value.name} ({'; '.join(f'{part}: {value.parts[part]}' for part in value.own_parts())})"
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return str(name) if isinstance(name, str) else repr(value)


def _models(results: Results) -> tuple[list[str], list[list[str]]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results.rows:
        groups.setdefault((row.model, _find_served_names(results, row)), []).append(row)
    rows = [[*names, f"{len(group):,}", *_spent(group)] for names, group in sorted(groups.items())]
    return ["model", "as its provider named it", "runs", "input tokens", "output tokens", "cost"], rows


def _find_served_names(results: Results, row: Row) -> str:
    """Return the provider's names for the model, as given in a run's replies."""
    if not row.run_id:
        return NOT_NAMED
    try:
        events = results.run(row.run_id).events
    except AgentnbError:
        return "log not stored"
    names = Counter(str(event.metadata.get("model") or "") for event in events if isinstance(event, ModelReplied))
    return ", ".join(sorted(name for name in names if name)) or NOT_NAMED


def _spent(rows: Sequence[Row]) -> Iterator[str]:
    for counts in ([row.input_tokens for row in rows], [row.output_tokens for row in rows]):
        yield UNKNOWN if None in counts else f"{sum(count or 0 for count in counts):,}"
    yield total_money(row.cost for row in rows)


def _record(results: Results, setup: Setup) -> Iterator[tuple[str, str, str]]:
    plan, versions = results.plan, versions_here()
    ends = sorted(row.at for row in results.rows if row.at is not None)
    yield "Experiment", plan.id, ""
    yield "Hash of the plan", plan.hash, "of everything frozen"
    yield "Plan frozen", _date(plan.begun_at), "with the first run"
    yield "Runs finished", f"{_date(ends[0])} to {_date(ends[-1])}" if ends else UNKNOWN, ""
    yield "Seed", str(setup.settings["seed"]), "of order and draws"
    yield "Versions at the start", _versions(plan.versions) if plan.versions else UNKNOWN, ""
    if versions != plan.versions:
        yield "Versions of this report", _versions(versions), ""
    if _judges(setup):
        yield "Judging", total_money(row.judging_cost for row in results.rows), "cost of verdicts, in addition to the runs"
    if setup.settings["budget"] is not None:
        yield "Budget", money(setup.settings["budget"]), "for all runs"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _date(at: datetime | None) -> str:
    return UNKNOWN if at is None else f"{at:%Y-%m-%d %H:%M} UTC"


def add_date(text: str, at: datetime | None) -> str:
    """Return a deviation with its date."""
    return text if at is None else f"{text} ({_date(at)})"
