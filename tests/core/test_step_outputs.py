"""Outputs of steps, folded from their events."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from property_settings import size

from agentnb.core.log import work_events as w
from agentnb.core.run.step_outputs import StepOutputs

AT = datetime(2026, 11, 22, tzinfo=UTC)


def finish(outputs: StepOutputs, step: str, output: str, *, parent: str = "", kind: str = "tool", attempts: int = 1) -> None:
    event = w.StepFinished(seq=0, at=AT, run_id="r", step=step, output=output, attempts=attempts)
    outputs.finish(event, kind, parent, "f")


def start(outputs: StepOutputs, step: str, order: tuple[str, ...]) -> None:
    outputs.start(w.StepStarted(seq=0, at=AT, run_id="r", step=step, step_kind="parallel", inputs={"order": list(order)}))


@pytest.mark.req("R4.25")
def test_snapshot_is_consistent_while_other_threads_finish_steps() -> None:
    outputs, over, steps = StepOutputs(), threading.Event(), size(1_000, nightly=3_000)
    wrong: list[object] = []

    def look() -> None:
        try:
            while not over.is_set():
                found = outputs.snapshot()
                assert [*found["steps"]] == found["order"]
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for one in threads:
        one.start()
    for number in range(steps):
        finish(outputs, f"s{number}", "x")
    over.set()
    for one in threads:
        one.join()
    assert wrong == []
    assert len(outputs.snapshot()["order"]) == steps
    outputs.snapshot()["steps"]["s0"]["output"] = "changed"
    assert outputs.steps["s0"]["output"] == "x"


def test_block_outputs_appear_when_it_ends_without_failed_attempts() -> None:
    outputs = StepOutputs()
    start(outputs, "b", ("left", "right"))
    finish(outputs, "b/left", "one", parent="b")
    finish(outputs, "b/branch", "not taken again", parent="b")
    assert dict(outputs.steps) == {}
    start(outputs, "b", ("left", "right"))
    finish(outputs, "b/right", "two", parent="b")
    finish(outputs, "b/left", "three", parent="b")
    finish(outputs, "b", "", kind="parallel", attempts=2)
    assert outputs.snapshot()["steps"]["b"] == {
        "outputs": {
            "left": {"tool": "f", "output": "three", "runs": [{"output": "three", "attempts": 1}]},
            "right": {"tool": "f", "output": "two", "runs": [{"output": "two", "attempts": 1}]},
        },
        "order": ["left", "right"],
        "attempts": 2,
    }
    assert outputs.text == "three\n\ntwo"
    start(outputs, "b", ("left", "right"))
    finish(outputs, "b/left", "four", parent="b")
    finish(outputs, "b", "", kind="parallel")
    assert [execution["output"] for execution in outputs.steps["b"]["outputs"]["left"]["runs"]] == ["three", "four"]
    finish(outputs, "enough", "true", kind="condition")
    assert outputs.text == "four"
