"""Scores for detectors: their findings compared with labels, always alongside run length and naive rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentnb.detect.detector import Finding
from agentnb.detect.frames import frame_from_rows
from agentnb.detect.intervals import Share, auc, f1_interval, wilson
from agentnb.detect.presets.preset_registry import DEFAULT, NAIVE
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors, detect_name, findings
from agentnb.errors import SettingsError

if TYPE_CHECKING:
    import pandas as pd

FAMILIES = ("loop", "stall", "limit")
"""Families of findings that mean "this run repeats itself"; failures and discipline do not."""
RUN_LENGTH = "run_length"
ALL = "all"
Labels: TypeAlias = "Mapping[str, Any] | Sequence[Any]"
"""True for each run that repeats itself, by run id or in the order of the runs. Runs without a label are skipped."""


class Labelled(NamedTuple):
    """A run with its label."""

    run: Run
    is_positive: bool
    group: str = ""


class Outcome(NamedTuple):
    """A detector's verdict on a labelled run."""

    one: Labelled
    fires: bool
    alarms: frozenset[int]
    """The rounds with findings."""


def pair_labels(runs: Iterable[Run], labels: Labels, groups: Mapping[str, str] | None = None) -> list[Labelled]:
    """Return the runs that have a label. Raises `SettingsError` for a wrong number of labels, or if no run has one."""
    all_runs = [*runs]
    if isinstance(labels, Mapping):
        pairs = [(run, labels[run.id]) for run in all_runs if labels.get(run.id) is not None]
    else:
        if len(labels) != len(all_runs):
            raise SettingsError(
                f"There are {len(labels):,} labels for {len(all_runs):,} runs",
                "Give one label per run, or a dict keyed by run.id",
            )
        pairs = [(run, label) for run, label in zip(all_runs, labels, strict=True) if label is not None]
    if not pairs:
        raise SettingsError(
            f"None of the {len(all_runs):,} runs has a label",
            "Give labels by run.id: {'trace-...': True}, or a list in the same order",
        )
    return [Labelled(run, bool(label), (groups or {}).get(run.id, "")) for run, label in pairs]


def score(
    runs: Iterable[Run],
    labels: Labels,
    preset: Detectors = DEFAULT,
    *,
    families: Iterable[str] = FAMILIES,
    groups: Mapping[str, str] | None = None,
    baselines: bool = True,
) -> pd.DataFrame:
    """Return the agreement of detectors with labels: a row per detector, and per group of runs if ``groups`` names them.

    ``preset``: a name, a detector, or a list of these, each with its own row. A run counts as found if it has a finding of
    ``families``. The baselines are the four naive rules and ``run_length``, which calls a run positive from a certain number of
    rounds upwards: the best number for these very runs, which flatters it. Its ``auc`` is the probability that a positive run
    is longer than a negative one. All intervals are 95 per cent (Wilson). False alarms are rounds of negative runs with
    findings, per 100 of these rounds.
    """
    examples = pair_labels(runs, labels, groups)
    wanted = set(families)
    detectors = [*preset] if isinstance(preset, Iterable) and not isinstance(preset, str) else [preset]
    kinds = [("detector", subject) for subject in detectors] + [
        ("naive", name) for name in NAIVE if baselines and name not in detectors
    ]
    rows: list[dict[str, Any]] = []
    for kind, subject in kinds:
        outcomes = [_outcome(example, subject, wanted) for example in examples]
        rows += [_row(detect_name(subject), kind, name, group_outcomes) for name, group_outcomes in _by_group(outcomes)]
    if baselines:
        best = best_length(examples)
        rows += [
            _length_row(name, group_outcomes, best)
            for name, group_outcomes in _by_group([_by_length(example, best) for example in examples])
        ]
    return _table(rows)


def sweep(
    runs: Iterable[Run],
    labels: Labels,
    detector: Callable[..., Any],
    *,
    families: Iterable[str] = FAMILIES,
    **threshold: Iterable[Any],
) -> pd.DataFrame:
    """Return a detector's scores for each value of one of its thresholds, passed by name.

    For example, ``sweep(runs, labels, RepeatedText, alike=[70, 80])``. The columns are ``threshold`` (its name), ``value`` and
    those of `score`. Raises `SettingsError` unless exactly one threshold is passed.
    """
    if len(threshold) != 1:
        raise SettingsError(
            f"sweep got {len(threshold)} thresholds", "Give one: sweep(runs, labels, RepeatedCall, times=range(2, 9))"
        )
    ((name, values),) = threshold.items()
    examples, wanted = pair_labels(runs, labels), set(families)
    rows = []
    for value in values:
        outcomes = [_outcome(example, partial(detector, **{name: value}), wanted) for example in examples]
        rows.append({"threshold": name, "value": value, **_row(detect_name(detector), "detector", ALL, outcomes)})
    return _table(rows)


def best_length(runs: Iterable[Labelled]) -> int:
    """Return the number of rounds that gives the best F1 as the threshold for positives; the lowest if several tie."""
    examples = [*runs]
    lengths = sorted({len(example.run.rounds) for example in examples})
    return max(
        lengths,
        key=lambda at: (_f1([(len(example.run.rounds) >= at, example.is_positive) for example in examples]), -at),
        default=0,
    )


def _outcome(example: Labelled, detector: Detectors, families: set[str]) -> Outcome:
    matching: list[Finding] = [finding for finding in findings(example.run, detector) if finding.family in families]
    return Outcome(example, bool(matching), frozenset([finding.last for finding in matching]))


def _by_length(example: Labelled, threshold: int) -> Outcome:
    fires = len(example.run.rounds) >= threshold
    return Outcome(example, fires, frozenset([threshold - 1] if fires else []))


def _by_group(outcomes: list[Outcome]) -> list[tuple[str, list[Outcome]]]:
    groups = sorted({outcome.one.group for outcome in outcomes} - {""})
    return [(ALL, outcomes), *[(group, [outcome for outcome in outcomes if outcome.one.group == group]) for group in groups]]


def _length_row(group: str, outcomes: list[Outcome], threshold: int) -> dict[str, Any]:
    lengths = [(len(example.run.rounds), example.is_positive) for example, *_ in outcomes]
    return {**_row(RUN_LENGTH, "baseline", group, outcomes), "rounds_from": threshold, "auc": auc(lengths)}


def _row(name: str, kind: str, group: str, outcomes: list[Outcome]) -> dict[str, Any]:
    hits = sum(outcome.fires and outcome.one.is_positive for outcome in outcomes)
    false = sum(outcome.fires and not outcome.one.is_positive for outcome in outcomes)
    positives = sum(outcome.one.is_positive for outcome in outcomes)
    misses = positives - hits
    negatives = [outcome for outcome in outcomes if not outcome.one.is_positive]
    rounds = sum(len(outcome.one.run.rounds) for outcome in negatives)
    alarms = wilson(sum(len(outcome.alarms) for outcome in negatives), rounds)
    return {
        "detector": name,
        "kind": kind,
        "group": group,
        "runs": len(outcomes),
        "positives": positives,
        "hits": hits,
        "false": false,
        "misses": misses,
        **share_columns("precision", wilson(hits, hits + false)),
        **share_columns("recall", wilson(hits, positives)),
        **share_columns("f1", f1_interval(hits, misses, false)),
        "negative_rounds": rounds,
        **share_columns("false_per_100_rounds", Share(*[None if bound is None else 100 * bound for bound in alarms])),
        "rounds_from": None,
        "auc": None,
    }


def share_columns(name: str, share: Share) -> dict[str, float | None]:
    """Return a share and its interval as columns of a table."""
    return {name: share.value, f"{name}_low": share.low, f"{name}_high": share.high}


def _f1(pairs: list[tuple[bool, bool]]) -> float:
    hits = sum(fires and is_positive for fires, is_positive in pairs)
    others = sum(fires != is_positive for fires, is_positive in pairs)
    return 2 * hits / (2 * hits + others) if hits else 0.0


_WORDS, _COUNTS = (
    ("detector", "kind", "group", "threshold"),
    ("runs", "positives", "hits", "false", "misses", "negative_rounds", "rounds_from"),
)


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    kinds = {name: "str" if name in _WORDS else "Int64" if name in _COUNTS else "float64" for name in [*rows, {}][0]}
    # the value has the threshold's type
    return frame_from_rows(rows, {name: None if name == "value" else kind for name, kind in kinds.items()})
