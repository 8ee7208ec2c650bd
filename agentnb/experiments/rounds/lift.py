"""Lift: short-term outcomes after guidance, as an effect if sets were drawn by round, and otherwise as an association."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.detect.agent_runs import works_in_steps
from agentnb.detect.frames import frame_from_rows
from agentnb.detect.intervals import Share, difference, mean_interval, wilson
from agentnb.detect.run import Run
from agentnb.detect.scores import share_columns
from agentnb.experiments.planning.near_outcomes import FOLLOWED, NearOutcome, find_near_outcome
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.recorded_arms import name_of_task
from agentnb.experiments.rounds.injections import Injection, InjectionKind, injections_of, is_drawn_by_round, would_be_given
from agentnb.experiments.statistics.multiplicity import adjust_holm
from agentnb.experiments.statistics.task_values import MIN_TASKS
from agentnb.experiments.statistics.weighted import WeightedDifference, WeightedDraw, estimate_weighted_difference
from agentnb.guidance.sets import GuidanceSet
from agentnb.interchange.files import RunSource, iter_traces, warn_of
from agentnb.interchange.trace_file import Problem
from agentnb.tables.former_columns import with_former_columns

if TYPE_CHECKING:
    import pandas as pd

EFFECT, ASSOCIATION = "effect", "association"
OF_EFFECT = "averaged over later draws; does not extend to whole runs, because the draws also changed later rounds"
OF_ASSOCIATION = "no set was drawn for the round (no p_value): the run's own course triggered guidance and may explain it"
NO_OTHERS = "no run without it: anyway and lift are unknown (NaN)"
ONE_RUN = "; no interval (NaN): one of the two rates is that of a single run"
_SEED = re.compile(r"(?<=[?&])seed=\d+&?")


class GuidanceKind(NamedTuple):
    """A kind of guidance from one set, for one model."""

    model: str
    set: str
    version: str
    place: InjectionKind


class DrawnInjection(NamedTuple):
    """An injection in a run."""

    model: str
    cluster: Hashable
    """The task of the run, or the cluster of that task."""
    run_id: str
    injection: Injection


def lift(runs: RunSource | Results, *, outcome: str | None = None) -> pd.DataFrame:
    """Return one row per model, guidance set, kind of guidance and trigger: rates of an outcome with and without guidance.

    ``outcome``: ``followed`` if the reply followed the guidance; ``call_worked`` if a work tool ran and succeeded in the round;
    ``no_loop_within_3`` if no loop was found within that many rounds. The default is the outcome in the experiment's plan,
    otherwise ``followed``. ``trigger``: the reason for the round.

    If a set was drawn for each round (``assign="round"``), ``claim`` is ``effect``: the mean after draws of the set minus the
    mean after draws of the first set (``against``), weighted by the inverse of the propensity (Hájek) and clustered by task,
    with ``p_value`` and ``p_adjusted``, adjusted by Holm's method over all effects in the table. ``judged`` and
    ``judged_without`` count the draws in the estimate. The effect is on this outcome, averaged over later draws, and makes no
    claim about complete runs. For other runs ``claim`` is ``association``: ``anyway`` is the share among rounds of the same
    model that would have had the guidance but did not, such as those of an arm with ``off``, and shares are means over runs.
    ``note`` explains the claim. Intervals are 95 per cent (``_low``, ``_high``). Calls no model. Raises `SettingsError` if the
    outcome is unknown, or while results are covered.
    """
    planned, tasks = "", {}
    if isinstance(runs, Results):
        runs.check_open()
        planned = str(runs.plan.frozen.get("near_outcome", ""))
        tasks = {row.run_id: row.cluster_key for row in runs.rows if row.run_id}
        runs = map(runs.run, tasks)
    name = outcome or planned or FOLLOWED
    measure = find_near_outcome(name)
    drawn: list[DrawnInjection] = []
    others: list[Run] = []
    problems: list[Problem] = []
    for run in iter_traces(runs, problems=problems):
        if works_in_steps(run):
            continue
        if is_drawn_by_round(run):
            run_fields = _without_seed(run.model), tasks.get(run.id, name_of_task(run)), run.id
            drawn += [DrawnInjection(*run_fields, injection) for injection in injections_of(run, measure)]
        else:
            others.append(run)
    warn_of(problems)
    unplanned = f"; the planned outcome is {planned}" if planned and name != planned else ""
    return _table([*effects(drawn, name, unplanned), *_associations(others, measure, name)])


# Effects of draws


def effects(drawn: Iterable[DrawnInjection], outcome: str, unplanned: str = "") -> list[dict[str, Any]]:
    """Return the rows of effects, with p values adjusted over all of them."""
    kinds: dict[tuple[str, str, InjectionKind], list[DrawnInjection]] = {}
    for member in drawn:
        kinds.setdefault((member.model, member.injection.against, member.injection.place), []).append(member)
    rows = [
        _effect_row(model, against, injection_kind, words, members, outcome, unplanned)
        for (model, against, injection_kind), members in sorted(kinds.items())
        for words in sorted(
            {(member.injection.set, member.injection.version) for member in members if member.injection.set != against}
        )
    ]
    adjusted = adjust_holm([row["p_value"] for row in rows])
    return [{**row, "p_adjusted": value} for row, value in zip(rows, adjusted, strict=True)]


def _effect_row(
    model: str,
    against: str,
    injection_kind: InjectionKind,
    words: tuple[str, str],
    members: Sequence[DrawnInjection],
    outcome: str,
    unplanned: str,
) -> dict[str, Any]:
    arms = [
        [draw for draw in members if is_of_arm(draw.injection) and not {words[0], against}.isdisjoint(draw.injection.givers)]
        for is_of_arm in (
            lambda injection: (injection.set, injection.version) == words,
            lambda injection: injection.set == against,
        )
    ]
    judged = [[draw for draw in arm if draw.injection.value is not None] for arm in arms]
    estimate = estimate_weighted_difference(
        WeightedDraw(draw.cluster, arm is judged[0], draw.injection.propensity, bool(draw.injection.value))
        for arm in judged
        for draw in arm
    )
    low, high = estimate.interval or (None, None)
    return {
        **_head(GuidanceKind(model, *words, injection_kind), outcome, EFFECT, against),
        **_counts(*judged),
        "tasks": len({draw.cluster for arm in judged for draw in arm}),
        "unknown": sum(map(len, arms)) - sum(map(len, judged)),
        **share_columns("share", Share(estimate.first)),
        **share_columns("anyway", Share(estimate.second)),
        **share_columns("lift", Share(estimate.value, low, high)),
        "p_value": estimate.p_value,
        "p_adjusted": None,
        "note": OF_EFFECT
        + _too_few(estimate)
        + _count_unknown(*[len(arm) - len(of) for arm, of in zip(arms, judged, strict=True)])
        + unplanned,
    }


def _counts(mine: Sequence[DrawnInjection], others: Sequence[DrawnInjection]) -> dict[str, int]:
    return {
        "runs": len({draw.run_id for draw in mine}),
        "judged": len(mine),
        "runs_without": len({draw.run_id for draw in others}),
        "judged_without": len(others),
    }


def _too_few(estimate: WeightedDifference) -> str:
    if estimate.interval is not None:
        return ""
    lacks = "interval and no p_value" if estimate.value is not None else "lift"
    return f"; no {lacks} (NaN): each set needs draws in {MIN_TASKS} tasks, and one has draws in only {min(estimate.clusters)}"


def _count_unknown(after: int, without: int) -> str:
    if not after and not without:
        return ""
    counts = f"{after:,} and {without:,} outcomes are unknown (after the set, after the other) and left out"
    return f"; {counts}: if that depends on the set, the effect is biased"


# Associations in other runs


def _associations(runs: Iterable[Run], measure: NearOutcome, outcome: str) -> list[dict[str, Any]]:
    """Return the rows of associations: rounds with guidance, and rounds of other runs that would have had the same guidance."""
    with_guidance: dict[GuidanceKind, dict[str, list[bool]]] = {}
    without: dict[GuidanceKind, dict[str, list[bool]]] = {}
    sets: dict[tuple[str, str, str], GuidanceSet] = {}
    measured = [(run, _without_seed(run.model), measure(run)) for run in runs]
    for run, model, value in measured:
        for round_ in run.rounds:
            for guidance, verdict in zip(round_.guidance, round_.followed, strict=False):
                kind = GuidanceKind(model, guidance.set, guidance.version, InjectionKind(guidance.cell, round_.reason))
                _add(with_guidance, kind, run, value(round_.index, verdict.followed))
        if (used := run.guidance_in_force).texts:
            sets.setdefault((model, used.set, used.version), GuidanceSet.as_logged(used.set, used.texts))
    for run, model, value in measured:
        for (of_model, name, version), words in sets.items():
            if of_model == model:
                for index, injection_kind, followed in _lacking(run, words):
                    _add(without, GuidanceKind(model, name, version, injection_kind), run, value(index, followed))
    return [_association_row(kind, by_run, without.get(kind, {}), outcome) for kind, by_run in sorted(with_guidance.items())]


def _add(values: dict[GuidanceKind, dict[str, list[bool]]], kind: GuidanceKind, run: Run, value: bool | None) -> None:
    if value is not None:
        values.setdefault(kind, {}).setdefault(run.id, []).append(value)


def _lacking(run: Run, words: GuidanceSet) -> Iterator[tuple[int, InjectionKind, bool | None]]:
    """Yield the guidance that a set would have given in rounds that did not get it, and whether the replies followed
    it anyway.
    """
    if run.guidance_in_force.version == words.version and not run.drawn:
        return
    for index, injection_kind, followed in would_be_given(run, words):
        if injection_kind.kind not in {guidance.cell for guidance in run.rounds[index].guidance}:
            yield index, injection_kind, followed


def _association_row(
    kind: GuidanceKind, by_run: Mapping[str, list[bool]], without: Mapping[str, list[bool]], outcome: str
) -> dict[str, Any]:
    mine, theirs = _by_run(by_run), _by_run(without)
    lifted = difference(mine, theirs)
    return {
        **_head(kind, outcome, ASSOCIATION, ""),
        "runs": len(by_run),
        "judged": sum(map(len, by_run.values())),
        "runs_without": len(without),
        "judged_without": sum(map(len, without.values())),
        "tasks": None,
        "unknown": None,
        **share_columns("share", mine),
        **share_columns("anyway", theirs),
        **share_columns("lift", lifted),
        "p_value": None,
        "p_adjusted": None,
        "note": OF_ASSOCIATION + ("" if lifted.low is not None else ONE_RUN) if without else NO_OTHERS,
    }


def _by_run(values: Mapping[str, list[bool]]) -> Share:
    """Return the mean of the runs' shares. If all are 0 or 1, use Wilson's interval, whose width is never 0."""
    shares = [sum(of_run) / len(of_run) for of_run in values.values()]
    return wilson(int(sum(shares)), len(shares)) if {*shares} <= {0.0, 1.0} else mean_interval(shares)


# The table


def _without_seed(model: str) -> str:
    return _SEED.sub("", model).rstrip("?&")


def _head(kind: GuidanceKind, outcome: str, claim: str, against: str) -> dict[str, str]:
    columns = {
        "model": kind.model,
        "set": kind.set,
        "version": kind.version,
        "kind": kind.place.kind,
        "trigger": kind.place.trigger,
    }
    return {**columns, "outcome": outcome, "claim": claim, "against": against}


_COUNTS = ("runs", "judged", "runs_without", "judged_without", "tasks", "unknown")
_SHARES = [f"{name}{end}" for name in ("share", "anyway", "lift") for end in ("", "_low", "_high")]
COLUMNS = {
    **dict.fromkeys(("model", "set", "version", "kind", "trigger", "outcome", "claim", "against"), "str"),
    **dict.fromkeys(_COUNTS, "Int64"),
    **dict.fromkeys((*_SHARES, "p_value", "p_adjusted"), "float64"),
    "note": "str",
}
FORMER = {"followed": "share", "followed_low": "share_low", "followed_high": "share_high"}


def _table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    return with_former_columns(frame_from_rows(rows, COLUMNS), FORMER)
