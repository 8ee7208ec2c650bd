"""A killed task file resumes where it was: finished tasks are not repeated, and branches stay the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from property_settings import size
from task_examples import HERE, ScriptedPlanner, ScriptedTools, cut, on_virtual_time, run_of, script, without_ids

from agentnb import Run, Store, Workflow
from agentnb.core.log.work_events import BranchTaken, StepFinished, StepSkipped
from agentnb.runtime.host.run_options import RunOptions

BACKGROUND = """
init: {items: [1, 2, 3], seen: null, slow: null, wrong: null}
vars: {times: 0, flag: false}
stage:
  round:
    slow: {action: count:slow, async: true, post: {slow: "${result}"}}
    quick: {action: count:quick, async: true}
    either: {await: {mode: first, on: [slow, quick]}, post: {first: "${result}"}}
    each:
      emit: {forEach: "${items}", as: item, task: {one: {action: count:one, when: item != 2, input: {n: "${item}"}}}}
      await: {mode: all, merge: replace}
      post: {seen: "${result}"}
    bad: {action: count:wrong, onError: {action: count:quick}}
    tries: {action: count:wrong, async: true, retry: {maxRetries: 3, delay: 9s}, post: {wrong: true}}
    one_second: {action: count:one, async: true, input: {n: 1}}
    sooner: {await: {mode: first, on: [tries, one_second]}}
    lost: {action: count:wrong, async: true}
    known: {await: {on: [lost]}, onError: {action: count:quick}}
    late: {action: count:late, async: true, post: {flag: "${true}"}}
    soon: {action: count:quick, async: true}
    gap: {dependsOn: soon, post: {gap: 1}}
    maybe: {when: flag, action: count:quick}
    join: {dependsOn: late, goto: {when: "!flag", task: end}}
    again:
      when: seen == 1
      post: {times: "${times + 1}"}
      goto: [{when: times < 2, task: round}, {when: false, task: round}]
"""


def decisions(run: Run) -> list[Any]:
    """Return the decisions of a run: ends of steps, except cancelled ones that may restart, and branches."""
    facts = []
    for event in run.events:
        if isinstance(event, StepFinished) and event.status != "cancelled":
            facts.append((event.step, event.status, without_ids(event.output), without_ids(event.sets)))
        elif isinstance(event, StepSkipped):
            facts.append((event.step, event.reason))
        elif isinstance(event, BranchTaken):
            facts.append((event.step, event.to, event.count))
    return sorted(facts, key=repr)


def resumed(workflow: Workflow, inputs: Mapping[str, Any], store: Store, run_id: str, **settings: Any) -> Run:
    async def run() -> Run:
        writer, found = store.reopen(run_id)
        what = workflow.orchestration(inputs=inputs, **settings)
        return await what.resume_here(found, writer, RunOptions(store=store, show=False))

    return on_virtual_time(run)


class Case(NamedTuple):
    """A task file with fresh settings for each run."""

    workflow: Workflow
    inputs: Mapping[str, Any]
    settings: Callable[[int], tuple[dict[str, Any], Callable[[], int]]]
    """From the number of earlier plans: run settings, and a counter of tool calls."""


def example(name: str) -> Case:
    scripted = script(f"{name}.run.yaml")

    def settings(planned: int) -> tuple[dict[str, Any], Callable[[], int]]:
        tools, planner = (
            ScriptedTools(scripted["tools"], scripted["inputs"].get("tools", ()), repeatable=True),
            ScriptedPlanner(scripted.get("replies", [])[planned:]),
        )
        return {"tools": tools.tools, "model": planner}, lambda: len(tools.called)

    return Case(Workflow.from_yaml(HERE / scripted["file"]), scripted["inputs"], settings)


def counting() -> Case:
    def settings(planned: int) -> tuple[dict[str, Any], Callable[[], int]]:
        calls: list[str] = []

        async def count_slow() -> str:
            calls.append("slow")
            await asyncio.sleep(5)
            return "slow"

        async def count_late() -> str:
            calls.append("late")
            await asyncio.sleep(5)
            return "late"

        async def count_quick() -> str:
            calls.append("quick")
            return "quick"

        async def count_one(n: int) -> int:
            calls.append(f"one {n}")
            await asyncio.sleep(1 / n)
            return n

        async def count_wrong() -> int:
            calls.append("wrong")
            raise ValueError("it is wrong")

        return {"tools": [count_slow, count_late, count_quick, count_one, count_wrong]}, lambda: len(calls)

    return Case(Workflow.from_yaml(BACKGROUND), {}, settings)


@pytest.mark.slow("each run is killed after every fourth event, at night after every one")
@pytest.mark.req("R1.7", "R1.8", "R1.10", "K1.7")
def test_killed_task_run_recovers_to_the_same_result(tmp_path: Path, subtests: pytest.Subtests) -> None:
    names = ("fan-out", "loop-three", "on-error-abort", "planner")
    for name, case in [("counting", counting()), *((name, example(name)) for name in names)]:
        store = Store(tmp_path / name)
        settings, called = case.settings(0)
        whole = run_of(case.workflow, case.inputs, store, **settings)
        for lines in range(1, len(whole.events), size(4, nightly=1)):
            with subtests.test(f"{name} {lines}"):
                ends = [
                    event for event in whole.events[:lines] if isinstance(event, StepFinished) and event.status == "completed"
                ]
                settings, called_again = case.settings(sum("/reply-" in one.step for one in ends))
                cut_store = cut(store, whole, lines, tmp_path / f"{name}-{lines}")
                run = resumed(case.workflow, case.inputs, cut_store, whole.id, **settings)
                assert (run.status, run.stop_reason, run.text) == (whole.status, whole.stop_reason, whole.text)
                assert without_ids(run.variables) == without_ids(whole.variables)
                assert decisions(run) == decisions(whole)
                done = [whole.step_records[one.step] for one in ends]
                done_calls = [one for one in done if one.kind != "emit" and one.agent and ":" not in one.agent]
                assert called_again() <= called() - len(done_calls)


def test_long_background_task_run_makes_the_expected_decisions(tmp_path: Path) -> None:
    case = counting()
    run = run_of(case.workflow, case.inputs, Store(tmp_path), **case.settings(0)[0])
    assert run.status == "completed", run.error
    assert run.variables == {
        "items": [1, 2, 3],
        "seen": 1,
        "times": 2,
        "flag": True,
        "gap": 1,
        "slow": None,
        "first": ["quick"],
        "wrong": None,
    }
