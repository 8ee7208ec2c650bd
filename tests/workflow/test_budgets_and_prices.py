"""A budget of a workflow needs the prices of all its models, and they are missed before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Run, Workflow
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.models.capabilities import Capabilities
from agentnb.runtime.budget import Budget
from agentnb.runtime.run_options import RunOptions

TEXT = """
agents:
  known: {instruction: Write., model: "simulated:disciplined"}
  other: {instruction: Write., LIMITS}
workflow:
  - {id: first, type: tool, name: work}
  - {id: par, type: parallel, steps: [{type: agent, name: known}, {id: late, type: agent, name: other}]}
"""
NESTED = "workflow: [{id: first, type: tool, name: work}, {id: sub, type: workflow, file: inner.yaml}]\n"
WHAT = "what free:of-price costs is not known, so a budget cannot be enforced"


class Unpriced(ScriptedModel):
    """A model whose price nobody knows."""

    def __init__(self) -> None:
        super().__init__(["Said."] * 9, name="free:of-price")

    def capabilities(self) -> Capabilities:
        return Capabilities(has_price=False)


def test_it_is_refused_before_the_first_step_and_the_agent_and_its_step_are_named(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
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
        "counted as nothing": (TEXT.replace("LIMITS", "limits: {unpriced: true}"), {"budget": 1.0}),
        "for all agents": (text, {"budget": 1.0, "agent_settings": {"unpriced": True}}),
    }
    for name, (form, settings) in allowed.items():
        with subtests.test(name):
            done.clear()
            assert run(form, **settings).status == "completed" and done == ["work"]
