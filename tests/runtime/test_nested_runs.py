"""Nested runs of a recovered run are loaded once and resumed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from own_orchestrator import side_by_side
from scripted_runs import bare

from agentnb import Run, Store, ToolCall, Workflow, recover
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask


class CountingStore(Store):
    """A store that records the loaded logs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.loaded: list[str] = []

    def load(self, run_id: str) -> Run:
        self.loaded.append(run_id)
        return super().load(run_id)


async def noted() -> str:
    """Note."""
    return "noted"


def careful(call: ToolCall, run: Any) -> Ask:
    return Ask("May it?")


def test_recovered_step_loads_the_log_of_its_nested_run_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "inner.yaml").write_text("workflow: [{type: tool, name: noted}]\n")

    def pair(*replies: Any) -> Any:
        asking = bare(ScriptedModel([*replies]), [noted], gates=[careful])
        return side_by_side(asking, bare(ScriptedModel(["Right."])))

    def of_file(*_: Any) -> Any:
        text = f"workflow: [{{type: workflow, file: {tmp_path / 'inner.yaml'}}}]\n"
        return Workflow.from_yaml(text, tools=[noted]).orchestration(gates=[careful])

    for name, make in {"agent": pair, "workflow": of_file}.items():
        with subtests.test(name):
            store = CountingStore(tmp_path / name)
            asked = make(ToolCall("noted")).run_sync("Go", store=store, suspend=True, show=False)
            (nested,) = [step.nested for step in asked.step_records.values() if step.status != "completed" and step.nested]
            store.loaded.clear()
            run = asyncio.run(recover(asked.id, agent=make("Done."), store=store, answers={asked.waiting[0].id: True}))
            assert run.status == "completed"
            assert store.loaded.count(nested) == 2, "once for what it spent, once for its step"
