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
from agentnb.session.choice import choose_model
from agentnb.session.default_store import default_store
from agentnb.session.option_defaults import at_first
from agentnb.session.session import Session
from agentnb.store.store import Store
from agentnb.tools.tool import ToolContext

LONG = 30.0
"""Seconds to wait for what comes at once."""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Store(tmp_path / "runs"))


def held_model() -> tuple[ScriptedModel, threading.Event]:
    """A model that answers when the event is set."""
    let_go = threading.Event()

    def reply(request: Request) -> str:
        assert let_go.wait(30)
        return "done"

    return ScriptedModel([reply]), let_go


def test_a_run_is_kept_in_the_store_and_is_the_last_one(session: Session) -> None:
    run = session.start(Agent(ScriptedModel(["hi"])), "go").result(30)
    assert session.last_run() is run
    assert session.store.load(run.id) == run


def test_what_runs_is_known_and_the_newest_is_current(session: Session) -> None:
    model, let_go = held_model()
    live = session.start(Agent(model), "go")
    assert session.running() == [live] and session.current() is live
    let_go.set()
    live.result(30)
    assert session.running() == []
    with pytest.raises(SettingsError, match="Nothing is running"):
        session.current()


def test_going_on_needs_a_run_that_has_ended(session: Session, snapshot: Snapshot) -> None:
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


def test_a_loaded_run_is_gone_on_with(session: Session) -> None:
    first = session.start(Agent(ScriptedModel(["one"])), "go").result(30)
    session.start(Agent(ScriptedModel(["two"])), "go").result(30)
    assert session.load(first.id) == first
    assert session.last_run() == first
    with pytest.raises(StoreError):
        session.load("nothing")
    assert session.last_run() == first


def test_without_a_foreground_plain_tools_run_in_threads(session: Session) -> None:
    seen: list[bool] = []

    def where() -> str:
        """Tell."""
        seen.append(threading.current_thread() is threading.main_thread())
        return "ok"

    session.start(Agent(ScriptedModel([ToolCall("where"), "done"]), tools=[where]), "go").result(30)
    assert seen == [False]


def test_defaults_are_checked(session: Session) -> None:
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


def test_the_session_s_model_comes_before_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_MODEL", "simulated:disciplined?delay=1")
    assert choose_model("simulated:disciplined") == ("simulated:disciplined", ())
    assert choose_model("") == ("simulated:disciplined?delay=1", ())


def test_with_nothing_set_the_simulated_model_answers_and_says_so() -> None:
    model, advice = choose_model(None)
    note = in_notebook(advice)
    assert model == "simulated:disciplined" and "not a language model" in note and "\n" not in note


def test_with_a_key_a_model_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    with pytest.raises(SettingsError) as caught:
        choose_model(None)
    told = error_in_notebook(caught.value)
    assert "Name one: %%agent -m anthropic:NAME. " in told and "hidden" not in told


def test_logs_lie_in_the_working_folder(tmp_path: Path) -> None:
    store, note = default_store()
    assert store.folder == tmp_path / ".agentnb" / "runs" and note == ""
    assert not (tmp_path / ".agentnb").exists()  # nothing is left behind before the first run


def test_where_the_folder_cannot_be_written_they_lie_with_the_person_and_a_line_says_so(tmp_path: Path) -> None:
    (tmp_path / ".agentnb").write_text("a file where the folder should be")
    store, note = default_store()
    assert store.folder.parts[-2:] == ("agentnb", "runs") and str(store.folder) in note and "not writable" in note


def test_a_conversation_goes_on_with_its_own_model_whatever_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    before = Agent("simulated:disciplined?seed=2").run_sync("Hi")
    assert choose_model(None, before) == choose_model("simulated:chatty", before) == ("simulated:disciplined?seed=2", ())


def test_a_conversation_with_an_object_asks_for_it_instead_of_going_to_another_silently() -> None:
    before = Agent(ScriptedModel(["Ho"])).run_sync("Hi")
    with pytest.raises(SettingsError) as caught:
        choose_model(None, before)
    assert "-m VARIABLE" in error_in_notebook(caught.value)
    assert choose_model("simulated:chatty", before)[0] == "simulated:chatty"


def test_the_only_suspended_run_is_meant_unless_a_live_run_waits(session: Session) -> None:
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


def test_a_stopped_run_is_waited_for_as_long_as_said(subtests: pytest.Subtests, session: Session) -> None:
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
def test_the_newest_run_that_waits_for_an_answer_is_asking(session: Session) -> None:
    async def asks(context: ToolContext) -> str:
        return str(await context.ask("Well?"))

    def begin(options: RunOptions | None = None) -> LiveRun:
        model = ScriptedModel([ToolCall("asks"), "done"])
        return session.start(Agent(model, tools=[asks], guidance="off", todos=False), "go", options)

    with pytest.raises(SettingsError, match="No run waits for an answer"):
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


def test_a_run_of_python_code_spends_from_the_sessions_budget(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))
    assert session.host().budget is session.budget
