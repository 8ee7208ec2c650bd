"""Every example of a task file runs with the expected results."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import ANY

import pytest
from task_examples import HERE, ScriptedPlanner, ScriptedTools, played, script, tasks_of, without_ids

from agentnb import Store
from agentnb.core.log.work_events import StepAttempted

RUNS = sorted(path.name for path in HERE.glob("*.run.yaml"))


@pytest.mark.req("R1.2", "R1.3", "R1.7", "R1.8", "R1.9", "R1.10", "R1.48", "R1.49", "R1.50", "K1.7")
def test_every_example_produces_the_results_in_its_file(tmp_path: Path, subtests: pytest.Subtests) -> None:
    assert len(RUNS) == 5
    for name in RUNS:
        scripted, store = script(name), Store(tmp_path / name)
        with subtests.test(name):
            tools = ScriptedTools(scripted["tools"], (scripted.get("inputs") or {}).get("tools", ()))
            planner = ScriptedPlanner(scripted.get("replies", []))
            run = played(HERE / scripted["file"], scripted["inputs"], store, tools=tools.tools, model=planner)
            assert run.status == scripted["status"], run.error
            checks = {
                "text": run.text,
                "ran": tasks_of(run),
                "stop_reason": run.stop_reason,
                "error": run.error and run.error.message,
                "planner_saw": planner.saw,
            }
            for key, expected in checks.items():
                if key in scripted:
                    assert expected == scripted[key], key
            assert {key: without_ids(run.variables[key]) for key in scripted["variables"]} == scripted["variables"]
            assert without_ids([plan.plan for plan in run.plans.values()]) == scripted.get("plans", ANY)
            assert [call for call, _ in tools.called if call in scripted.get("not_called", ())] == []
            assert len(tools.called) == sum(map(len, scripted["tools"].values()))
            assert store.load(run.id) == run


def test_retries_wait_as_the_file_declares() -> None:
    scripted = script("fan-out.run.yaml")
    run = played(HERE / scripted["file"], {}, tools=ScriptedTools(scripted["tools"]).tools)
    tried = [(event.step, event.wait) for event in run.events if isinstance(event, StepAttempted)]
    assert tried == [("gather/fetch_all/1", 1.0)]


@pytest.mark.req("R1.50", "K1.7")
def test_without_abort_the_run_continues_after_the_error_handler() -> None:
    scripted = script("on-error-abort.run.yaml")
    expected = scripted["without_abort"]
    text = (HERE / scripted["file"]).read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.strip().startswith("abort: true"))
    answers = {**scripted["tools"], "table_count": [{"args": {"rows": []}, "result": "0"}]}
    tools, planner = ScriptedTools(answers), ScriptedPlanner([*scripted["replies"], "Nothing is known."])
    run = played(text.replace(f"{line}\n", ""), scripted["inputs"], tools=tools.tools, model=planner)
    assert [name for name, _ in tools.called] == expected["called"]
    assert planner.saw == [[], ["tides_fetch", "table_count"]]
    assert (run.status, run.text) == ("completed", "Nothing is known.")


@pytest.mark.req("R1.7", "R1.48")
def test_false_condition_also_skips_the_post_and_goto() -> None:
    scripted = script("postproc.run.yaml")
    expected = scripted["without_results"]
    planner = ScriptedPlanner(expected["replies"])
    run = played(HERE / scripted["file"], scripted["inputs"], tools=ScriptedTools(scripted["tools"]).tools, model=planner)
    assert tasks_of(run) == expected["ran"]
    assert {key: run.variables[key] for key in expected["variables"]} == expected["variables"]
    assert {path: record.reason for path, record in run.step_records.items() if record.status == "skipped"} == {
        "loop/exec": "len(plan.steps) > 0",
        "loop/postproc": "len(results) > 0",
    }
