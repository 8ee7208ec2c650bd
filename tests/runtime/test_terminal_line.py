"""The progress line of a script in a terminal."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import pytest
from scripted_runs import add

from agentnb import Agent, Run, RunOptions, ToolCall, Workflow
from agentnb.models import ScriptedModel
from agentnb.runtime.runs.terminal_line import progress_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def agent_of(*replies: Any) -> Agent:
    return Agent(ScriptedModel(list(replies or [ToolCall("add", {"a": 1}), "Done."])), [add], guidance="off", todos=False)


def written(do: Callable[[], object], *, to: io.StringIO | None = None) -> str:
    """Return the output on standard error, by default a terminal."""
    # Not a fixture: pytest replaces standard error before the test itself.
    with redirect_stderr(to or Terminal()) as err:
        do()
    return err.getvalue()


def test_terminal_line_is_removed_at_the_end(subtests: pytest.Subtests) -> None:
    ways: dict[str, Callable[[], Run]] = {
        "run": lambda: asyncio.run(agent_of().run("go")),
        "run_sync": lambda: agent_of().run_sync("go"),
        "start": lambda: agent_of().start("go").result(),
    }
    for name, way in ways.items():
        with subtests.test(name):
            text = written(way)
            assert "agent: round 1 · add" in text and "agent: round 2" in text
            assert "\n" not in text and text.endswith("\r") and not text.split("\r")[-2].strip()


def test_no_terminal_line_without_terminal_with_watcher_or_opt_out(subtests: pytest.Subtests) -> None:
    ways: dict[str, Callable[[], Run]] = {
        "run, show=False": lambda: asyncio.run(agent_of().run("go", show=False)),
        "run_sync, show=False": lambda: agent_of().run_sync("go", show=False),
        "start, show=False": lambda: agent_of().start("go", show=False).result(),
        "an option": lambda: asyncio.run(agent_of().run("go", RunOptions(show=False))),
        "a watcher": lambda: agent_of().run_sync("go", watch=lambda item: None),
    }
    for name, way in ways.items():
        with subtests.test(name):
            assert written(way) == ""
    assert written(lambda: agent_of().run_sync("go"), to=io.StringIO()) == ""


def test_many_runs_share_the_terminal_line() -> None:
    async def main() -> None:
        await asyncio.gather(*[agent_of().run(f"part {n}") for n in range(5)])

    text = written(lambda: asyncio.run(main()))
    assert "5 in progress" in text and "4 ended" in text and "\n" not in text


def test_nested_run_has_no_separate_terminal_line() -> None:
    async def delegate() -> str:
        """Ask another agent."""
        return (await agent_of("Inner.").run("part")).text

    outer = Agent(ScriptedModel([ToolCall("delegate", {}), "Done."]), [delegate], guidance="off", todos=False)
    text = written(lambda: outer.run_sync("go"))
    assert "delegate" in text and "in progress" not in text


def test_tool_name_cannot_inject_terminal_controls() -> None:
    assert "\x1b[2J" not in written(lambda: agent_of(ToolCall("add\x1b[2J", {}), "Done.").run_sync("go"))


def test_terminal_line_module_is_not_loaded_without_a_terminal() -> None:
    code = (
        "import sys; from agentnb import Agent; from agentnb.models import ScriptedModel; "
        "Agent(ScriptedModel(['Hi.'])).run_sync('go'); assert 'tqdm' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_terminal_line_shows_the_steps_of_a_run() -> None:
    workflow = Workflow.from_yaml("workflow: [{type: tool, name: tell}, {type: tool, name: tell}]\n", tools=[tell])
    assert progress_text(workflow.run_sync(show=False)) == "workflow: step 2"


def tell() -> str:
    """Tell."""
    return "told"
