"""Whole experiments: completed despite failures, resumed where they stopped, and honest about how they were run."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from property_settings import AT_NIGHT
from small_experiments import CHATTY, check_line, rows, run_or_die, small
from waiting import wait_until

from agentnb import Agent, Experiment, GuidanceSet, Store, Workflow, compare, load_traces, plots, settings, survey, tables
from agentnb.detect.run import Run
from agentnb.errors import ExperimentProblems, ModelError, SettingsError, StoreError
from agentnb.experiments.results.experiment_results import OPEN
from agentnb.experiments.running.control import Progress
from agentnb.experiments.running.live_experiment import LiveExperiment
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host

LONG = 60
BUT_FOR_TIMES = ["seconds", "at", "run_id", "redone"]


def table(results: Any) -> pd.DataFrame:
    """Sort the rows of a table, without the values that differ between runs."""
    columns = results.table().drop(columns=BUT_FOR_TIMES)
    return columns.sort_values(["task", "variant", "repeat"]).reset_index(drop=True)


def test_each_task_runs_with_each_variant_once_per_repeat() -> None:
    found = small(4, repeats=2).run_sync(show=False).table()
    assert found.groupby(["task", "variant", "repeat"]).size().eq(1).all()
    assert len(found) == 4 * 2 * 2
    seeds = found.groupby(["task", "repeat"]).seed.nunique()
    assert seeds.eq(1).all() and found.seed.nunique() == 8


def test_experiment_folder_has_one_readable_log_per_cell(tmp_path: Path) -> None:
    settings = {"agent": {"tools": [check_line], "max_rounds": 4}, "primary": "answered"}  # a policy known to survey
    results = small(3, folder=tmp_path / "exp", **settings).run_sync(show=False)
    runs = load_traces(tmp_path / "exp")
    assert len(runs) == 6 and {run.id for run in runs} == set(results.table().run_id)
    assert all(any(tag == f"experiment:{results.plan.id}" for tag in run.tags) for run in runs)
    read = tables.runs(tmp_path / "exp")
    values = results.table().set_index("run_id").answered
    for run_id, outcome, source in zip(read.run_id, read.outcome, read.outcome_from, strict=True):
        assert (outcome, source) == ("passed" if values[run_id] else "failed", "check")
    assert [*survey(tmp_path / "exp").failures.unique()] == [sum(read.outcome == "failed")]


def test_design_counts_the_runs_already_made() -> None:
    experiment = small(6, folder=False)
    assert experiment.design().made == 0
    experiment.run_sync(show=False)
    assert (experiment.design().made, experiment.extend(repeats=1).design().made) == (12, 12)


def test_sets_of_the_session_can_be_named_as_variants(subtests: pytest.Subtests) -> None:
    polite = GuidanceSet.from_markdown("polite", "Please go on.")
    chances: dict[str, Any] = {"assign": "round", "near_outcome": "followed"}
    for variants, options in ((["polite", "off"], {}), ({"a": "polite", "b": "off"}, {}), (["polite", "off"], chances)):
        with subtests.test(str((variants, options))):
            experiment = Experiment(rows(6), variants, "simulated:disciplined", folder=False, **options)
            with use_host(Host(sets={"polite": polite})):
                assert experiment.design().cells
            with pytest.raises(ExperimentProblems, match="There is no guidance set 'polite'"):
                replace(experiment).check()


def test_second_run_repeats_no_cell(tmp_path: Path) -> None:
    first = small(3, folder=tmp_path / "exp").run_sync(show=False)
    second = small(3, folder=tmp_path / "exp").run_sync(show=False)
    assert [*first.table().run_id] == [*second.table().run_id]


@pytest.mark.slow("a process that is killed, and one that is not")
def test_killed_experiment_resumes_to_the_same_table(start_method: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    def exit_code(**ends: int) -> int | None:
        process: Any = get_context(start_method).Process(target=run_or_die, args=(folder,), kwargs=ends)  # type: ignore[attr-defined]
        process.start()
        process.join()
        return process.exitcode  # type: ignore[no-any-return]

    for where, ends in {"tool": {"calls": 2}, **({"between": {"cells": 3}} if AT_NIGHT else {})}.items():
        with subtests.test(where):
            folder = tmp_path / where
            assert exit_code(**ends) == 9
            begun = len([*folder.glob("*.jsonl")])
            assert begun > 0
            # That function has another tool, so that the experiment is its own: it is rerun there.
            assert exit_code() == 0
            from agentnb.experiments.results.experiment_folder import ExperimentFolder

            rows_there = ExperimentFolder(folder).rows()
            whole = {(row.task, row.variant): row for row in small(6).run_sync(show=False).rows}
            assert {(row.task, row.variant) for row in rows_there.values()} == set(whole)
            for row in rows_there.values():
                other = whole[row.task, row.variant]
                assert (row.values, row.status, row.seed) == (other.values, other.status, other.seed)
            assert len([*folder.glob("*.jsonl")]) == 12
            redone = [row.redone for row in rows_there.values() if row.redone]
            assert "again" in redone or where == "between", "a run cut off in a call is not recovered"
            assert len([*folder.glob("cut/*")]) == redone.count("again")


def test_failed_limited_and_broken_cells_become_rows_with_reasons() -> None:
    class Breaks:
        name = "own:breaks"

        async def stream(self, request: Any) -> Any:
            if len(request.messages) < 3:
                raise RuntimeError("no luck")
            yield

    variants = {
        "limited": {"max_rounds": 1},
        "broken": {"model": Breaks()},
        "failing": {"model": ScriptedModel([ModelError("the server is down")], repeat=True)},
        "healthy": {"model": CHATTY},
    }
    settings = {"agent": {"tools": [check_line], "model": CHATTY}, "primary": "answered", "models": None}
    results = small(5, variants, **settings).run_sync(show=False)
    reasons = results.table().groupby("variant").reason.first()
    assert len(results.rows) == 20
    assert "5 runs reached a limit: 5 x max_rounds ('limited' 5, 'broken' 0, 'failing' 0, 'healthy' 0)" in results.notes
    assert reasons["limited"] == "max_rounds"
    assert "no luck" in reasons["broken"] and "the server is down" in reasons["failing"]
    assert results.table().groupby("variant").answered.sum().drop("healthy").eq(0).all()


def test_unanswered_question_becomes_a_row_with_the_reason() -> None:
    def delete(name: str) -> str:
        """Delete a file."""
        return "deleted"

    prompt = [{"id": f"t{n}", "prompt": f"Go on.\n\n- Delete `delete('{n}')`"} for n in range(2)]
    experiment = Experiment(
        prompt,
        {"asks": {"gates": [lambda call, run: __import__("agentnb").Ask("sure?")]}, "does": "off"},
        models=["simulated:disciplined"],
        agent={"tools": [delete]},
        folder=False,
    )
    results = experiment.run_sync(show=False)
    found = results.table().groupby("variant").reason.first()
    assert found["asks"] == "nobody_to_ask" and found["does"] == ""
    assert "nobody answered the questions of 2 runs ('asks' 2, 'does' 0)" in compare(results, "does", "asks").notes


def test_value_of_a_raising_check_is_missing_and_counted() -> None:
    def fragile(run: Run, row: Any) -> bool:
        return bool(1 / (1 - int(row["id"][1:]) % 2))

    results = small(6, checks=[fragile]).run_sync(show=False)
    found = results.table()
    assert found.fragile.isna().equals(found.task.isin(["t1", "t3", "t5"]))
    assert any("a check raised an error, so values are unknown in 6 runs" in note for note in results.notes)


def test_exhausted_budget_starts_no_cell_and_unknown_costs_run_alone() -> None:
    price = "simulated:disciplined?price=3000/3000"
    experiment = small(10, models=[price], budget=0.0001, places=2, primary="answered", agent={"tools": [check_line]})
    results = experiment.run_sync(show=False)
    assert len(results.rows) == 1 and results.missing == 19 and results.is_covered
    assert not results.failures
    assert "the budget of $0.0001 was reached after 1 of 20 runs" in results.notes


def test_budget_includes_spending_of_earlier_processes(tmp_path: Path) -> None:
    settings = {"models": ["simulated:disciplined?price=3000/3000"], "primary": "answered", "agent": {"tools": [check_line]}}
    first = small(4, folder=tmp_path / "exp", budget=0.0001, places=1, **settings).run_sync(show=False)
    again = small(4, folder=tmp_path / "exp", budget=0.0001, places=1, **settings).run_sync(show=False)
    assert len(first.rows) == len(again.rows) == 1


def started(experiment: Experiment, at: int, act: Callable[[LiveExperiment], None], seen: list[Progress]) -> LiveExperiment:
    """Act once on a live experiment when this many cells are done."""
    here, acted = threading.Event(), list[Progress]()

    def watch(progress: Progress) -> None:
        here.wait()  # on another thread, possibly before the handle exists
        seen.append(progress)
        if progress.done == at and not acted:
            acted.append(progress)
            act(live)

    live = experiment.start(show=False, watch=watch)
    here.set()
    return live


def test_stop_leaves_the_remaining_cells_for_the_next_run(tmp_path: Path) -> None:
    seen: list[Progress] = []
    part = started(small(6, folder=tmp_path / "exp", places=1), 3, LiveExperiment.stop, seen).result(LONG)
    assert part.missing == 9 and seen[-1].state == "stopped"
    assert small(6, folder=tmp_path / "exp").run_sync(show=False).missing == 0
    assert len([*(tmp_path / "exp").glob("*.jsonl")]) == 12


def test_paused_experiment_starts_nothing_until_resumed(subtests: pytest.Subtests) -> None:
    with ThreadPoolExecutor(2) as pool:
        for places, executor in {1: "kernel", 2: pool}.items():
            with subtests.test(places=places):
                live = started(small(4, executor=executor, places=places), 2, LiveExperiment.pause, [])
                wait_until(lambda live=live: live.progress.state == "paused" and not live.progress.running)
                assert live.progress.done in (2, 1 + places) and not live.done
                live.resume()
                assert live.result(LONG).missing == 0


def test_second_process_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    from agentnb.experiments.results.experiment_folder import ExperimentFolder

    with (
        ExperimentFolder(tmp_path / "exp").hold_lock(),
        pytest.raises(SettingsError, match="is already running, here or in another process"),
    ):
        small(2, folder=tmp_path / "exp").run_sync(show=False)


def test_changed_experiment_is_refused_in_its_folder(tmp_path: Path, snapshot: Any) -> None:
    small(2, folder=tmp_path / "exp").run_sync(show=False)
    with pytest.raises(ExperimentProblems) as refused:
        small(2, {"off": "off", "matrix": {"policy": "minimal"}}, folder=tmp_path / "exp", seed=4).run_sync(show=False)
    assert str(refused.value) == snapshot(FOLDER=str(tmp_path / "exp"))


def test_extending_after_the_first_run_is_a_recorded_deviation(tmp_path: Path) -> None:
    experiment = small(3, folder=tmp_path / "exp")
    experiment.run_sync(show=False)
    more = experiment.extend([{"id": "new", "prompt": "- Check `check_line('new')`"}], repeats=1)
    results = more.run_sync(show=False)
    assert len(results.rows) == 3 * 2 + 1 * 2 + 4 * 2
    assert any("extended by 1 task and 1 repeat" in note for note in results.notes)
    assert any("extended" in note for note in compare(results, "matrix", "off", primary="rounds").notes)
    assert len(more.run_sync(show=False).plan.notes) == 1


def test_retry_repeats_failed_runs_and_records_the_reason(tmp_path: Path) -> None:
    state = {"down": True}

    class Flaky:
        name = "own:flaky"

        async def stream(self, request: Any) -> Any:
            if state["down"]:
                raise ModelError("down")
            from agentnb.core.messages import Message, Text
            from agentnb.models.model import Reply

            yield Reply(Message("assistant", (Text("here"),)))

    settings = {"models": [Flaky()], "agent": {}, "primary": "answered", "folder": tmp_path / "exp"}
    experiment = small(2, **settings)
    assert sum(experiment.run_sync(show=False).failures.values()) == 4
    assert sum(experiment.run_sync(show=False).failures.values()) == 4  # failed runs stay
    state["down"] = False
    results = experiment.retry("the server was down").run_sync(show=False)
    assert not results.failures and {row.attempt for row in results.rows} == {2}
    assert any("the server was down" in note for note in results.notes)
    assert len(load_traces(tmp_path / "exp")) == 4
    with pytest.raises(SettingsError, match="no failed run"):
        experiment.retry("completed runs are not made again")


def test_retry_leaves_completed_runs_alone() -> None:
    variants = {"fails": {"model": ScriptedModel([ModelError("down")], repeat=True)}, "works": {"model": CHATTY}}
    experiment = small(2, variants, agent={"tools": [check_line]}, models=None, primary="answered")
    before = {row.run_id for row in experiment.run_sync(show=False).of("works")}
    with pytest.raises(SettingsError, match="needs a reason"):
        experiment.retry(" ")
    results = experiment.retry("the server was down").run_sync(show=False)
    assert {row.run_id for row in results.of("works")} == before
    assert {(row.variant, row.attempt) for row in results.rows} == {("fails", 2), ("works", 1)}
    assert any("2 runs again" in note for note in results.notes)


def test_values_stay_hidden_until_the_end_unless_peeked_at(tmp_path: Path) -> None:
    experiment = small(6, folder=tmp_path / "exp", places=1)
    experiment.run_sync(show=False)
    _leave_out(tmp_path / "exp", 5)
    results = experiment.results()
    assert results.is_covered and [*results.table().columns] == [*OPEN] and len(results.table()) == 7
    assert not any(row.values or row.rounds or row.digest for row in results.rows)
    assert {row.value(name) for row in results.rows for name in ("was_called", "rounds", "cost")} == {None}
    for look in (results.means, lambda: compare(results, "matrix", "off")):
        with pytest.raises(SettingsError, match="hidden"):
            look()
    looked = experiment.results(peek=True)
    assert looked.table().was_called.notna().all()
    whole = small(6, folder=tmp_path / "exp").run_sync(show=False)
    assert any("looked at after 7 of 12 runs" in note for note in compare(whole, "matrix", "off").notes)


def test_peeking_at_the_logs_before_the_end_is_noted(tmp_path: Path, subtests: pytest.Subtests) -> None:
    folder = tmp_path / "exp"
    experiment = small(6, folder=folder, places=1)
    started(experiment, 4, LiveExperiment.stop, []).result(LONG)
    part = experiment.results()
    assert not [note for note in part.notes if "looked" in note]
    looks: dict[str, Callable[[], object]] = {
        "the table of runs": lambda: tables.runs(folder),
        "a kept table": lambda: (tables.rounds(folder, cache=True), tables.rounds(folder, cache=True)),
        "a store": lambda: tables.usage(Store(folder)),
        "a run of a store": lambda: Store(folder).load(part.rows[0].run_id),
        "the list of a store": lambda: Store(folder).summaries(),
        "a log": lambda: tables.rounds(next(folder.glob("*.jsonl"))),
        "folders around it": lambda: load_traces(tmp_path),
        "a run of the results": lambda: part.run(part.rows[0].run_id),
        "a plot": lambda: plots.tokens(folder),
    }
    cover = folder / "experiment.covered"
    for name, look in looks.items():
        with subtests.test(name):
            assert not cover.stat().st_size
            look()
            noted = cover.read_bytes()
            look()
            assert noted and cover.read_bytes() == noted
            assert [*experiment.results().notes].count("looked at after 4 of 12 runs") == 1
    whole = small(6, folder=folder).run_sync(show=False)
    tables.runs(folder)
    notes = compare(experiment.results(), "matrix", "off").notes
    assert notes == whole.notes and len([note for note in notes if "looked" in note]) == 1
    assert not cover.exists()


def test_experiment_continues_once_a_full_disk_has_space(tmp_path: Path) -> None:
    full = [True]
    write = os.write

    def write_log(descriptor: int, data: Any) -> int:
        if full[0] and b'"round_started"' in bytes(data) and len([*(tmp_path / "exp").glob("*.jsonl")]) >= 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    experiment = small(4, folder=tmp_path / "exp", places=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentnb.store.run_file.os.write", write_log)
        with pytest.raises(StoreError, match=rf"space left on device: {tmp_path}/exp/[\w-]+\.jsonl. .* free some disk space"):
            experiment.run_sync(show=False)
        assert len(experiment.results().rows) == 2
        full[0] = False
        assert experiment.run_sync(show=False).missing == 0
    assert not experiment.results().failures


def test_peeking_at_a_run_in_memory_is_noted() -> None:
    experiment = small(3, places=1)
    part = started(experiment, 2, LiveExperiment.stop, []).result(LONG)
    part.run(part.rows[0].run_id)
    whole = experiment.run_sync(show=False)
    whole.run(whole.rows[-1].run_id)
    assert experiment.results().notes == whole.notes == ("looked at after 2 of 6 runs",)


def test_peeking_while_running_is_noted(tmp_path: Path) -> None:
    def look(progress: Progress) -> None:
        if progress.done == 1:
            tables.runs(tmp_path / "exp")

    results = small(2, folder=tmp_path / "exp", places=1).run_sync(show=False, watch=look)
    assert results.notes == ("looked at after 1 of 4 runs",) and not results.is_covered


def test_continued_experiment_reads_its_own_logs_without_a_peek(tmp_path: Path) -> None:
    experiment = small(2, folder=tmp_path / "exp", places=1)
    experiment.run_sync(show=False)
    path = tmp_path / "exp" / "experiment.rows"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    whole = experiment.run_sync(show=False)
    assert len(whole.rows) == 4 and whole.notes == ()


def _leave_out(folder: Path, count: int) -> None:
    """Remove the last rows from the folder, as if the process had died before."""
    path = folder / "experiment.rows"
    lines = path.read_bytes().splitlines(keepends=True)
    left = lines[-count:]
    path.write_bytes(b"".join(lines[:-count]))
    import msgspec

    for line in left:
        (folder / f"{msgspec.json.decode(line)['run_id']}.jsonl").unlink()


def test_workflows_and_agents_can_be_variants() -> None:
    flow = Workflow.from_yaml(
        """
workflow:
  - type: agent
    name: a
agents:
  a: {tools: [check_line]}
""",
        tools=[check_line],
    )
    agent = Agent(CHATTY, tools=[check_line])
    results = Experiment(
        rows(2), {"flow": flow, "agent": agent}, models=["simulated:disciplined"], primary="answered", folder=False
    ).run_sync(show=False)
    assert results.table().groupby("variant").answered.mean().to_dict() == {"flow": 1.0, "agent": 1.0}


def test_tasks_can_fork_recorded_runs_at_a_round(tmp_path: Path) -> None:
    first = small(2, {"a": "off"}, folder=tmp_path / "first", agent={"tools": [check_line]}, primary="answered")
    first.run_sync(show=False)
    forks = Experiment(
        {"traces": tmp_path / "first", "at_round": 2},
        {"off": "off", "matrix": "matrix"},
        models=["simulated:disciplined"],
        agent={"model": CHATTY},
        folder=tmp_path / "forks",
    ).run_sync(show=False)
    runs = load_traces(tmp_path / "forks")
    assert len(forks.rows) == 4 and all(run.forked_from is not None for run in runs)
    assert {run.settings["guidance"]["set"] for run in runs} == {"off", "matrix"}


def test_same_seed_for_all_tasks_yields_identical_results() -> None:
    results = small(12, {"off": "off"}).run_sync(show=False)
    assert results.table().was_called.nunique() == 2

    def same_draw(task: str, repeat: int, variant: str) -> int:
        return 7

    from agentnb.experiments.planning import schedule

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule.Schedule, "seed_for", lambda self, task, repeat, variant: same_draw(task, repeat, variant))
        alike = small(12, {"off": "off"}).run_sync(show=False)
    assert alike.table().was_called.nunique() == 1


def test_worker_processes_produce_the_same_table(quick_workers: None) -> None:
    here = small(4, repeats=2).run_sync(show=False)
    there = small(4, repeats=2, executor="processes", places=2).run_sync(show=False)
    pd.testing.assert_frame_equal(table(here), table(there))


def test_variant_is_named_in_the_tags_of_its_runs(tmp_path: Path) -> None:
    results = small(2, folder=tmp_path / "exp").run_sync(show=False)
    for row in results.rows:
        assert {f"task:{row.task}", f"variant:{row.variant}"} < set(results.run(row.run_id).tags)


def test_default_folder_is_named_by_the_experiment_id() -> None:
    experiment = small(1, folder=None)
    experiment.run_sync(show=False)
    assert (
        Path(".agentnb", "experiments", experiment.id, "experiment.plan").exists() and Path(".agentnb", ".gitignore").exists()
    )


def test_known_key_appears_in_neither_rows_nor_logs(tmp_path: Path) -> None:
    key = "test-0123456789abcdef-of-this-kernel"
    settings.keep_key("PLANT_KEY", key)

    class Tells:
        name = "own:tells"

        async def stream(self, request: Any) -> Any:
            raise RuntimeError(f"refused {key}")
            yield

    def leaks(run: Run) -> bool:
        if run.model.startswith("own:"):
            raise ValueError(f"saw {key}")
        return True

    try:
        results = small(2, models=[Tells()], primary=leaks, folder=tmp_path / "exp").run_sync(show=False)
        assert all("[key]" in row.error or "[key]" in str(row.check_errors) for row in results.rows)
        assert all(key.encode() not in path.read_bytes() for path in (tmp_path / "exp").iterdir())
    finally:
        settings.forget_key("PLANT_KEY")
