"""The quality of a judge: its verdicts compared with people's labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import NamedTuple

from agentnb.core.log.outcome import deciding_assessment
from agentnb.errors import SettingsError
from agentnb.experiments.planning.judge_verdicts import AskedCheck
from agentnb.experiments.results.corrections import JudgeQuality, LabelledRun
from agentnb.experiments.results.experiment_folder import ExperimentFolder, Plan
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.judged_rows import bench_of, folder_of_source
from agentnb.experiments.results.recorded_arms import arm_of, name_of_task
from agentnb.experiments.results.rows import Row
from agentnb.interchange.files import RunSource, load_traces
from agentnb.store.run_labels import LabelSource, assessments_by_run, labels_of


class LabelledFacts(NamedTuple):
    """Variant, cluster and verdict of a labelled run."""

    arm: str
    cluster: Hashable
    is_passed: bool | None


def quality_of(judge: AskedCheck, labels: LabelSource, runs: Results | RunSource | None) -> JudgeQuality:
    """Compare a judge's verdicts with labels; see `Judge.quality`."""
    if runs is None:
        if not isinstance(labels, str | Path):
            raise SettingsError("The labels do not identify their runs", "Write judge.quality(labels, results)")
        runs = Path(labels).expanduser().absolute().parent
    decided = {
        run_id: deciding_assessment(assessments) for run_id, assessments in assessments_by_run(labels_of(labels)).items()
    }
    if not decided:
        raise SettingsError("No run is labelled healthy or failed", "Label runs with these words: label(FOLDER)")
    of_run = {run_id: assessment.outcome for run_id, assessment in decided.items() if assessment is not None}
    healthy = {run_id: outcome == "passed" for run_id, outcome in of_run.items() if outcome != "unknown"}
    facts = dict(_collect_facts(judge, runs, healthy))
    judged = [
        LabelledRun(facts[run_id].arm, facts[run_id].cluster, label, bool(facts[run_id].is_passed))
        for run_id, label in healthy.items()
        if run_id in facts and facts[run_id].is_passed is not None
    ]
    counts = (len(healthy) - len(judged), len(of_run) - len(healthy))
    return JudgeQuality(judge.name, judge.content, healthy, judged, *counts)


def _collect_facts(
    judge: AskedCheck, runs: Results | RunSource, labelled: dict[str, bool]
) -> Iterator[tuple[str, LabelledFacts]]:
    """Yield the facts about labelled runs, from an experiment's rows with this judge, otherwise from cached verdicts."""
    if isinstance(runs, Results):
        runs.check_open()
        name = judge.name if _is_of(judge, runs.plan) else None
        yield from ((row.run_id, _of_row(row, name)) for row in runs.rows if row.run_id in labelled)
        return
    folder = folder_of_source(runs)
    records = None if folder is None else ExperimentFolder(folder)
    plan = None if records is None else records.plan()
    if records is not None and plan is not None and _is_of(judge, plan):
        yield from ((row.run_id, _of_row(row, judge.name)) for row in records.rows().values() if row.run_id in labelled)
        return
    verdicts = bench_of(runs).verdicts
    for run in load_traces(runs):
        if run.id in labelled:
            kept = judge.kept(run, verdicts)
            yield run.id, LabelledFacts(arm_of(run), (False, name_of_task(run)), None if kept is None else kept.value)


def _is_of(judge: AskedCheck, plan: Plan) -> bool:
    """True if the verdicts in an experiment come from this judge, with the same rubric and model."""
    return bool(plan.frozen.get("checks", {}).get(judge.name) == judge.content)


def _of_row(row: Row, judge: str | None) -> LabelledFacts:
    """Return the facts about a row's run. ``judge``: the name of its check, or None if it did not judge the run."""
    value = None if judge is None else row.value(judge)
    return LabelledFacts(row.variant, row.cluster_key, None if value is None else bool(value))
