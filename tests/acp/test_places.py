"""External agents wherever an agent is taken, and the command that lists them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Event

import pytest

from agentnb import Agent, ToolCall, Workflow, fork_sync, tool
from agentnb.acp import acp_model
from agentnb.acp.installed import acp_command
from agentnb.acp.known_agents import KnownAgent
from agentnb.cli import main
from agentnb.core.log.events import CallBlocked, TextDelta, Warned
from agentnb.core.run.facts import RunFacts
from agentnb.errors import SettingsError, WorkflowProblems
from agentnb.models import ScriptedModel
from agentnb.models.transport.limiter import Limiter
from agentnb.policies.gates import Deny
from agentnb.runtime.host.live_run import LiveRun

Make = Callable[..., Agent]
STEPS = "workflow: [{type: agent, name: worker, prompt: hello}]"


def test_external_agent_can_be_a_tool_of_an_agent(fake: Make) -> None:
    model = ScriptedModel([ToolCall("helper", {"prompt": "hello"}), "Done."])
    run = Agent(model, tools=[fake(name="helper")], todos=False).run_sync("Go.", approve="auto")
    (record,) = run.rounds[0].records
    assert (run.status, record.result and record.result.text, run.usage.input) == ("completed", "Hello there.", 12)


@pytest.fixture
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one agent run at once."""
    limiter = Limiter(1)
    monkeypatch.setattr(acp_model, "places", lambda: limiter)


def test_four_agents_run_at_once_by_default() -> None:
    async def is_full(agents: int) -> bool:
        async with AsyncExitStack() as held:
            for _ in range(agents):
                await held.enter_async_context(acp_model.places().place())
            return acp_model.places().is_full

    assert [asyncio.run(is_full(agents)) for agents in (3, 4)] == [False, True]


@pytest.mark.usefixtures("one_place")
def test_run_waiting_for_a_slot_pauses_its_clock(fake: Make) -> None:
    sleeps, told = Event(), Event()
    first = fake().start("sleep", watch=lambda item: sleeps.set() if item == TextDelta("Sleeping") else None)
    assert sleeps.wait(10)
    second = fake(max_seconds=5).start("hello", watch=lambda item: told.set() if isinstance(item, Warned) else None)
    assert told.wait(10)
    time.sleep(0.3)
    assert not second.run.rounds
    first.stop()
    run = second.result(10)
    assert (run.text, ["Waits until one of" in text for text in run.warnings]) == ("Hello there.", [True])
    assert run.seconds is not None and fake().run_sync("hello").warnings == ()


@pytest.mark.usefixtures("one_place")
@pytest.mark.parametrize("threads", [0, 2])
def test_nested_external_agent_does_not_wait_for_a_slot(fake: Make, threads: int) -> None:
    def hello(number: int = 0) -> str:
        return fake().run_sync("hello", approve="auto").text

    @tool(name="total")
    def ask_others(numbers: list[int]) -> str:
        """Ask another agent, or two in threads."""
        if not threads:
            return hello()
        with ThreadPoolExecutor(threads) as pool:
            return " ".join(pool.map(hello, range(threads)))

    text = fake(tools=[ask_others], max_seconds=20).start("function", approve="auto").result(20).text
    assert text == "total: " + " ".join(["Hello there."] * max(1, threads))


@pytest.mark.usefixtures("one_place")
def test_agent_that_outlives_its_parent_occupies_a_slot(fake: Make) -> None:
    started: list[LiveRun] = []
    sleeps = Event()

    @tool(name="total")
    def start_another(numbers: list[int]) -> str:
        """Start another agent, and leave it."""
        started.append(fake().start("sleep", watch=lambda item: sleeps.set() if item == TextDelta("Sleeping") else None))
        return str(sleeps.wait(10))

    assert fake(tools=[start_another]).run_sync("function", approve="auto").text == "total: True"
    assert acp_model.places().is_full
    started[0].stop()
    started[0].result(10)
    assert not acp_model.places().is_full


def test_external_agent_works_in_a_workflow_step(fake: Make) -> None:
    run = Workflow.from_yaml(STEPS, agents={"worker": fake()}).run_sync("Go.")
    assert (run.status, run.text) == ("completed", "Hello there.")


def test_external_agent_is_a_tool_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("foreign_helper.py").write_text('from agentnb import Agent\n\nhelper = Agent(acp="fake")\n')
    Path("w.yaml").write_text("workflow: [{type: tool, name: helper, args: {prompt: hello}}]\n")
    assert main(["exec", "w.yaml", "--tools", "foreign_helper:helper", "--approve", "auto"]) == 0
    assert capsys.readouterr().out == "Hello there.\n"


def test_workflow_file_cannot_declare_an_external_agent() -> None:
    with pytest.raises(WorkflowProblems, match='agent "worker": unknown key "acp"'):
        Workflow.from_yaml(f"agents: {{worker: {{acp: fake}}}}\n{STEPS}")


def test_fork_of_an_external_agent_run_needs_a_model(fake: Make) -> None:
    run = fake().run_sync("write", approve="auto")
    with pytest.raises(SettingsError, match=r"used acp:fake, a model that .*model=\"provider:name\""):
        fork_sync(run, 1)
    assert fork_sync(run, 1, model=ScriptedModel(["Other."]), store=None).text == "Other."


def test_gates_decide_about_external_agent_calls(fake: Make, tmp_path: Path) -> None:
    def gate(call: ToolCall, run: RunFacts) -> Deny | None:
        return Deny("Not this file.") if call.name == "write_file" else None

    run = fake(gates=[gate]).run_sync("write", approve="auto")
    assert [event.call.name for event in run.events if isinstance(event, CallBlocked)] == ["write_file"]
    assert (run.text, (tmp_path / "a.txt").exists()) == ("Was rejected.", False)


def test_loop_of_external_agent_calls_is_detected_live(fake: Make) -> None:
    run = fake(detect="default").run_sync("burst burst burst burst", approve="auto")
    assert (run.status, run.stop_reason, len(run.rounds)) == ("stopped", "loop_detected", 5)
    assert run.findings


def test_listing_agents_starts_no_agent(table: dict[str, KnownAgent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "opencode"
    program.write_text("#!/bin/sh\ntouch started\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    lines = {line.split()[0]: line for line in acp_command("").splitlines()}
    assert lines.keys() == table.keys()
    for word in ("of unknown version", "tried with 1.18.33", "opencode auth login"):
        assert word in lines["opencode"]
    assert "not installed: npm install -g @moonshot-ai/kimi-code" in lines["kimi"]
    assert not (tmp_path / "started").exists()


def test_acp_command_adds_an_agent_to_this_kernel(table: dict[str, KnownAgent]) -> None:
    assert "%%agent --acp mine" in acp_command("add mine 'my agent' --acp")
    assert (table["mine"].command, table["mine"].asks) == (("my agent", "--acp"), False)
    for words in ("remove mine", "add mine", "add my-agent x", "add mine 'my agent"):
        with pytest.raises(SettingsError):
            acp_command(words)
