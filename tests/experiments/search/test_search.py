"""Searches as a whole: they find what works, claim only what unseen tasks show, and go on where they were cut off."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from binomial_bounds import at_most
from small_searches import ASKS, CHATTY, draw_values, propose_idly, searched, small_search

from agentnb.errors import ExperimentProblems, SettingsError
from agentnb.experiments.results.experiment_folder import ExperimentFolder
from agentnb.experiments.running.engine import InKernel
from agentnb.experiments.search import gepa_engine
from agentnb.experiments.search.search_cells import CellPlan
from agentnb.runtime.host.host import Host, use_host


def cells_of(folder: Path) -> ExperimentFolder:
    return ExperimentFolder(folder / "cells")


def means_of(folder: Path, tasks: set[str] | None = None) -> dict[str, dict[str, float]]:
    """The value of each task by variant, computed from the rows of a folder."""
    found: dict[str, dict[str, float]] = {}
    for row in ExperimentFolder(folder).attempts():
        if tasks is None or row.task in tasks:
            found.setdefault(row.variant, {})[row.task] = float(row.values["was_called"] or 0)
    return found


def test_search_finds_the_line_that_requests_a_call(tmp_path: Path) -> None:
    output = io.StringIO()
    with redirect_stdout(output):
        found = searched(small_search(folder=tmp_path))
    assert output.getvalue() == "", "gepa prints what it does"
    assert [(trial.proposal.line, trial.accepted) for trial in found.trials if trial.proposal] == [
        ("Be brief.", False),
        ("Write politely.", False),
        (ASKS, True),
    ]
    assert found.best.parts["todos_tools"] == ASKS and found.claims_gain
    seen = {row.task for row in cells_of(tmp_path).attempts()}
    judged = means_of(tmp_path / "judgement")
    assert seen.isdisjoint(judged["best"]) and len(seen) + len(judged["best"]) == 40
    plain = fmean(judged["best"][task] - judged["start"][task] for task in judged["best"])
    assert found.gain == pytest.approx(plain) and plain > 0.3
    (ablation,) = found.ablations
    tried = means_of(tmp_path / "cells")
    best = tried[found.best.name]
    plain = fmean(best[task] - tried["start"][task] for task in best)
    assert ablation.line.text == ASKS and ablation.comparison is not None and ablation.comparison.interval is not None
    assert ablation.comparison.difference == pytest.approx(plain)
    assert "exploratory" in repr(found) and f"{plain:+.3g}" in repr(found)
    assert not [*tmp_path.rglob("*.bin")], "gepa's state is a pickle"


KILLED = """
import os, sys
sys.path[:0] = {paths!r}
from small_searches import *
left = [int(sys.argv[2])]
def die():
    left[0] -= 1
    if left[0] == 0:
        os._exit(9)
def check_line(name: str) -> str:
    "Check a line of the plant."
    if sys.argv[3] == "tool":
        die()
    return f"{{name}} ok"
def propose_or_die(request):
    if sys.argv[3] == "proposer":
        die()
    with open(sys.argv[1] + "/asked", "a") as file:
        file.write("x")
    return propose(request)
searched(small_search(folder=sys.argv[1], propose=propose_or_die, agent={{"tools": [check_line], "policy": TwoRounds()}}))
"""


@pytest.mark.nightly("by day killed experiments resume")
@pytest.mark.slow("searches in processes that are killed")
def test_killed_search_resumes_without_paying_twice_for_a_cell(tmp_path: Path, subtests: pytest.Subtests) -> None:
    script = KILLED.format(paths=[str(Path(__file__).parents[2] / "support")])
    whole = {(row.variant, row.task): row.values for row in _searched_here(tmp_path / "whole")}
    for where, count in (("tool", 25), ("proposer", 2), ("tool", 12), ("tool", 60)):
        with subtests.test(f"{where} {count}"):
            folder = tmp_path / f"{where}{count}"
            folder.mkdir()
            done = subprocess.run([sys.executable, "-c", script, folder, str(count), where], capture_output=True, text=True)
            assert done.returncode == 9, done.stderr
            begun = cells_of(folder).attempts()
            assert begun
            done = subprocess.run([sys.executable, "-c", script, folder, "-1", where], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            attempts = cells_of(folder).attempts()
            keys = [row.key for row in attempts]
            assert len({*keys}) == len(keys) and attempts[: len(begun)] == begun
            assert {(row.variant, row.task): row.values for row in attempts} == whole
            # An empty one is of a run that was killed before its first event.
            logs = [log for log in (folder / "cells").glob("*.jsonl") if log.stat().st_size]
            assert len(logs) == len(keys)
            judged = ExperimentFolder(folder / "judgement").attempts()
            assert len({row.key for row in judged}) == len(judged) == 40
            assert (folder / "asked").read_text() == "xxx", "each proposal is made once"


def _searched_here(folder: Path) -> Any:
    searched(small_search(folder=folder))
    return cells_of(folder).attempts()


def test_gepa_state_of_another_user_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "loaded"),)

    draw_values(monkeypatch, lambda variant, task, chance: chance.random() < 0.5)
    folder = tmp_path / "search"
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path, folder, folder / "cells"):
        place.mkdir(exist_ok=True)
        (place / "gepa_state.bin").write_bytes(pickle.dumps(Trap()))
    searched(small_search(folder=folder))
    assert not (tmp_path / "loaded").exists()


@pytest.mark.slow("two hundred searches")
def test_simulated_searches_without_an_effect_rarely_claim_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    def value(run: Any) -> float:
        return 0.0

    draw_values(monkeypatch, lambda variant, task, chance: chance.gauss(0, 1))
    monkeypatch.setattr(CellPlan, "variant", _of_one_set(CellPlan.variant))
    monkeypatch.setattr(gepa_engine, "candidate_of", _of_same_parts(gepa_engine.candidate_of))
    given = {"propose": propose_idly, "proposals": 14, "held_out": 0.4, "primary": value}
    found = [searched(small_search(20, seed=seed, **given)) for seed in range(200)]
    judged = [one for one in found if one.judgement is not None]
    claims = sum(one.claims_gain for one in found)
    for number in (len(found), len(judged)):
        assert claims <= at_most(0.05, number), f"{claims} of {number} claim a gain"
    assert len(judged) > 2 * at_most(0.05, 200), "so many take noise for a better set"
    assert all(one.best != one.start for one in judged)


def _of_one_set(variant: Any) -> Any:
    """The variant of a set, which does not depend on the search."""
    known: dict[Any, Any] = {}

    def found(self: CellPlan, guidance: Any) -> Any:
        key = guidance.version, guidance.version == self.start.version
        if key not in known:
            known[key] = variant(self, guidance)
        return known[key]

    return found


def _of_same_parts(candidate: Any) -> Any:
    """The candidate of these parts, made once."""
    made = cache(lambda parts: candidate(dict(parts)))
    return lambda parts: made(tuple(parts.items()))


@pytest.mark.nightly("a thousand searches of real runs")
@pytest.mark.slow("a thousand searches of a hundred runs each")
def test_searches_of_real_runs_without_effect_rarely_claim_gain() -> None:
    given = {"propose": propose_idly, "proposals": 10, "held_out": 0.4, "seeds": "independent"}
    found = [searched(small_search(20, seed=seed, **given)) for seed in range(1_000)]
    claims = sum(one.claims_gain for one in found)
    assert claims <= at_most(0.05, 1_000), f"{claims} of 1,000 searches claim a gain"


def test_candidate_that_fails_a_kept_task_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_values(monkeypatch, lambda variant, task, chance: (variant != "start") != (task == "t5"))
    free, kept = searched(small_search()), searched(small_search(keep=["t5"]))
    assert any(trial.accepted for trial in free.trials)
    assert [trial.why for trial in kept.trials] == ["it is worse on t5, listed in keep="] * 4
    assert kept.best == kept.start and kept.judgement is None and not kept.claims_gain


def test_candidate_ahead_only_at_an_interim_look_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    search = small_search(proposals=1)
    first = {f"t{place}" for place in search._read.split.looks(0)[0]}
    draw_values(monkeypatch, lambda variant, task, chance: (variant == "start") != (task in first))
    (trial,) = searched(search).trials
    assert not trial.accepted and "not ahead over all" in trial.why
    assert searched(search).best == searched(search).start


def test_search_asks_for_confirmation_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw_values(monkeypatch, lambda variant, task, chance: True)
    search, asked = small_search(), []

    def answer(reply: str) -> Host:
        return Host(ask=lambda question: asked.append(question) or reply)  # type: ignore[func-returns-value]

    with pytest.raises(SettingsError, match=r"cannot ask for confirmation(.|\n)*In total: at most 220 runs"):
        search.run_sync(show=False)
    with use_host(answer("n")), pytest.raises(SettingsError, match="was not started"):
        search.run_sync(show=False)
    with pytest.raises(SettingsError, match="belongs to another search"):
        search.run_sync(small_search(proposals=3).design(), show=False)
    assert not drawn and f"{search.design()}" in asked[0]
    with use_host(answer("y")):
        asyncio.run(search.run(show=False))
    assert len(drawn) == 20, "the set that it begins with is perfect"


def test_search_never_runs_more_than_its_design_states(monkeypatch: pytest.MonkeyPatch) -> None:
    for better in (0.05, 0.0):  # each candidate is better than the last, or none is
        with pytest.MonkeyPatch.context() as patch:
            worth: dict[str, int] = {}

            def value(variant: str, task: str, chance: Random) -> float:
                return better * worth.setdefault(variant, len(worth)) + chance.random() / 1_000  # noqa: B023

            drawn = draw_values(patch, value)
            search = small_search(propose=propose_idly, proposals=3, repeats=2)
            design, found = search.design(), searched(search)
            assert len(drawn) == len({*drawn}) == found.runs <= design.cells
            assert sum(trial.accepted for trial in found.trials) == (3 if better else 0)
            if better:
                assert found.runs == design.cells - 2 * 20, "the set without the last line was a candidate before"


def test_ended_search_keeps_the_best_judged_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw_values(monkeypatch, lambda variant, task, chance: chance.random() < (0.2 if variant == "start" else 0.9))
    search = small_search(folder=tmp_path, proposals=1)
    first, count = searched(search), len(drawn)
    assert first.best != first.start
    second = searched(replace(search, proposals=4, places=2))
    assert len(drawn) == count and repr(second) == repr(first)


def test_changed_search_is_refused_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_values(monkeypatch, lambda variant, task, chance: True)
    searched(small_search(folder=tmp_path))
    for changed, name in (({"seed": 1}, "held out"), ({"repeats": 2}, "repeats"), ({"model": f"{CHATTY}&delay=0"}, "models")):
        with pytest.raises(SettingsError, match=f"has changed since.*{name}"):
            searched(small_search(folder=tmp_path, **changed))


def test_stopped_search_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw_values(monkeypatch, lambda variant, task, chance: chance.random() < (0.2 if variant == "start" else 0.9))
    controls: list[Any] = []
    search = small_search(folder=tmp_path)

    def stop(progress: Any) -> None:
        if progress.done == 30:
            controls[0].stop()

    with use_host(Host(experiment=lambda control: controls.append(control))):
        cut = search.run_sync(search.design(), watch=stop, show=False)
        assert cut.notes == ("stopped: run it again to continue",) and cut.judgement is None
        assert controls[0].progress.state == "stopped" and len(drawn) < 45
        found = searched(replace(search))
    assert found.claims_gain and len({*drawn}) == found.runs
    assert controls[-2].progress.state == "done", "the last is that of the judgement"


def test_cancelling_a_search_ends_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def run(self: InKernel, job: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async def cancelled(search: Any, design: Any) -> None:
        running = asyncio.create_task(search.run(design, show=False))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    monkeypatch.setattr(InKernel, "run", run)
    search = small_search()
    asyncio.run(cancelled(search, search.design()))
    with search._records.hold_lock():
        assert not search._records.rows()


def test_all_search_problems_are_reported_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings, wrong in (
        ({"proposals": 0, "folds": "2"}, r"2 problems(.|\n)*proposals=0(.|\n)*folds='2'"),
        ({"held_out": 1.5}, "held_out=1.5"),
        ({"keep": "t5"}, "keep='t5'"),
        ({"primary": "cost"}, "higher is better"),
        ({"count": 9}, "6 of them held out"),
        ({"propose": None}, "chatty.* cannot propose changes"),
        ({"propose": None, "proposer": "own:nobody"}, "nobody"),
        ({"model": "simulated:nobody"}, "nobody"),
        ({"budget": -1}, "budget=-1"),
    ):
        with pytest.raises(ExperimentProblems, match=wrong):
            small_search(**settings).check()
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(SettingsError, match=r"Searching requires the gepa package(.|\n)*agentnb\[optimise\]"):
        small_search().check()
