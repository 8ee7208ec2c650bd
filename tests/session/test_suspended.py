"""Suspended runs: stopped where a gate asks, resumed with the answer."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cut_runs import cut
from marked_logs import own_run
from msgspec.structs import replace
from run_checks import assert_every_call_has_one_result, checked, codes, results
from waiting import wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, load_trace, recover, tool
from agentnb.core.log import events as e
from agentnb.core.run.rounds import DENIED
from agentnb.display.texts.labels import SHORT_ID
from agentnb.display.texts.question_labels import MAX_WITH_QUESTIONS, suspended_lines
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.notebook.commands.permissions_command import permissions_command
from agentnb.notebook.commands.status import status_lines
from agentnb.policies.gates import Ask, Verdict
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.runs.gate_names import missing_gates
from agentnb.session.session import Session
from agentnb.tools.tool import ToolContext

LONG = 30


def careful(call: ToolCall, run: Run) -> Verdict:
    return Ask(f"May {call.name} run?") if call.name == "write" else None


class Desk:
    """A store with runs of an agent, and a record of its tools' effects."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        async def write(path: str) -> str:
            self.done.append(f"write {path}")
            return f"wrote {path}"

        @tool(parallel_safe=True)
        async def look(path: str) -> str:
            for _ in range(50):  # takes longer than the question
                await asyncio.sleep(0)
            self.done.append(f"look {path}")
            return "seen"

        return [write, look]

    def agent(self, *replies: Any, **settings: Any) -> Agent:
        return Agent(ScriptedModel(replies), tools=self.tools(), todos=False, gates=[careful], **settings)

    def suspended_ids(self, *calls: ToolCall, **settings: Any) -> Run:
        options = RunOptions(store=self.store, suspend=True, can_ask=False)
        return self.agent(list(calls), **settings).start("go", options).result(LONG)

    def recovered(self, run: Run, **how: Any) -> Run:
        return asyncio.run(recover(run.id, store=self.store, agent=self.agent("Done."), **how))


def write(path: str = "a") -> ToolCall:
    return ToolCall("write", {"path": path})


def look(path: str) -> ToolCall:
    return ToolCall("look", {"path": path})


@pytest.mark.req("KX.5")
def test_unanswerable_run_waits_without_a_process(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = desk.suspended_ids(write("a"), look("b"), write("c"))
    assert (run.status, run.is_suspended, run.stop_reason) == ("waiting_on_user", True, None)
    assert [question.message for question in run.waiting] == ["May write run?"]
    assert type(run.events[-1]) is e.RunSuspended
    assert desk.done == ["look b"]  # calls that need no answer have ended
    loaded = load_trace(desk.store.path(run.id))
    assert loaded == run and loaded.status == "waiting_on_user"
    (line,) = desk.store.summaries()
    assert (line.status, line.stop_reason, line.rounds) == ("waiting_on_user", "waiting_on_user", 1)
    writer, _ = desk.store.reopen(run.id)  # its log is unlocked
    writer.close()


@pytest.mark.req("KX.5", "KX.11")
def test_answer_resumes_the_run(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, list[str], str | None]] = [
        ("approve", ["write a"], None),
        ("deny: not now", [], DENIED),
        ({"edit": {"path": "b"}}, ["write b"], None),
    ]
    for answer, done, code in cases:
        with subtests.test(str(answer)):
            desk = Desk(tmp_path / str(len(done)) / str(code) / str(type(answer).__name__))
            before = desk.suspended_ids(write("a"))
            run = desk.recovered(before, answers={before.waiting[0].id: answer})
            assert (run.status, run.text, run.waiting) == ("completed", "Done.", ())
            assert desk.done == done and codes(run) == [code]
            assert run.events[: len(before.events)] == before.events
            checked(run)
            assert load_trace(desk.store.path(run.id)) == run
            asked = [event.question.id for event in run.events if isinstance(event, e.QuestionAsked)]
            assert asked == [event.question_id for event in run.events if isinstance(event, e.QuestionAnswered)] == ["q1"]


def test_resumed_run_is_suspended_again_at_the_next_question(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = desk.suspended_ids(write("a"), write("b"))
    run = desk.recovered(run, answers={"q1": True}, suspend=True)
    assert run.is_suspended and desk.done == ["write a"] and [question.id for question in run.waiting] == ["q2"]
    run = desk.recovered(run, suspend=True)  # unchanged without an answer
    assert run.is_suspended and [question.id for question in run.waiting] == ["q2"]
    run = desk.recovered(run, answers={"q2": "approve"})
    assert run.status == "completed" and [result.text for result in results(run)] == ["wrote a", "wrote b"]


def test_resumed_run_asks_whoever_can_answer(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, how in {
        "approve": {"approve": lambda call, run: True},
        "answer": {"answer": lambda question: "approve"},
    }.items():
        with subtests.test(name):
            desk = Desk(tmp_path / name)
            run = desk.recovered(desk.suspended_ids(write("a")), **how)
            assert run.status == "completed" and desk.done == ["write a"]
    with subtests.test("a person with a handle"):
        desk = Desk(tmp_path / "handle")
        writer, found = desk.store.reopen(desk.suspended_ids(write("a")).id)
        live = desk.agent("Done.").resume(found, writer)
        live.answer("approve", "q1")
        assert live.result(LONG).status == "completed" and desk.done == ["write a"]


def test_missing_or_wrong_answer_leaves_the_run_unchanged(tmp_path: Path, subtests: pytest.Subtests) -> None:
    desk = Desk(tmp_path)
    run = desk.suspended_ids(write("a"))
    for answers, words in [
        (None, "May write run"),
        ({"q9": True}, "q9"),
        ({"q1": "perhaps"}, r"Please choose one of: approve, deny \(you entered 'perhaps'\)"),
    ]:
        with subtests.test(str(answers)), pytest.raises(SettingsError, match=words):
            desk.recovered(run, answers=answers)
    assert load_trace(desk.store.path(run.id)) == run


def died_asking(desk: Desk, folder: Path, *calls: ToolCall) -> Run:
    """Return a run whose process died while its gate asked; the desk has its log."""
    live = attended(desk, *calls)
    path = cut(live.run.events, folder)
    live.stop()
    live.result(LONG)
    desk.store = Store(path.parent)
    desk.done.clear()
    return desk.store.load(path.stem)


@pytest.mark.req("KX.5", "KX.11")
def test_gate_question_survives_a_crashed_process(tmp_path: Path, subtests: pytest.Subtests) -> None:
    calls = [write("a"), write("c")]
    with subtests.test("without an answer it is left as it is"):
        desk = Desk(tmp_path / "left")
        run = died_asking(desk, tmp_path / "left-died", *calls)
        assert run.status == "interrupted"
        with pytest.raises(SettingsError, match="is waiting for your answer to: May write run"):
            desk.recovered(run)
        assert load_trace(desk.store.path(run.id)).events == run.events
    with subtests.test("it is asked again"):
        run = desk.recovered(run, suspend=True)
        assert run.is_suspended and [question.message for question in run.waiting] == ["May write run?"]
        assert desk.done == [] and results(run) == []
    cases: list[tuple[Any, list[str], str | None]] = [("approve", ["write a"], None), ("deny: not now", [], DENIED)]
    for answer, done, code in cases:
        with subtests.test(f"answered since: {answer}"):
            desk = Desk(tmp_path / f"desk-{len(done)}")
            run = died_asking(desk, tmp_path / f"died-{len(done)}", *calls)
            run = desk.recovered(run, answers={"q1": answer}, suspend=True)
            assert run.is_suspended and desk.done == done
            assert [record.result.error_code for record in run.rounds[0].records if record.result] == [code]
            assert [(question.question.id, question.outcome) for question in run.questions][:2] == [
                ("q1", "withdrawn"),
                ("q2", "answered"),
            ]
            run = desk.recovered(run, answers={run.waiting[0].id: "approve"})
            assert run.status == "completed" and desk.done == [*done, "write c"]
            assert_every_call_has_one_result(run)


def test_late_message_is_read_on_resumption(tmp_path: Path) -> None:
    desk, said = Desk(tmp_path), threading.Event()

    @tool(parallel_safe=True)
    def waits() -> None:
        assert said.wait(LONG)

    async def write() -> str:
        return "wrote"

    calls = [ToolCall("write"), ToolCall("waits")]
    tools = {"tools": [write, waits], "todos": False, "gates": [careful]}
    first = Agent(ScriptedModel([calls]), **tools)  # type: ignore[arg-type]
    live = first.start("go", RunOptions(store=desk.store, suspend=True, can_ask=False))
    wait_until(lambda: live.run.waiting)
    live.say("Mind the gap.")
    said.set()
    run = live.result(LONG)
    assert run.is_suspended and [message.text for message in run.pending] == ["Mind the gap."]
    model = ScriptedModel(["Minded."])
    run = asyncio.run(recover(run.id, store=desk.store, agent=Agent(model, **tools), answers={"q1": True}))  # type: ignore[arg-type]
    assert run.text == "Minded." and "Mind the gap." in model.requests[0].messages[-1].text


def test_agent_from_a_log_requires_its_gates_by_name(tmp_path: Path, subtests: pytest.Subtests) -> None:
    desk = Desk(tmp_path)
    run = desk.suspended_ids(write("a"))

    def other(call: ToolCall, run: Run) -> Verdict:
        return None

    model = ScriptedModel(["Done."])
    for name, gates in {"none": [], "another": [other]}.items():
        with subtests.test(name), pytest.raises(SettingsError, match=r"had the gate careful, which you did not pass"):
            asyncio.run(recover(run.id, store=desk.store, tools=desk.tools(), gates=gates, model=model, answers={"q1": True}))
    with subtests.test("the same"):
        given: dict[str, Any] = {"tools": desk.tools(), "gates": [careful], "model": model}
        ended = asyncio.run(recover(run.id, store=desk.store, answers={"q1": "approve"}, **given))
        assert ended.status == "completed" and desk.done == ["write a"]
    with subtests.test("as often as it had it"):
        twice = Agent(ScriptedModel([]), gates=[careful, other, careful], todos=False)
        log = own_run([replace(run.events[0], settings=twice.settings, tools=())])
        assert missing_gates(log, ["careful", "more"]) == ["other", "careful"]


def attended(desk: Desk, *calls: ToolCall, store: bool = True) -> LiveRun:
    """Start a run with a user, up to the gate's questions."""
    live = desk.agent(list(calls), "Done.").start("go", RunOptions(store=desk.store if store else None))
    wait_until(lambda: live.run.waiting)
    return live


@pytest.mark.req("KX.5", "KX.11")
def test_user_postpones_the_question_and_answers_days_later(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    live = attended(desk, write("a"), look("b"), write("c"))
    live.suspend()
    with pytest.raises(SettingsError, match="not waiting for an answer"):  # too late for an answer
        live.answer("approve")
    run = live.result(LONG)
    assert run.is_suspended and desk.done == ["look b"]  # calls that need no answer have ended
    assert [question.id for question in run.waiting] == ["q1"]
    assert [(type(event), getattr(event, "command", getattr(event, "why", ""))) for event in run.events[-2:]] == [
        (e.CommandReceived, "suspend"),
        (e.RunSuspended, "asked"),
    ]
    run = desk.recovered(load_trace(desk.store.path(run.id)), answers={"q1": "approve"}, suspend=True)
    assert run.is_suspended and desk.done == ["look b", "write a"]
    run = desk.recovered(run, answers={"q2": "deny"})
    assert run.status == "completed" and codes(run) == [None, None, DENIED]
    assert_every_call_has_one_result(run)


def test_unsuspendable_run_reports_it_and_continues(tmp_path: Path, subtests: pytest.Subtests) -> None:
    with subtests.test("a run in memory"):
        live = attended(Desk(tmp_path / "memory"), write("a"), store=False)
        with pytest.raises(SettingsError, match="in memory only"):
            live.suspend()
        live.answer("approve")
        assert live.result(LONG).status == "completed"
    with subtests.test("a tool that asks"):

        async def asks(context: ToolContext) -> str:
            return str(await context.ask("May I?", kind="approval"))

        live = Agent(ScriptedModel([ToolCall("asks"), "Done."]), tools=[asks]).start("go", RunOptions(store=Store(tmp_path)))
        wait_until(lambda: live.run.waiting)
        with pytest.raises(SettingsError, match="is not waiting for approval"):
            live.suspend()
        live.answer("yes")
        assert live.result(LONG).status == "completed"


def test_stop_takes_precedence_over_suspension(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    live = attended(desk, write("a"))
    live.stop()
    with suppress(SettingsError):
        live.suspend()
    run = live.result(LONG)
    assert run.status == "cancelled" and not run.waiting
    assert_every_call_has_one_result(run)


def test_unanswerable_call_is_denied_without_a_store(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = desk.agent([write()], "Done.").start("go", RunOptions(suspend=True, can_ask=False)).result(LONG)
    assert run.status == "completed" and codes(run) == [DENIED]


def test_available_approver_is_asked_instead_of_suspending(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    options = RunOptions(store=desk.store, suspend=True, can_ask=False, approve=lambda call, run: True)
    run = desk.agent([write()], "Done.").start("go", options).result(LONG)
    assert run.status == "completed" and desk.done == ["write a"]


def test_grant_of_a_suspended_run_is_listed_and_withdrawn(tmp_path: Path, subtests: pytest.Subtests) -> None:
    @tool(effects=["write"])
    def save(name: str) -> str:
        return f"saved {name}"

    def agent(*replies: Any) -> Agent:
        return Agent(ScriptedModel(replies), tools=[*Desk(tmp_path).tools(), save], todos=False, gates=[careful])

    def call(name: str) -> ToolCall:
        return ToolCall("save", {"name": name}, name)

    for name in ("kept", "withdrawn"):
        with subtests.test(name):
            store = Store(tmp_path / name)
            session = Session(store)
            live = agent(call("c1"), write("a")).start("go", RunOptions(store=store))
            wait_until(lambda: live.run.waiting)  # noqa: B023
            live.answer("always")
            wait_until(lambda: len(live.run.questions) == 2)  # noqa: B023
            live.suspend()
            run = live.result(LONG)
            assert f"  1  save, in run {run.id[-SHORT_ID:]}" in permissions_command(session, "", {})
            if name == "withdrawn":
                assert "Allowed always: nothing yet." in permissions_command(session, "withdraw 1", {})
                run = store.load(run.id)
                assert run.is_suspended and run.waiting and not run.grants and run.gives_consent
                assert store.summaries()[0].can_be_answered
            answers = {run.waiting[0].id: "approve"}
            options: dict[str, Any] = {"store": store, "answers": answers, "suspend": True}
            after = asyncio.run(recover(run.id, agent=agent(call("c2"), "Done."), **options))
            assert [question.about.tool for question in after.waiting if question.about] == (
                ["save"] if name == "withdrawn" else []
            )


def test_status_lists_waiting_runs_of_any_age(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = desk.suspended_ids(write())
    for _ in range(25):
        Agent(ScriptedModel(["Fine."])).start("go", RunOptions(store=desk.store)).result(LONG)
    lines = status_lines(Session(desk.store))
    at = lines.index(f"Run {run.id} is waiting for your answer: %agent answer {run.id} TEXT")
    assert lines[at + 1].startswith("It asks: May write run?")
    assert f"To discard a waiting run: %agent delete {run.id}" in lines


def test_damaged_log_leaves_the_other_suspended_runs_listed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = desk.suspended_ids(write())
    first, second, *rest = suspended_lines(["gone", run.id], desk.store.load)
    assert first.startswith("Run gone is waiting") and second.startswith(f"Run {run.id} is waiting") and rest
    most = [*suspended_lines([run.id] * 2 * MAX_WITH_QUESTIONS, desk.store.load)]
    assert sum(line.startswith("It asks: ") for line in most) == MAX_WITH_QUESTIONS
