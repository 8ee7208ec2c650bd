"""Every example of the form runs with the expected results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from workflow_examples import HERE, RUNS, nested, played, ran, script, waits

from agentnb import Store, Workflow
from agentnb.errors import WorkflowProblems


@pytest.mark.req("R4.6", "R4.7", "R4.8", "R4.9", "R4.16", "R4.17", "R4.20", "R4.21", "R4.23", "R4.26", "R4.27", "R4.29")
@pytest.mark.req("K4.1", "K4.11")
def test_every_example_produces_the_expected_step_context(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in RUNS:
        scripted, store = script(name), Store(tmp_path / name)
        with subtests.test(name):
            workflow = Workflow.from_yaml(HERE / scripted["file"])
            run = played(workflow, scripted["prompt"], scripted["replies"], store)
            assert run.status == scripted["status"]
            assert run.step_context == scripted["step_context"]
            checks = {
                "ran": lambda run=run: ran(run),
                "text": lambda run=run: run.text,
                "error": lambda run=run: run.error and run.error.message,
                "loops": lambda run=run: dict(run.back_edges),
                "waits": lambda run=run: waits(run),
                "warnings": lambda workflow=workflow: [warning.code for warning in workflow.warnings],
            }
            for key, expected in checks.items():
                if key in scripted:
                    assert expected() == scripted[key], key
            assert {store.load(record.nested).parent_id for record in run.step_records.values() if record.nested} <= {run.id}
            for step, prompts in scripted.get("user_messages", {}).items():
                assert [nested_run.prompt for nested_run in nested(run, store, step)] == prompts
            for step, instruction in scripted.get("instructions", {}).items():
                assert instruction in nested(run, store, step)[-1].system
            assert store.load(run.id) == run


def changed(told: dict[str, Any], replies: dict[str, Any]) -> dict[str, Any]:
    return {**told["replies"], **replies}


@pytest.mark.req("R4.22", "R4.28", "K4.6", "K4.8")
def test_unretried_or_exhausted_failure_fails_the_run_naming_its_step(subtests: pytest.Subtests) -> None:
    for name, case in [
        ("retry.run.yaml", "when_not_listed"),
        ("retry.run.yaml", "when_exhausted"),
        ("nested-parallel.run.yaml", "when_one_fails"),
    ]:
        scripted = script(name)
        expected = scripted[case]
        with subtests.test(f"{name} {case}"):
            run = played(
                Workflow.from_yaml(HERE / scripted["file"]), scripted["prompt"], changed(scripted, expected["replies"])
            )
            assert (run.status, run.stop_reason) == (expected["status"], "step_failed")
            assert run.error is not None and run.error.message.startswith(f"step {expected['failed_step']}: ")
            record = run.step_records[expected["failed_step"]]
            assert (record.status, record.attempts) == ("failed", expected.get("attempts", 1))
            context = run.step_context
            assert {key: context[key] for key in expected.get("step_context", ())} == expected.get("step_context", {})
            for step in expected.get("not_run", ()):
                assert step not in run.step_records


def test_unknown_name_in_an_instruction_is_found_before_anything_runs() -> None:
    scripted = script("templates.run.yaml")["when_a_name_is_wrong"]
    text = (HERE / "templates.yaml").read_text(encoding="utf-8")
    with pytest.raises(WorkflowProblems) as caught:
        Workflow.from_yaml(text.replace("{{ $steps.par_gen.outputs.gen_1.output }}", scripted["instruction"]))
    assert all(word in str(caught.value) for word in scripted["says"])


@pytest.mark.req("R4.24")
def test_both_paths_to_a_nested_output_resolve_to_equal_text(tmp_path: Path) -> None:
    scripted, store = script("nested-parallel.run.yaml"), Store(tmp_path)
    text = (HERE / "nested-parallel.yaml").read_text(encoding="utf-8")
    asks = " | ".join(scripted["same"])
    text = text.replace("Make one paragraph of all you see.", f'"{asks}"')
    run = played(Workflow.from_yaml(text), scripted["prompt"], scripted["replies"], store)
    first, second = nested(run, store, "publisher")[0].system.split("\n")[0].split(" | ")
    assert first == second == "The lamp of Cordouan is the oldest one in use."
