"""The session of a kernel."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from waiting import wait_until

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.display.texts.notebook_commands import error_in_notebook, in_notebook
from agentnb.errors import SettingsError, StoreError
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.choice import choose_model, choose_model_of_workflow
from agentnb.session.default_store import default_store
from agentnb.session.option_defaults import at_first
from agentnb.session.session import Session
from agentnb.store.store import Store
from agentnb.tools.tool import ToolContext
from agentnb.workflow.workflow import Workflow

LONG = 30.0
"""Seconds to wait for what comes at once."""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Store(tmp_path / "runs"))


def held_model() -> tuple[ScriptedModel, threading.Event]:
    """Return a model that answers when the event is set."""
    let_go = threading.Event()

    def reply(request: Request) -> str:
        assert let_go.wait(30)
        return "done"

    return ScriptedModel([reply]), let_go


def test_run_is_stored_and_becomes_the_last(session: Session) -> None:
    run = session.start(Agent(ScriptedModel(["hi"])), "go").result(30)
    assert session.last_run() is run
    assert session.store.load(run.id) == run


def test_running_runs_are_listed_and_the_newest_is_current(session: Session) -> None:
    model, let_go = held_model()
    live = session.start(Agent(model), "go")
    assert session.running() == [live] and session.current() is live
    let_go.set()
    live.result(30)
    assert session.running() == []
    with pytest.raises(SettingsError, match="Nothing is running"):
        session.current()


def test_continuing_requires_an_ended_run(session: Session, snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        session.last_run()
    with pytest.raises(SettingsError, check=snapshot.worded):
        session.newest_interrupted()
    model, let_go = held_model()
    live = session.start(Agent(model), "go")
    while live.run.started_at is None:
        pass
    with pytest.raises(SettingsError, match="still running"):
        session.last_run()
    let_go.set()
    run = live.result(30)
    assert session.last_run() is run


def test_loaded_run_is_the_one_continued(session: Session) -> None:
    first = session.start(Agent(ScriptedModel(["one"])), "go").result(30)
    session.start(Agent(ScriptedModel(["two"])), "go").result(30)
    assert session.load(first.id) == first
    assert session.last_run() == first
    with pytest.raises(StoreError):
        session.load("nothing")
    assert session.last_run() == first


def test_sync_tools_run_in_threads_without_a_foreground(session: Session) -> None:
    seen: list[bool] = []

    def where() -> str:
        """Tell."""
        seen.append(threading.current_thread() is threading.main_thread())
        return "ok"

    session.start(Agent(ScriptedModel([ToolCall("where"), "done"]), tools=[where]), "go").result(30)
    assert seen == [False]


def test_defaults_are_validated(session: Session) -> None:
    session.set_default("model", "simulated:disciplined")
    session.set_default("max-rounds", "7")
    session.set_default("guidance", "off")
    session.set_default("policy", "minimal")
    chosen = {"model": "simulated:disciplined", "max-rounds": "7", "guidance": "off", "policy": "minimal"}
    chosen = at_first() | chosen
    assert session.defaults == chosen
    wrong = [
        ("model", "nobody:x"),
        ("max-rounds", "0"),
        ("max-rounds", "x"),
        ("guidance", "mine"),
        ("policy", "strict"),
        ("colour", "red"),
    ]
    for key, value in wrong:
        with pytest.raises(SettingsError):
            session.set_default(key, value)
    assert session.defaults == chosen
    session.write_set("mine", "Go on.")
    session.set_default("guidance", "mine")
    assert session.defaults["guidance"] == "mine"


def test_session_model_overrides_the_environment_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_MODEL", "simulated:disciplined?delay=1")
    assert choose_model("simulated:disciplined") == ("simulated:disciplined", ())
    assert choose_model("") == ("simulated:disciplined?delay=1", ())


def test_simulated_model_answers_with_a_notice_by_default() -> None:
    model, advice = choose_model(None)
    note = in_notebook(advice)
    assert model == "simulated:disciplined" and "not a language model" in note and "\n" not in note
    assert note.endswith("Then name the model: %%agent -m anthropic:NAME")
    workflow = Workflow.from_yaml("agents: {a: {instruction: Work.}}\nworkflow: [{type: agent, name: a}]")
    note = in_notebook(choose_model_of_workflow(workflow, None)[1])
    assert note.endswith("Then name the model: %%workflow -m anthropic:NAME")


def test_model_must_be_named_when_a_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    with pytest.raises(SettingsError) as caught:
        choose_model(None)
    message = error_in_notebook(caught.value)
    assert "Name one: %%agent -m anthropic:NAME. " in message and "hidden" not in message


def test_logs_are_in_the_working_folder(tmp_path: Path) -> None:
    store, note = default_store()
    assert store.folder == tmp_path / ".agentnb" / "runs" and note == ""
    assert not (tmp_path / ".agentnb").exists()  # no files before the first run


def test_unwritable_folder_moves_logs_to_the_user_folder(tmp_path: Path) -> None:
    (tmp_path / ".agentnb").write_text("a file where the folder should be")
    store, note = default_store()
    assert store.folder.parts[-2:] == ("agentnb", "runs") and str(store.folder) in note and "not writable" in note


def test_conversation_continues_with_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    before = Agent("simulated:disciplined?seed=2").run_sync("Hi")
    assert choose_model(None, before) == choose_model("simulated:chatty", before) == ("simulated:disciplined?seed=2", ())


def test_continuing_a_model_object_conversation_requires_the_object() -> None:
    before = Agent(ScriptedModel(["Ho"])).run_sync("Hi")
    with pytest.raises(SettingsError) as caught:
        choose_model(None, before)
    assert "-m VARIABLE" in error_in_notebook(caught.value)
    assert choose_model("simulated:chatty", before)[0] == "simulated:chatty"


def test_only_suspended_run_is_the_default_unless_another_waits(session: Session) -> None:
    def careful(call: ToolCall, run: Run) -> Ask:
        return Ask("May it?")

    def work() -> str:
        """Works."""
        return "worked"

    async def asks(context: ToolContext) -> str:
        """Asks."""
        return str(await context.ask("Which?"))

    def suspended() -> str:
        agent = Agent(ScriptedModel([ToolCall("work"), "x"]), [work], gates=[careful], todos=False)
        return session.start(agent, "Go.", RunOptions(can_ask=False, suspend=True)).result(LONG).id

    assert session.only_suspended() == ""
    run_id = suspended()
    assert session.only_suspended() == run_id
    live = session.start(Agent(ScriptedModel([ToolCall("asks"), "x"]), [asks]), "Go.", RunOptions(can_ask=True))
    wait_until(lambda: bool(live.run.waiting))
    assert session.only_suspended() == ""
    live.answer("This.")
    live.result(LONG)
    suspended()
    assert session.only_suspended() == ""


def test_stopped_run_is_awaited_up_to_the_timeout(subtests: pytest.Subtests, session: Session) -> None:
    begun, release = threading.Event(), threading.Event()

    async def rest() -> str:
        """Lets itself be cancelled."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    async def hog() -> str:
        """Blocks the event loop."""
        begun.set()
        release.wait(LONG)
        return ""

    for tool, seconds, ended in [(rest, LONG, True), (hog, 0.01, False)]:
        with subtests.test(tool.__name__):
            begun.clear()
            release.clear()
            live = session.start(Agent(ScriptedModel([ToolCall(tool.__name__), "x"]), [tool], todos=False), "Go.")
            assert begun.wait(LONG)
            session.stop([live], seconds)
            assert live.done is ended
            release.set()
            assert live.result(LONG).status == "cancelled"
            assert session.last_run() is live.run


@pytest.mark.req("KX.5")
def test_answer_goes_to_the_newest_waiting_run(session: Session) -> None:
    async def asks(context: ToolContext) -> str:
        return str(await context.ask("Well?"))

    def begin(options: RunOptions | None = None) -> LiveRun:
        model = ScriptedModel([ToolCall("asks"), "done"])
        return session.start(Agent(model, tools=[asks], guidance="off", todos=False), "go", options)

    with pytest.raises(SettingsError, match="No run is waiting for an answer"):
        session.waiting_for_answer()
    first, second = begin(), begin()
    alone = begin(RunOptions(can_ask=False)).result(30)
    wait_until(lambda: first.run.waiting and second.run.waiting)
    assert alone.rounds[0].results[0].error_code == "nobody_to_ask"
    assert session.waiting_for_answer() is second
    second.answer("yes")
    second.result(30)
    assert session.waiting_for_answer() is first
    first.decline()
    first.result(30)


def test_run_started_from_python_spends_from_the_session_budget(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))
    assert session.host().budget is session.budget
