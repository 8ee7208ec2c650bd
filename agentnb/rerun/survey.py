"""Survey: many recorded runs, replayed under several variants, counting the failures caught and the healthy runs disturbed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentnb.detect.agent_runs import works_in_steps
from agentnb.detect.frames import frame_from_rows
from agentnb.detect.intervals import mean_interval, wilson
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors, detect_name
from agentnb.detect.scores import share_columns
from agentnb.errors import SettingsError
from agentnb.guidance.sets import GuidanceSet
from agentnb.interchange.files import RunSource, iter_traces, warn_of
from agentnb.interchange.trace_file import Problem
from agentnb.policies.policy_sets import PolicySet
from agentnb.rerun.expect import Expectation, check_expectations, outcomes_of
from agentnb.rerun.replay import replay
from agentnb.rerun.replay_result import Replay
from agentnb.rerun.turn_endings import TurnKind

if TYPE_CHECKING:
    import pandas as pd

Failed: TypeAlias = "Callable[[Run], bool | None] | Mapping[str, bool | None] | str | Iterable[str] | None"
"""Definition of a failed run: a function of the run, a mapping by run id (None omits a run), or expectations for
`expect` that hold for healthy runs. By default: runs whose outcome is failed; if no outcome is known, runs that did not
complete.
"""
OWN = "its own"
"""Column value for a setting that is left unchanged."""


BY_OUTCOME, BY_END, BY_PERSON = "outcome", "end", "failed="
"""Sources of failure labels: outcomes, ends of runs, or the person."""


class Tried(NamedTuple):
    """Result of one run under one variant."""

    place: int
    """Index of the run in the survey."""
    is_caught: bool
    caught_at: int | None
    rounds_saved: int
    tokens_saved: int | None
    turns: TurnKind


def survey(
    runs: RunSource,
    *,
    guidance: Iterable[str | GuidanceSet | None] = (None,),
    policy: Iterable[str | PolicySet | None] = (None,),
    detect: Iterable[Detectors | None] = (None,),
    limits: Iterable[Mapping[str, Any] | None] = (None,),
    workflow_mode: bool | None = None,
    failed: Failed = None,
) -> pd.DataFrame:
    """Return one row per variant (the product of these settings), with the failed runs caught and the healthy runs disturbed.

    ``runs``: runs, or a path to any traces, which are read one at a time. A run counts as caught, or disturbed, if a
    guard, a limit or a detector causes a block, an end or a finding (`Replay.caught_at`). Ends of turns and
    interventions for open todos do not count; ``turns`` counts the runs by `TurnEnding.kind`. ``rounds_saved`` and
    ``tokens_saved`` are those of failed runs after an end by a guard (``tokens_unknown``: runs with unknown tokens),
    ``rounds_cut`` those of healthy runs; ``_mean``: per run. Shares and means have 95 per cent intervals by run,
    ``_low`` and ``_high``: Wilson intervals and bootstrap over runs. ``failed``: a function of the run, labels by
    ``run.id`` (None omits a run), or expectations for `expect`: with ``failed="loops == 0"``, runs with loops have
    failed. By default, runs with a failed `Run.outcome`; if no outcome is known, those that did not complete.
    ``judged_by`` names the source (outcome, end, failed=); ``unknown`` counts unlabelled runs, which count nowhere
    else. Workflow runs are omitted, because their agents' runs are separate runs. `plots.survey` draws the table.
    Raises `SettingsError` for invalid settings, or if there are no runs.
    """
    judges = _judges(failed)
    variants = [*product(_as_variants(guidance), _as_variants(policy), _as_variants(detect), limits)]
    tried: list[list[Tried]] = [[] for _ in variants]
    verdicts: dict[str, list[bool | None]] = {name: [] for name in judges}
    problems: list[Problem] = []
    for run in iter_traces(runs, problems=problems):
        if works_in_steps(run):
            continue
        labels = {name: judge(run) for name, judge in judges.items()}
        for name, has_failed in labels.items():
            verdicts[name].append(has_failed)
        if all(has_failed is None for has_failed in labels.values()):
            continue
        position = len(next(iter(verdicts.values()))) - 1
        for (words, chosen, detectors, amounts), results in zip(variants, tried, strict=True):
            results.append(_try_variant(position, replay(run, words, chosen, detectors, amounts, workflow_mode)))
    warn_of(problems)
    verdict = _verdicts(verdicts)
    return _table([_row(variant, results, verdict) for variant, results in zip(variants, tried, strict=True)])


def _as_variants(variants: Any) -> Any:
    """Return an iterable of variants; a single variant becomes a list with one item."""
    return (variants,) if isinstance(variants, str) or callable(variants) or not isinstance(variants, Iterable) else variants


def _judges(failed: Failed) -> dict[str, Callable[[Run], bool | None]]:
    """Return the functions that label a run as failed or not, in order of precedence.

    Raises `SettingsError` for an invalid expectation.
    """
    if failed is None:
        return {
            BY_OUTCOME: lambda run: None if run.outcome == "unknown" else run.outcome == "failed",
            BY_END: lambda run: None if run.status == "unknown" else run.status != "completed",
        }
    if callable(failed):
        return {BY_PERSON: failed}
    if isinstance(failed, Mapping):
        return {BY_PERSON: lambda run: failed.get(run.id)}
    texts: list[Expectation] = [failed] if isinstance(failed, str) else [*failed]
    check_expectations(texts)
    return {BY_PERSON: lambda run: not all(outcome.holds for outcome in outcomes_of(run, texts))}


class Verdicts(NamedTuple):
    """Labels that say which runs failed."""

    judged_by: str
    """Source of the labels."""
    has_failed: Sequence[bool | None]
    """Labels in the order of the runs, or None if unknown."""


def _verdicts(labels: Mapping[str, Sequence[bool | None]]) -> Verdicts:
    """Return the labels from the first source that has any. Raises `SettingsError` if no source has one."""
    for judged_by, has_failed in labels.items():
        if any(label is not None for label in has_failed):
            return Verdicts(judged_by, has_failed)
    hint = "Give runs, or a folder of traces. If nothing records their outcome or end, say which failed: failed="
    raise SettingsError("survey() needs at least one run", hint)


def _try_variant(place: int, result: Replay) -> Tried:
    return Tried(
        place=place,
        is_caught=result.caught_at is not None,
        caught_at=result.caught_at,
        rounds_saved=result.rounds_saved,
        tokens_saved=result.tokens_saved,
        turns=result.turn_ending.kind,
    )


def _row(variant: tuple[Any, ...], tried: list[Tried], verdicts: Verdicts) -> dict[str, Any]:
    words, policy, detectors, amounts = variant
    has_failed = verdicts.has_failed
    results = [trial for trial in tried if has_failed[trial.place] is not None]
    failures = [trial for trial in results if has_failed[trial.place]]
    healthy = [trial for trial in results if not has_failed[trial.place]]
    caught, disturbed = (sum(trial.is_caught for trial in group) for group in (failures, healthy))
    tokens = [trial.tokens_saved for trial in failures if trial.tokens_saved is not None]
    at = sorted(trial.caught_at for trial in failures if trial.caught_at is not None)
    return {
        "guidance": _name(words),
        "policy": _name(policy),
        "detect": OWN if detectors is None else detect_name(detectors),
        "limits": OWN if amounts is None else ", ".join(f"{name}={value}" for name, value in amounts.items()),
        "runs": len(results),
        "turns": ", ".join(f"{name} {count}" for name, count in Counter(trial.turns for trial in results).most_common()),
        "judged_by": verdicts.judged_by,
        "unknown": sum(label is None for label in has_failed),
        "failures": len(failures),
        "caught": caught,
        **share_columns("caught_share", wilson(caught, len(failures))),
        "caught_at_median": at[len(at) // 2] if at else None,
        "healthy": len(healthy),
        "disturbed": disturbed,
        **share_columns("disturbed_share", wilson(disturbed, len(healthy))),
        "rounds_saved": sum(trial.rounds_saved for trial in failures),
        **share_columns("rounds_saved_mean", mean_interval([trial.rounds_saved for trial in failures])),
        "tokens_saved": sum(tokens),
        **share_columns("tokens_saved_mean", mean_interval(tokens)),
        "tokens_unknown": len(failures) - len(tokens),
        "rounds_cut": sum(trial.rounds_saved for trial in healthy),
        **share_columns("rounds_cut_mean", mean_interval([trial.rounds_saved for trial in healthy])),
    }


def _name(setting: Any) -> str:
    return OWN if setting is None else setting if isinstance(setting, str) else str(setting.name)


_TEXTS = frozenset({"guidance", "policy", "detect", "limits", "turns", "judged_by"})
_SHARES = ("_share", "_mean")


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    kinds = {
        name: "str" if name in _TEXTS else "float64" if any(suffix in name for suffix in _SHARES) else "Int64"
        for name in rows[0]
    }
    return frame_from_rows(rows, kinds)
