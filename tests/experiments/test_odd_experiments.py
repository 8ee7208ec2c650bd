"""Odd tasks, checks, models and concurrent users of one experiment, from an attack."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from small_experiments import CHATTY, check_line, rows, small
from waiting import wait_until

from agentnb import Agent, Experiment, Workflow, compare, tool
from agentnb.errors import ExperimentProblems, ModelError, SettingsError
from agentnb.experiments.views.results_view import results_text
from agentnb.models import ScriptedModel

DISCIPLINED = "simulated:disciplined"


def at_most(count: int) -> Any:
    def few(run: Any) -> bool:
        return len(run.rounds) <= count

    return few


def test_odd_settings_are_refused_with_a_message(subtests: pytest.Subtests, snapshot: Any) -> None:
    def status(run: Any) -> bool:
        return True

    async def later(run: Any) -> bool:
        return True

    cases: dict[str, Experiment] = {
        "a primary named like another check": small(2, primary=lambda run: 0.0, checks=[lambda run: 1.0]),
        "a check named like a column": small(2, primary=status),
        "an async check": small(2, primary=later),
        "checks that are none": small(2, checks=5),
        "an agent that is none": small(2, agent=5),
        "two models of one name": small(2, models=[DISCIPLINED, DISCIPLINED]),
        "a template without a column": small(2, {"a": {"prompt": "hello"}, "b": {}}),
    }
    for name, experiment in cases.items():
        with subtests.test(name):
            with pytest.raises(ExperimentProblems) as refused:
                experiment.check()
            assert list(refused.value.problems) == snapshot(name)


def test_calls_with_odd_arguments_are_refused(subtests: pytest.Subtests) -> None:
    results = small(6).run_sync(show=False)
    cases: dict[str, Any] = {
        "a folder that is none": lambda: small(2, folder=5),
        "negative repeats": lambda: small(2).extend(repeats=-1),
        "repeats of true": lambda: small(2).extend(repeats=True),
        "one variant twice": lambda: compare(results, "off", "off"),
        "a margin of nothing": lambda: compare(results, "matrix", "off").equivalence(0),
        "one variant to compare": lambda: compare(small(2, {"a": "off"}).run_sync(show=False)),
    }
    for name, call in cases.items():
        with subtests.test(name), pytest.raises(SettingsError):
            call()


def test_starting_twice_does_not_disturb_the_first_start(tmp_path: Path) -> None:
    for folder in (tmp_path / "exp", False):
        experiment, seen = small(6, folder=folder), list[Any]()
        first = experiment.start(show=False, watch=seen.append)
        first.pause()
        wait_until(lambda seen=seen: len(seen) >= 2)  # it was paused after it had begun
        for _ in range(5):
            with pytest.raises(SettingsError, match="is already running"):
                experiment.start(show=False).result(60)
        early = experiment.results()
        assert results_text(early).endswith("The experiment is running: call results() again when it has ended")
        first.resume()
        results = first.result(60)
        assert results.missing == 0 and len(results.rows) == 12
        assert "is running" not in results_text(early)


def test_clusters_may_have_names_of_any_type() -> None:
    def units(clusters: list[Any]) -> int:
        tasks = [{**row, "cluster": cluster} for row, cluster in zip(rows(len(clusters)), clusters, strict=True)]
        results = Experiment(
            tasks, {"a": "off", "b": "matrix"}, models=[CHATTY], agent={"tools": [check_line]}, folder=False
        ).run_sync(show=False)
        comparison = compare(results, "a", "b")
        assert comparison.discordant is None and comparison.ratios["tokens"].tasks == comparison.tasks
        return len(comparison.analysis.sizes)  # type: ignore[union-attr]

    assert units([place // 2 for place in range(12)]) == units([f"c{place // 2}" for place in range(12)]) == 6
    assert units([*["t11"] * 6, *[math.nan] * 6]) == 7


def test_checks_with_different_closures_count_as_different(tmp_path: Path) -> None:
    small(2, primary=at_most(0), folder=tmp_path / "exp").run_sync(show=False)
    with pytest.raises(ExperimentProblems, match="has changed"):
        small(2, primary=at_most(99), folder=tmp_path / "exp").check()

    def kept(run: Any, least: int) -> bool:
        return len(run.rounds) >= least

    hashes = {small(2, primary=check)._frozen_hash for check in (at_most(1), at_most(2))}
    one, other = (partial(kept, least=least) for least in (1, 9))
    assert len(hashes) == 2 and small(2, checks=[one])._frozen_hash != small(2, checks=[other])._frozen_hash


def test_agent_tools_are_identified_by_their_behaviour(subtests: pytest.Subtests) -> None:
    def other_check(name: str) -> str:
        return name

    def boss(**settings: Any) -> Agent:
        return Agent(CHATTY, tools=[Agent(**{"model": CHATTY, "name": "helper", "tools": [check_line], **settings})])

    def hash_of(variant: Any) -> str:
        return small(2, {"boss": variant})._frozen_hash

    flow = "workflow: [{type: tool, name: check_line, args: {name: NAME}}]\n"
    flows = [Workflow.from_yaml(flow.replace("NAME", name), tools=[check_line]) for name in ("a", "b")]
    assert hash_of(boss()) == hash_of(boss())
    cases = {
        "system prompt": boss(system="You check."),
        "model": boss(model="simulated:disciplined"),
        "tools": boss(tools=[tool(name="check_line")(other_check)]),
        "description": Agent(CHATTY, tools=[tool(Agent(CHATTY, name="helper", tools=[check_line]), description="Checks.")]),
    }
    for case, other in cases.items():
        with subtests.test(case):
            assert hash_of(other) != hash_of(boss())
    hashes = {hash_of(Agent(CHATTY, tools=[tool(one, name="helper")])) for one in flows}
    assert len(hashes) == 2
    again = boss()
    again.toolbox.register(tool(again, name="again"))
    assert hash_of(again) != hash_of(boss())


def test_value_of_a_raising_check_is_unknown(subtests: pytest.Subtests) -> None:
    for error in (asyncio.CancelledError, SystemExit, ZeroDivisionError):

        def raises(run: Any, error: type[BaseException] = error) -> bool:
            if run.model == CHATTY or run.model.startswith("simulated:chatty"):
                raise error
            return True

        with subtests.test(error.__name__):
            results = small(2, checks=[raises]).run_sync(show=False)
            assert len(results.rows) == 4 and all("raises" in row.check_errors for row in results.rows)
    infinite = small(6, primary=lambda run: math.inf if run.model.startswith("simulated") else 1.0).run_sync(show=False)
    assert "paired tasks" in repr(compare(infinite, "matrix", "off"))


def test_task_function_returning_no_prompt_yields_a_failed_row() -> None:
    first = rows(1)[0]["prompt"]
    tasks = [lambda seed: {"id": "q", "prompt": first if seed == 0 else None}]
    results = Experiment(tasks, {"a": "off"}, models=[CHATTY], folder=False).run_sync(show=False)
    assert [(row.status, "no prompt" in row.error) for row in results.rows] == [("failed", True)]


def test_extensions_are_noted_once_after_the_first_run(tmp_path: Path) -> None:
    experiment = small(2, folder=tmp_path / "exp")
    experiment.run_sync(show=False)
    more = experiment.extend(repeats=1)
    more.run_sync(show=False)
    notes = more.extend(repeats=1).run_sync(show=False).notes
    assert [note for note in notes if "extended" in note] == ["extended by 1 repeat after its first run"] * 2
    original = experiment.run_sync(show=False)
    assert len(original.rows) == 4 and original.missing == 0
    assert not [note for note in small(2).extend(repeats=1).run_sync(show=False).notes if "extended" in note]


def test_second_retry_before_a_run_is_refused(tmp_path: Path, snapshot: Snapshot) -> None:
    model = ScriptedModel([ModelError("down")], repeat=True)
    experiment = small(2, {"a": {"model": model}}, models=None, primary="answered", folder=tmp_path / "exp")
    assert repr(experiment) == snapshot("not run", ID=experiment.id)
    experiment.run_sync(show=False)
    assert repr(experiment.retry("once")) == snapshot("marked", ID=experiment.id)
    with pytest.raises(SettingsError, match="already marked"):
        experiment.retry("twice")
    assert {row.attempt for row in experiment.run_sync(show=False).rows} == {2}
    assert {row.attempt for row in experiment.run_sync(show=False).rows} == {2}
    assert repr(small(0)) == snapshot("no tasks")


def test_runs_ended_by_a_limit_cannot_be_retried() -> None:
    experiment = small(2, agent={"tools": [check_line], "max_rounds": 1}, primary="answered", folder=False)
    assert {row.status for row in experiment.run_sync(show=False).rows} == {"limited"}
    with pytest.raises(SettingsError, match=r"no failed runs to retry\. A run that reached a limit counts as it is"):
        experiment.retry("more luck")


def test_generators_odd_texts_and_comparisons_of_experiments_work() -> None:
    experiment = Experiment(
        (row for row in rows(2)),
        {"a": "off"},
        models=(model for model in [CHATTY]),
        agent={"tools": [check_line]},
        folder=False,
    )
    experiment.run_sync(show=False)
    assert len(experiment.extend(repeats=1).run_sync(show=False).rows) == 4
    odd = [{"id": "a\ud800", "prompt": "x \ud800", "other": {1: 2, "a": 3}}]
    assert len(Experiment(odd, {"a": "off"}, models=[DISCIPLINED], folder=False).run_sync(show=False).rows) == 1
    assert experiment == experiment and experiment != small(2) and hash(experiment)


def test_measures_that_differ_between_identical_runs_are_compared() -> None:
    results = small(8, {"a": "off", "b": "off"}, aa=True, primary="seconds").run_sync(show=False)
    comparison = compare(results, "a", "b")
    assert not comparison.is_identical and comparison.interval is not None
