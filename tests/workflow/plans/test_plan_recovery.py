"""A killed planner resumes with an answer by question id and repeats no call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from plan_examples import fetch, results, steps
from task_examples import cut, run_of

from agentnb import Run, Store, Workflow, recover
from agentnb.core.log.events import QuestionAsked, ToolStarted
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

QUERY = "- `tides_fetch('brest')`\n- `tides_fetch()`\n- `tides_fetch('cork')`"


def killed_while_asking(folder: Path, tool: Any, model: Any, query: str = QUERY) -> tuple[Store, Run]:
    """Return the run, killed during its first question, from its log, and its store."""
    store, cut = Store(folder / "whole"), Store(folder / "cut")
    run = run_of(Workflow.planner([tool]), {"query": query}, store, model=model, answer=lambda question: {"station": "vigo"})
    asked = next(index for index, event in enumerate(run.events) if isinstance(event, QuestionAsked))
    lines = store.path(run.id).read_text(encoding="utf-8").splitlines(keepends=True)
    cut.folder.mkdir()
    cut.path(run.id).write_text("".join(lines[: asked + 1]), encoding="utf-8")
    loaded = cut.load(run.id)
    assert loaded.status == "interrupted" and len(loaded.waiting) == 1
    return cut, loaded


@pytest.mark.req("R1.42", "R1.43", "KX.5")
def test_answering_after_a_kill_repeats_no_call(tmp_path: Path) -> None:
    called: list[str] = []

    def tides_fetch(station: str) -> str:
        """Fetch."""
        called.append(station)
        return station

    store, cut = killed_while_asking(tmp_path, tides_fetch, "simulated:disciplined")
    called.clear()
    answers = {cut.waiting[0].id: {"station": "vigo"}}
    run = asyncio.run(recover(cut.id, tools=[tides_fetch], store=store, answers=answers))
    assert (run.status, called) == ("completed", ["vigo", "cork"]), run.error
    assert [name for name, _, _ in results(run)] == ["tides_fetch", "elicitation", "tides_fetch", "tides_fetch"]


def test_question_from_an_interrupted_tool_can_no_longer_be_answered(tmp_path: Path) -> None:
    async def ask(context: ToolContext) -> str:
        """Ask."""
        return str(await context.ask("Where?", {"type": "object", "properties": {"station": {"type": "string"}}}))

    store, cut = killed_while_asking(tmp_path, ask, "simulated:disciplined", "- `ask()`")
    with pytest.raises(SettingsError):
        asyncio.run(recover(cut.id, tools=[ask], store=store, answers={cut.waiting[0].id: {"station": "vigo"}}))


def test_recovering_a_planner_with_a_custom_model_requires_the_model(tmp_path: Path) -> None:
    def tides_fetch(station: str) -> str:
        """Fetch."""
        return station

    reply = steps(fetch("brest"), {"name": "tides_fetch", "args": {}})
    store, cut = killed_while_asking(tmp_path, tides_fetch, ScriptedModel([reply, "Done."]))
    again: Any = {"tools": [tides_fetch], "store": store, "answers": {cut.waiting[0].id: {"station": "vigo"}}}
    with pytest.raises(SettingsError, match="model="):
        asyncio.run(recover(cut.id, **again))
    run = asyncio.run(recover(cut.id, model=ScriptedModel(["Done."]), **again))
    assert (run.status, run.text) == ("completed", "Done.")


@pytest.mark.req("R1.32")
def test_approved_call_is_not_repeated(tmp_path: Path) -> None:
    called: list[str] = []

    def pay(sum: int) -> str:
        """Pay."""
        called.append("paid")
        return "paid"

    store, settings = Store(tmp_path / "whole"), {"permissions": {"pay": "ask"}, "answer": lambda question: "approve"}
    reply = steps({"name": "pay", "args": {"sum": 7}})
    run = run_of(Workflow.planner([pay]), {"query": "Pay"}, store, model=ScriptedModel([reply, "Done."]), **settings)
    begun = next(number for number, event in enumerate(run.events, 1) if isinstance(event, ToolStarted))
    assert called == ["paid"] and len(run.questions) == 1
    left = cut(store, run, begun, tmp_path / "cut")
    again = asyncio.run(recover(run.id, tools=[pay], store=left, model=ScriptedModel(["Done."]), **settings))
    assert (again.status, called) == ("completed", ["paid"]), again.error
    assert [call.record.result.error_code for call in again.step_calls] == ["interrupted"]
