"""Reports of guidance sets drawn for each round."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from small_experiments import check_line, small

from agentnb import lift
from agentnb.experiments.results.experiment_results import Results

pytestmark = pytest.mark.usefixtures("unpainted")


@pytest.fixture(scope="module")
def drawn() -> Results:
    agent = {"tools": [check_line]}
    return small(12, ["off", "matrix"], assign="round", agent=agent).run_sync(show=False)


def report(results: Results, folder: Path) -> str:
    return results.report(folder / "paper.md").read_text("utf-8").replace("\\", "")


def test_report_of_randomized_guidance_sets_shows_their_effects(drawn: Results, tmp_path: Path) -> None:
    text = report(drawn, tmp_path)
    assert text.startswith(f"# Experiment {drawn.plan.id}: off, matrix\n")
    assert "A guidance set (off, matrix) was drawn for each round" in text and "drawn by round among off (0.5)" in text
    assert not [told for told in ("planned for every task", "one variant", "variants in each block", "CR2") if told in text]
    effects = lift(drawn)
    assert len(effects) and effects.lift_low.notna().any() and effects.lift_low.isna().any()
    for _, row in effects.iterrows():
        (line,) = [line for line in text.splitlines() if f"| off | {row.kind} | {row.trigger} |" in line]
        assert f"| {row.judged} and {row.judged_without} | {row.share:.3g} | {row.anyway:.3g} |" in line
        limits = [float(limit) for found in re.findall(r"\[([^],]+), ([^],]+)\] \|", line) for limit in found]
        assert limits == ([] if row.lift_low != row.lift_low else pytest.approx([row.lift_low, row.lift_high], abs=0.005))


def test_report_counts_unknown_outcomes_after_each_set(tmp_path: Path) -> None:
    agent = {"tools": [check_line], "max_rounds": 2}
    results = small(12, ["off", "matrix"], assign="round", agent=agent, near_outcome="no_loop_within_3").run_sync(show=False)
    text, effects = report(results, tmp_path), lift(results)
    assert effects.unknown.any()
    for _, row in effects.iterrows():
        told = f"{row.model}, {row.set}, {row.kind}, {row.trigger}: {row.note}."
        assert (told in text) == (row.unknown > 0) == ("outcomes are unknown" in row.note)


def test_report_with_deleted_logs_shows_no_effects(tmp_path: Path) -> None:
    experiment: Any = small(6, ["off", "matrix"], assign="round", agent={"tools": [check_line]}, folder=tmp_path / "exp")
    results = experiment.run_sync(show=False)
    for log in (tmp_path / "exp").glob("*.jsonl"):
        if log.stem in {row.run_id for row in results.rows}:
            log.unlink()
    assert "Effects are left out: " in report(experiment.results(), tmp_path)
