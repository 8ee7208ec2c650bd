"""A budget of a workflow requires prices of all models before it runs."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Run, Store, Workflow, load_trace
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.models.capabilities import Capabilities
from agentnb.rerun.fork import fork_sync
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.recovery import workflow_again

TEXT = """
agents:
  known: {instruction: Write., model: "simulated:disciplined"}
  other: {instruction: Write., LIMITS}
workflow:
  - {id: first, type: tool, name: work}
  - {id: par, type: parallel, steps: [{type: agent, name: known}, {id: late, type: agent, name: other}]}
"""
NESTED = "workflow: [{id: first, type: tool, name: work}, {id: sub, type: workflow, file: inner.yaml}]\n"
WHAT = "the price of free:of-price is unknown, so a budget cannot be enforced"


class Unpriced(ScriptedModel):
    """A model without a known price."""

    def __init__(self) -> None:
        super().__init__(["Said."] * 9, name="free:of-price")

    def capabilities(self) -> Capabilities:
        return Capabilities(has_price=False)


def test_exceeded_budget_is_refused_before_the_first_step(tmp_path: Path, subtests: pytest.Subtests) -> None:
    done: list[str] = []

    def work() -> str:
        """Work."""
        done.append("work")
        return "worked"

    def run(text: str, budget: float | None = None, **settings: Any) -> Run:
        (tmp_path / "outer.yaml").write_text(text)
        options = RunOptions(budget=Budget(settings.pop("session", None)), show=False)
        workflow = Workflow.from_yaml(tmp_path / "outer.yaml", tools=[work])
        return workflow.start("Go", options, budget=budget, **{"model": Unpriced(), **settings}).result(60)

    text = TEXT.replace(", LIMITS", "")
    (tmp_path / "inner.yaml").write_text(text)
    own = TEXT.replace("LIMITS", "limits: {budget: 1}")
    of_file = f"limits: {{budget: 1}}{text}"
    refused: dict[str, tuple[Any, ...]] = {
        "its own": (text, {"budget": 1.0}),
        "the file's": (of_file, {}),
        "the session's": (text, {"session": 1.0}),
        "the agent's": (own, {}),
        "of the workflow around it": (NESTED, {"budget": 1.0}),
    }
    for name, (form, settings) in refused.items():
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                run(form, **settings)
            assert f"Agent other of step par/late: {WHAT}" in str(raised.value) and done == []
    with pytest.raises(SettingsError, match=WHAT.capitalize()):
        Agent(Unpriced(), budget=1).run_sync("Go", show=False)
    allowed: dict[str, tuple[Any, ...]] = {
        "without a budget": (text, {}),
        "with replies": (text, {"budget": 1.0, "replies": {"other": ["Said."]}}),
        "counted as nothing": (f"limits: {{budget: 1}}{TEXT.replace('LIMITS', 'limits: {unpriced: true}')}", {}),
        "for all agents": (text, {"budget": 1.0, "agent_settings": {"unpriced": True}}),
    }
    for name, (form, settings) in allowed.items():
        with subtests.test(name):
            done.clear()
            assert run(form, **settings).status == "completed" and done == ["work"]


CLAIMED = "compatible:m?url=http://127.0.0.1:9/v1&price=0"
"""A model outside the price table, with a price in its name."""


def test_file_cannot_loosen_the_budget_of_the_caller(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Prices, ``unpriced`` and budgets in a file count only if the caller set no budget."""

    def allows(of_file: str, model: str, *, budget: float | None = None, session: float | None = None, **how: Any) -> bool:
        named = f'model: "{model}", ' if model != "mine" else ""
        limits = f"limits: {{{of_file}}}" if of_file else ""
        text = f"LIMITS\nagents: {{a: {{{named}{limits}}}}}\nworkflow: [{{type: agent, name: a}}]\n"
        (tmp_path / "a.yaml").write_text(text.replace("LIMITS", how.pop("of_whole", "")))
        workflow = Workflow.from_yaml(tmp_path / "a.yaml")
        workflow = workflow.as_typed() if how.pop("typed", False) else workflow
        settings = {"model": Unpriced() if model == "mine" else None, **how}
        options = RunOptions(budget=Budget(session), show=False)
        try:
            workflow.orchestration(budget=budget, **settings).start("Go", options).stop()
        except SettingsError as error:
            assert "unpriced=True" in error.hint
            assert "is unknown, so a budget cannot be enforced" in error.what
            return False
        return True

    mine, whole, unpriced = {"budget": 1.0}, {"of_whole": "limits: {budget: 1}"}, {"agent_settings": {"unpriced": True}}
    cases: dict[str, tuple[bool, bool]] = {
        "a claimed price, no budget": (True, allows("", CLAIMED)),
        "a claimed price, the budget of the file": (True, allows("", CLAIMED, **whole)),
        "a claimed price, the budget of the agent": (True, allows("budget: 1", CLAIMED)),
        "a claimed price, the person's budget": (False, allows("", CLAIMED, **mine)),
        "a claimed price, the session's budget": (False, allows("budget: 1", CLAIMED, session=1.0, **whole)),
        "a claimed price, the person says unpriced": (True, allows("", CLAIMED, **mine, **unpriced)),
        "a price that the person typed": (True, allows("", CLAIMED, typed=True, **mine)),
        "unpriced, no budget": (True, allows("unpriced: true", "mine")),
        "unpriced, the budget of the agent": (True, allows("unpriced: true, budget: 1", "mine")),
        "unpriced, the budget of the file": (True, allows("unpriced: true", "mine", **whole)),
        "unpriced, the person's budget": (False, allows("unpriced: true", "mine", **mine)),
        "unpriced, the session's budget": (False, allows("unpriced: true, budget: 1", "mine", session=1.0)),
        "unpriced, as the person says": (True, allows("unpriced: true", "mine", **mine, **unpriced)),
        "unpriced, which the person typed": (True, allows("unpriced: true", "mine", typed=True, **mine)),
    }
    for name, (expected, allowed) in cases.items():
        with subtests.test(name):
            assert allowed is expected


def test_foreign_log_cannot_loosen_a_budget(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Settings from the caller's own log count again."""
    store = Store(tmp_path)
    run = Agent(Unpriced(), name="a", budget=1.0, unpriced=True).run_sync("Go", store=store, show=False)
    foreign = tmp_path / "elsewhere.jsonl"
    foreign.write_bytes((tmp_path / f"{run.id}.jsonl").read_bytes().replace(b'"unpriced":true', b'"unpriced":true '))
    cases = {"their own": (load_trace(tmp_path / f"{run.id}.jsonl"), True), "from elsewhere": (load_trace(foreign), False)}
    for name, (before, counts) in cases.items():
        with subtests.test(name):
            options = RunOptions(budget=Budget(1.0), show=False)
            if counts:
                assert fork_sync(before, 1, model=Unpriced(), options=options).status == "completed"
                continue
            with pytest.raises(SettingsError, match="is unknown, so a budget"):
                fork_sync(before, 1, model=Unpriced(), options=options)
            assert fork_sync(before, 1, model=Unpriced(), options=RunOptions(show=False)).status == "completed"


def test_foreign_workflow_log_cannot_mark_usage_as_unpriced(tmp_path: Path) -> None:
    store, text = Store(tmp_path), "agents: {a: {}}\nworkflow: [{type: agent, name: a}]\n"
    orchestration = Workflow.from_yaml(text).orchestration(model=Unpriced(), budget=1.0, agent_settings={"unpriced": True})
    run = orchestration.start("Go", RunOptions(store=store, show=False)).result(60)
    own = load_trace(tmp_path / f"{run.id}.jsonl")
    foreign = tmp_path / "elsewhere.jsonl"
    foreign.write_bytes((tmp_path / f"{run.id}.jsonl").read_bytes().replace(b'"unpriced":true', b'"unpriced":true '))
    for before, counts in ((own, True), (load_trace(foreign), False)):
        check = workflow_again(before, model=Unpriced()).check
        assert check is not None
        with nullcontext() if counts else pytest.raises(SettingsError, match="is unknown, so a budget"):
            check(Budget(1.0))
