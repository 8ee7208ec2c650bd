"""A rule whose word names nothing is refused at every door.

`DOORS` lists all ways by which a person gives rules. A new way gets a line there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from small_experiments import small
from traitlets.config import Config

from agentnb import Agent, ContextType, Orchestration, Store, ToolCall, Workflow, fork_sync, recover, tool
from agentnb.cli import main
from agentnb.errors import AgentnbError
from agentnb.models import ScriptedModel
from agentnb.notebook import ipython_extension
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator

Door = Callable[[dict[str, str], Path], Any]
"""Gives a run, or what makes one, a rule with its verdict; the folder is for the files and logs of the door."""
STEP = "workflow:\n  - {type: tool, name: store, args: {text: a}}\n"
TASKS = "stage:\n  one: {action: store, input: {text: a}}\n"
WORDS = {"stoer": "store", "bsah(rm *)": "", "netwrok": "", "stor_*": "", "mcp:clok": "", "Store": "store"}
"""Words of rules that name nothing at any door, with what is near."""
KNOWN = ("store", "sto*", "effect:read", "bash(rm *)", "network", "mcp_*")
"""Words that are known at each door."""
NEARLY = {"a context": ("stoer",), "the approval of a task file": ("stoer", "netwrok")}
"""Doors that take words of tools that others have: the words that they refuse."""


@tool(effects=["read"])
def store(text: str = "") -> str:
    """Store a text."""
    return text


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A shell with the extension, and a module with the tool."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shelf.py").write_text("def store(text: str = '') -> str:\n    'Store.'\n    return text\n")
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    ipython_extension.load(shell)
    shell.user_ns |= {"word": "stoer", "words": ["stoer"], "store": store, "model": ScriptedModel(["Done."], repeat=True)}
    yield
    ipython_extension.unload(shell)
    InteractiveShell.clear_instance()


def agent(**settings: Any) -> Agent:
    return Agent(ScriptedModel([ToolCall("store", {"text": "a"}), "Done."]), tools=[store], **settings)


def suspended(folder: Path) -> str:
    run = agent(todos=False).run_sync("Go.", store=Store(folder), approve="ask", permissions={"store": "ask"}, suspend=True)
    assert run.is_suspended
    return run.id


def recovered(rule: dict[str, str], folder: Path) -> Any:
    run_id = suspended(folder)
    return asyncio.run(recover(run_id, agent=agent(), store=Store(folder), permissions=rule, suspend=True))


def with_context(rule: dict[str, str], folder: Path) -> Any:
    context = ContextType("desk", tools={"confirm": [*rule]})
    return context.apply(agent())


def in_file(rule: dict[str, str], folder: Path) -> Any:
    text = f"{TASKS}approval: {{mode: ask, block: [{', '.join(rule)}]}}\n"
    return Workflow.from_yaml(text, tools=[store]).orchestration()


def nested(rule: dict[str, str], folder: Path) -> Any:
    clerk = Agent(ScriptedModel(["Done."]), tools=[store], name="clerk")
    return Agent(ScriptedModel(["Done."]), tools=[clerk]).run_sync("Go.", permissions=rule)


def nested_workflow(rule: dict[str, str], folder: Path) -> Any:
    (folder / "inner.yaml").write_text(STEP)
    (folder / "outer.yaml").write_text("workflow:\n  - {type: workflow, file: inner.yaml}\n")
    outer = tool(Workflow.from_yaml(folder / "outer.yaml", tools=[store]), name="outer", description="Do it.")
    return Agent(ScriptedModel(["Done."]), tools=[outer]).run_sync("Go.", permissions=rule)


def by_code(rule: dict[str, str], folder: Path) -> Any:
    """An agent that the function of a tool makes, of tools of this module."""

    def ask() -> str:
        return Agent(ScriptedModel(["Done."]), tools=[store]).run_sync("Go.").text

    return Agent(ScriptedModel(["Done."]), tools=[ask]).run_sync("Go.", permissions=rule)


def own_orchestration(rule: dict[str, str], folder: Path) -> Any:
    class One(StepOrchestrator):
        async def orchestrate(self) -> None:
            await self.run("one", agent(), "Go.")

    return Orchestration(make=One).run_sync("Go.", permissions=rule)


def of_workflow(rule: dict[str, str], folder: Path) -> Any:
    text = "agents:\n  a: {model: simulated:disciplined, tools: [store]}\n  b: {model: simulated:disciplined}\n" + STEP
    return Workflow.from_yaml(text, tools=[store]).orchestration(agent_settings={"permissions": rule})


def in_cell(magic: str, line: str, body: str | None = None) -> Door:
    def enter(rule: dict[str, str], folder: Path) -> None:
        shell = InteractiveShell.instance()
        ((word, verdict),) = rule.items()
        words = line.format(word=word, verdict=verdict)
        shell.run_line_magic(magic, words) if body is None else shell.run_cell_magic(magic, words, body)

    return enter


def in_shell(text: str) -> Door:
    def enter(rule: dict[str, str], folder: Path) -> None:
        ((word, verdict),) = rule.items()
        (folder / "file.yaml").write_text(text)
        if main(["exec", str(folder / "file.yaml"), "-t", "shelf:store", f"--rule={word}={verdict}"]) == 2:
            raise AgentnbError("refused")

    return enter


RULE = "-t store --rule '{word}={verdict}'"
DOORS: dict[str, Door] = {
    "Agent": lambda rule, folder: agent(permissions=rule),
    "agent.run": lambda rule, folder: asyncio.run(agent().run("Go.", permissions=rule)),
    "agent.start": lambda rule, folder: agent().start("Go.", permissions=rule).result(30),
    "agent.run_sync": lambda rule, folder: agent().run_sync("Go.", permissions=rule),
    "an agent as a tool": nested,
    "a workflow as a tool": nested_workflow,
    "an agent in the code of a tool": by_code,
    "fork": lambda rule, folder: fork_sync(agent().run_sync("Go."), 1, model=ScriptedModel(["Done."]), permissions=rule),
    "recover": recovered,
    "a context": with_context,
    "a workflow": lambda rule, folder: Workflow.from_yaml(STEP, tools=[store]).run_sync("Go.", permissions=rule),
    "the agents of a workflow": of_workflow,
    "a task file": lambda rule, folder: Workflow.from_yaml(TASKS, tools=[store]).run_sync(permissions=rule),
    "the approval of a task file": in_file,
    "an orchestration": own_orchestration,
    "an experiment": lambda rule, folder: small(agent={"tools": [store], "permissions": rule}).design(),
    "%%agent": in_cell("agent", f"-m model {RULE}", "Go."),
    "%%workflow": in_cell("workflow", RULE, STEP),
    "%%workflow of tasks": in_cell("workflow", RULE, TASKS),
    "%agent permissions": in_cell("agent", "permissions allow {word}"),
    "agentnb exec": in_shell(STEP),
    "agentnb exec of tasks": in_shell(TASKS),
}


@pytest.mark.usefixtures("shell")
def test_a_word_that_names_nothing_is_refused_at_every_door_with_what_is_near(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for door, enter in DOORS.items():
        for place, word in enumerate((*NEARLY.get(door, WORDS), *(KNOWN if door not in NEARLY else ()))):
            with subtests.test(f"{door}: {word}"):
                folder = tmp_path / f"{door} {place}"
                folder.mkdir()
                if word in KNOWN:
                    enter({word: "allow"}, folder)
                    continue
                with pytest.raises(AgentnbError) as refused:
                    enter({word: "deny"}, folder)
                assert WORDS[word] in str(refused.value) + capsys.readouterr().err
