"""Workflow runs: each method on runs either works on them, or names the agent runs it needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import work

from agentnb import (
    Agent,
    Run,
    Store,
    Workflow,
    browse,
    detect,
    diff,
    expect,
    fork_sync,
    label,
    load_trace,
    plots,
    recover,
    replay,
    reproduce_sync,
    save_trace,
    survey,
    tables,
    to_code,
    to_test,
)
from agentnb.errors import ExpectationFailed, SettingsError
from agentnb.models import ScriptedModel

TEXT = "workflow: [{id: a, type: agent, name: writer}, {id: b, type: tool, name: work}]\n"


AGENTS = {"writer": Agent(ScriptedModel(["One.", "Two."] * 9), name="writer")}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Workflow.from_yaml(TEXT, agents=AGENTS, tools=[work]).run_sync("Go", store=Store(tmp_path / "runs"), show=False)


def test_methods_needing_rounds_suggest_the_nested_agent_runs(run: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    nested = run.step_records["a"].nested
    of_agent = load_trace(tmp_path / "runs" / f"{nested}.jsonl")
    ways: dict[str, Callable[[Run], Any]] = {
        "replay": replay,
        "diff": lambda one: diff(one, one),
        "fork": lambda one: fork_sync(one, 1),
        "reproduce": reproduce_sync,
        "to_code": to_code,
        "continue_from": lambda one: Agent(ScriptedModel(["Hi."])).run_sync("Go", continue_from=one, show=False),
    }
    for name, way in ways.items():
        with subtests.test(name):
            with pytest.raises(SettingsError, match=rf"is a workflow with steps instead of rounds: .*{nested}'\) \(a\)"):
                way(run)
            if name not in ("fork", "reproduce"):  # that would need its tools and replies
                assert way(of_agent) is not None
    with pytest.raises(SettingsError, match="None of its steps ran an agent"):
        replay(Workflow.from_yaml("workflow: [{type: tool, name: work}]\n", tools=[work]).run_sync(show=False))


def test_survey_of_a_folder_includes_its_agent_runs(run: Run, tmp_path: Path) -> None:
    frame = survey(tmp_path / "runs")
    assert frame.healthy.tolist() == [1]
    with pytest.raises(SettingsError, match="needs at least one run"):
        survey([run])


@pytest.mark.slow("it makes all tables, and plots")
def test_other_methods_also_work_on_workflow_runs(run: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    works: dict[str, Callable[[], Any]] = {
        **{f"tables.{name}": lambda name=name: getattr(tables, name)(run) for name in tables.NAMES},
        **{f"plots.{name}": lambda name=name: getattr(plots, name)(run) for name in ("timeline", "tokens", "cost")},
        "findings": lambda: detect.findings(run, "default"),
        "timeline": lambda: detect.timeline(run),
        "walk_rounds": lambda: [*detect.walk_rounds(run)],
        "browse": lambda: browse([run]),
        "label": lambda: label([run]),
        "expect": lambda: expect(run, "steps.a.attempts <= 2", "rounds == 0"),
        "to_test": lambda: to_test(run, "steps.a.attempts <= 2", path=save_trace(run, tmp_path / "one.jsonl")),
        "of_run": lambda: Workflow.of_run(run, agents=AGENTS, tools=[work]).run_sync(show=False),
    }  # fmt: skip
    for form in ("otel", "sam", "openinference", "openai_chat", "anthropic_messages"):
        works[form] = lambda form=form: save_trace(run, tmp_path / f"{form}.json", format=form)
    for ending in (".html", ".jsonl"):
        works[ending] = lambda ending=ending: save_trace(run, tmp_path / f"saved{ending}")
    for name, way in works.items():
        with subtests.test(name):
            assert way() is not None
    assert load_trace(tmp_path / "saved.jsonl") == run
    with pytest.raises(ExpectationFailed):
        expect(run, "steps.a.attempts <= 0")


def test_methods_continuing_a_run_suggest_the_workflow_alternative(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is nothing to recover\. Start a new run at one of its steps"):
        asyncio.run(recover(run, store=Store(tmp_path / "runs")))
    of_agent = load_trace(tmp_path / "runs" / f"{run.step_records['a'].nested}.jsonl")
    workflow = Workflow.from_yaml(TEXT, agents=AGENTS, tools=[work])
    with pytest.raises(SettingsError, match="is an agent's run and has no steps"):
        workflow.run_sync(rerun_from="b", of=of_agent, show=False)
    waits = Workflow.from_yaml("workflow: [{type: human, ask: 'Which?'}]\n")
    live = waits.start()
    while not live.run.waiting:
        time.sleep(0.001)
    with pytest.raises(SettingsError, match="is a workflow, which does not accept messages"):
        live.say("Hurry")
    live.answer("this one")
    assert live.result(30).status == "completed"
