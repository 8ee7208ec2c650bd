"""Hints for an ended workflow describe workflow commands, not those of a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from marked_logs import own_run

from agentnb import Agent, Run, Store, Workflow, recover
from agentnb.advice import StartAgain, TryAgain
from agentnb.core.log.events import RunFinished
from agentnb.display.card.html import run_html
from agentnb.display.card.text import run_text
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.states import continue_command, next_step
from agentnb.errors import AgentnbError, BrokenReply, ProviderTrouble, RateLimited, SettingsError, WorkflowError
from agentnb.models import ScriptedModel

STEPS = "workflow: [{id: a, type: agent, name: writer}, {id: b, type: agent, name: writer}]\n"
TASKS = "stage: {one: {action: tell}, two: {action: tell}}\n"


def tell() -> str:
    """Tell."""
    return "told"


def workflow(*replies: Any) -> Workflow:
    return Workflow.from_yaml(STEPS, agents={"writer": Agent(ScriptedModel(replies), name="writer")})


def test_hints_of_an_agent_error_name_its_workflow_step(subtests: pytest.Subtests) -> None:
    errors: dict[AgentnbError, str] = {
        ProviderTrouble("It fails", TryAgain(lead="Try again in a while")): "Try again in a while",
        RateLimited("Too many", TryAgain(lead="Wait a while, then try again")): "Wait a while, then try again",
        BrokenReply("No", TryAgain(lead="Try again", rest=", or try another model")): "Try again, or try another model",
        BrokenReply(
            "Too long", StartAgain(lead="Start again", rest=", or reduce the input")
        ): "Start again, or reduce the input",
    }
    for error, hint in errors.items():
        with subtests.test(hint), pytest.raises(WorkflowError) as raised:
            workflow("Said.", error).run_sync(show=False)
        assert raised.value.hint == hint and raised.value.run is not None
        step = next_step(raised.value.run)
        assert step is not None and in_notebook([step]).endswith("ontinue: wf.run(rerun_from='b', of=run)")


def with_end(run: Run, events: int, status: Any) -> Run:
    """Return the run as if it ended after so many events."""
    end = run.events[-1]
    assert isinstance(end, RunFinished)
    kept = [*run.events[:events], RunFinished(events, end.at, run.id, None, status=status, stop_reason=status)]
    return own_run(kept)


def test_ended_run_suggests_a_step_to_rerun_from_if_any(subtests: pytest.Subtests) -> None:
    steps = workflow("Said.", "Said.").run_sync(show=False)
    tasks = Workflow.from_yaml(TASKS, tools=[tell]).run_sync(show=False)
    for run, command in ((steps, "wf.run(rerun_from='a', of=run)"), (tasks, "")):
        for status in ("cancelled", "limited", "stopped", "failed"):
            with subtests.test(command, status=status):
                ended = with_end(run, 2, status)
                assert "--continue" not in run_text(ended) + run_html(ended)
                assert continue_command(with_end(run, 1, status)) == ""
                assert next_step(with_end(run, 1, status)) is None
    assert continue_command(with_end(steps, 3, "cancelled")) in ("", "wf.run(rerun_from='b', of=run)")


def test_unsupported_continuation_is_refused_with_the_alternative(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path)
    workflow_of_steps = workflow(*["Said."] * 9)
    run, live = workflow_of_steps.run_sync(store=store, show=False), workflow_of_steps.start()
    live.result(30)
    agent = Agent(ScriptedModel(["Said."]))
    ways: dict[str, Callable[[], Any]] = {
        "has ended (completed): there is nothing to recover": lambda: asyncio.run(recover(run.id, store=store)),
        "has ended (completed)": live.pause,
        "with steps instead of rounds: it has no conversation to continue": lambda: agent.run_sync("Go", continue_from=run),
    }
    for expected, way in ways.items():
        with subtests.test(expected), pytest.raises(SettingsError) as raised:
            way()
        text = str(raised.value)
        assert expected in text and "--continue" not in text
        assert "rerun_from=STEP" in text or f"{run.step_records['a'].nested}') (a)" in text
