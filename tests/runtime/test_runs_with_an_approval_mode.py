"""Modes: questions and denials, also in nested and resumed runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from run_checks import checked, codes, results
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, ask_person, fork, recover, replay, reproduce, tool
from agentnb.core.log import events as e
from agentnb.core.run.rounds import DENIED
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Allow, Ask, Verdict
from agentnb.runtime.host.live_run import LiveRun
from agentnb.tools.tool import ToolContext


class Desk:
    """Tools that record their arguments, and agents with them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        async def write(path: str) -> str:
            self.done.append(f"write {path}")
            return f"wrote {path}"

        @tool(effects=["network"])
        async def send(to: str) -> str:
            self.done.append(f"send {to}")
            return "sent"

        @tool(effects=["read"])
        async def look(path: str) -> str:
            self.done.append(f"look {path}")
            return "seen"

        return [write, send, look, ask_person]

    def agent(self, *replies: Any, **settings: Any) -> Agent:
        return Agent(ScriptedModel([*replies, "Done."]), tools=self.tools(), todos=False, **settings)


WRITE, SEND, LOOK = ToolCall("write", {"path": "a"}), ToolCall("send", {"to": "ann"}), ToolCall("look", {"path": "a"})


def answered(live: LiveRun, *answers: Any) -> Run:
    """Return the run after answering its questions, in order."""
    for place, answer in enumerate(answers):
        wait_until(lambda place=place: len(live.run.questions) > place or live.done)
        live.answer(answer)
    return checked(live.result(PATIENCE))


def messages(run: Run) -> list[str]:
    return [f"{question.question.message.partition('?')[0]}?" for question in run.questions]


def test_mode_ask_asks_about_calls_that_are_not_read_only(subtests: pytest.Subtests) -> None:
    first = "May the tool 'write' run?"
    both = [first, "May the tool 'send' run?"]
    cases: list[tuple[list[Any], list[str], list[str]]] = [
        (["approve", "approve", "approve"], ["write a", "send ann", "look a", "write a"], [*both, first]),
        (["always", "approve"], ["write a", "send ann", "look a", "write a"], both),
        (["deny: not there", {"edit": {"to": "bob"}}, False], ["send bob", "look a"], [*both, first]),
    ]
    for answers, done, asked in cases:
        with subtests.test(str(answers)):
            desk = Desk()
            live = desk.agent([WRITE, SEND, LOOK], [WRITE]).start("go", approve="ask")
            run = answered(live, *answers)
            assert (sorted(desk.done), messages(run)) == (sorted(done), asked)
            assert run.settings["approve"] == "ask"
            assert answers[0] != "deny: not there" or "They said: not there" in results(run)[0].text


def test_builtin_tools_need_no_approval_and_auto_asks_nothing() -> None:
    todos = ToolCall("todo_operations", {"operation": "write", "todoList": [{"id": 1, "title": "a", "status": "in-progress"}]})
    calls = [todos, ToolCall("ask_person", {"question": "Which?"})]
    live = Agent(ScriptedModel([calls, "Done.", "Done."]), tools=[ask_person], policy="minimal").start("go", approve="ask")
    run = answered(live, "the first")
    assert [question.question.kind for question in run.questions] == ["elicitation"] and codes(run) == [None, None]
    desk = Desk()
    run = desk.agent([WRITE]).run_sync("go", approve="auto")
    assert desk.done == ["write a"] and run.settings["approve"] == "auto" and not run.questions
    run = desk.agent([WRITE]).run_sync("go")
    assert desk.done == ["write a"] * 2 and "approve" not in run.settings  # a function without declared effects runs


def test_mode_ask_without_a_person_denies_like_any_gate(tmp_path: Path) -> None:
    desk, store = Desk(), Store(tmp_path)
    run = desk.agent([WRITE]).run_sync("go", approve="ask")
    assert codes(run) == [DENIED] and "o person is attached" in results(run)[0].text
    run = asyncio.run(desk.agent([WRITE]).run("go", RunOptions(suspend=True), store=store, approve="ask"))
    assert run.is_suspended and len(run.waiting) == 1 and desk.done == []


def careful(call: ToolCall, run: Run) -> Verdict:
    return Ask("May it look?") if call.name == "look" else Allow()


def test_custom_gate_decides_before_the_mode(subtests: pytest.Subtests) -> None:
    for mode, done, asked in [("ask", ["write a", "look a"], ["May it look?"]), ("read_only", ["look a"], ["May it look?"])]:
        with subtests.test(mode):
            desk = Desk()
            run = answered(desk.agent([WRITE, LOOK], gates=[careful]).start("go", approve=mode), "approve")
            assert (desk.done, messages(run)) == (done, asked)


def test_gate_questions_are_denied_in_mode_never_but_others_asked() -> None:
    desk = Desk()
    question = ToolCall("ask_person", {"question": "Which?"})
    live = desk.agent([WRITE, LOOK, question], gates=[careful]).start("go", approve="never")
    run = answered(live, "the first")
    assert desk.done == ["write a"] and codes(run) == [None, DENIED, None]
    assert (
        "this run does not ask for permission (approve=never)" in results(run)[1].text
        and "did not allow" not in results(run)[1].text
    )
    assert [one.question.kind for one in run.questions] == ["elicitation"]
    decided: list[str] = []
    options = RunOptions(approve=lambda call, run: decided.append(call.name) or True, approval_mode="never", can_ask=False)
    run = asyncio.run(desk.agent([LOOK], gates=[careful]).run("go", options))
    assert codes(run) == [DENIED] and not decided and not run.questions


def test_mode_read_only_denies_other_calls_without_a_question() -> None:
    desk = Desk()
    run = desk.agent([WRITE, SEND, LOOK]).run_sync("go", approve="read_only", answer=lambda question: "approve")
    assert desk.done == ["look a"] and codes(run) == [DENIED, DENIED, None] and not run.questions
    assert [record.rule for record in run.rounds[0].records] == ["read_only", "read_only", ""]


# Nested runs


def begun_inside(kind: str, inner: Agent, **how: Any) -> Callable[..., Any]:
    """Return a tool that starts a nested run."""

    async def started(context: ToolContext) -> str:
        return str((await context.start_run(inner, "go")).text)

    async def awaited() -> str:
        return (await inner.run("go", **how)).text

    def plain() -> str:
        return inner.run_sync("go", **how).text

    return tool(name="delegate", effects=["read"])({"started": started, "awaited": awaited, "plain": plain}[kind])


def test_nested_run_combines_its_mode_with_its_parents(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[str, str, dict[str, Any], list[Any], list[str], str]] = [
        ("started", "ask", {}, ["approve", "deny"], ["write a"], "ask"),
        ("awaited", "ask", {}, ["always", "approve"], ["write a", "send ann", "write a"], "ask"),
        ("plain", "read_only", {}, [], [], "read_only"),
        ("plain", "auto", {"approve": "read_only"}, [], [], "read_only"),
        ("awaited", "read_only", {"approve": "auto"}, [], [], "read_only"),
        ("awaited", "never", {"approve": "ask"}, [], [], "ask+never"),
        ("awaited", "ask", {"approve": "never"}, [], [], "ask+never"),
    ]
    for number, (kind, mode, how, answers, done, words) in enumerate(cases):
        with subtests.test(f"{kind} {mode} {how}"):
            desk, store = Desk(), Store(tmp_path / str(number))
            replies = [[WRITE], [SEND], [WRITE]] if answers[:1] == ["always"] else [[WRITE], [SEND]]
            delegate = begun_inside(kind, desk.agent(*replies), **how)
            outer = Agent(ScriptedModel([[ToolCall("delegate")], "Done."]), tools=[delegate], todos=False)
            options = RunOptions(store=store, approval_mode=mode)
            run = answered(outer.start("go", options), *answers)
            assert desk.done == done
            nested = [stored for stored in map(store.load, store.ids()) if stored.parent_id == run.id]
            assert len(nested) == 1 and len(run.questions) == len(answers)
            assert all(one.settings["approve"] == words for one in nested)


def test_always_answer_applies_to_all_runs_nested_in_the_asker() -> None:
    desk = Desk()
    delegate = begun_inside("started", desk.agent([WRITE], "Done.", [WRITE]))
    replies = [[ToolCall("delegate")], [LOOK], [ToolCall("delegate")], [WRITE], "Done."]
    outer = Agent(ScriptedModel(replies), tools=[delegate, *desk.tools()], todos=False)
    run = answered(outer.start("go", approve="ask"), "always")
    assert desk.done == ["write a", "look a", "write a", "write a"] and len(run.questions) == 1


# Resumed, forked and replayed runs


def suspended(desk: Desk, store: Store, mode: str = "ask") -> Run:
    run = asyncio.run(desk.agent([WRITE]).run("go", RunOptions(suspend=True, approval_mode=mode), store=store))
    assert run.is_suspended
    return run


def test_recovered_run_keeps_its_mode_unless_another_is_given(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: dict[str | None, tuple[list[str], str]] = {
        None: (["write a"], "ask"),
        "auto": (["write a", "send ann"], "auto"),
        "read_only": ([], "read_only"),  # approved calls are judged again
    }
    for word, (done, mode) in cases.items():
        with subtests.test(str(word)):
            desk, store = Desk(), Store(tmp_path / str(word))
            run = suspended(desk, store)
            how: dict[str, Any] = {"agent": desk.agent([SEND]), "store": store, "answers": {run.waiting[0].id: "approve"}}
            run = asyncio.run(recover(run.id, **how, approve=word, suspend=True))
            assert desk.done == done and run.settings.get("approve", "auto") == mode
            assert [event.approve for event in run.events if isinstance(event, e.RunRecovered)] == [word or ""]
            assert run.is_suspended == (mode == "ask")
            assert store.load(run.id) == run


def test_mode_given_at_recovery_persists_at_the_next_recovery(tmp_path: Path) -> None:
    desk, store = Desk(), Store(tmp_path)
    run = desk.agent([LOOK]).run_sync("go", store=store)
    for word in ("read_only", None):
        cut_log(store.path(run.id), "round_started", -1, before=True)
        run = asyncio.run(recover(run.id, agent=desk.agent([SEND]), store=store, approve=word))
        assert codes(run) == [None, DENIED] and run.settings["approve"] == "read_only" and desk.done == ["look a"]
        cut_log(store.path(run.id), "round_started", -1, before=True)
        run = store.load(run.id)


def test_pending_question_is_withdrawn_and_denied_in_mode_never(tmp_path: Path) -> None:
    desk, store = Desk(), Store(tmp_path)
    run = suspended(desk, store)
    run = asyncio.run(recover(run.id, agent=desk.agent([LOOK]), store=store, approve="never"))
    assert run.status == "completed" and codes(run) == [DENIED, None] and desk.done == ["look a"]
    assert [question.outcome for question in run.questions] == ["withdrawn"]
    closed = next(event for event in run.events if isinstance(event, e.QuestionAnswered))
    assert closed.seq < next(event.seq for event in run.events if isinstance(event, e.CallBlocked))


def test_fork_keeps_the_mode_and_replay_keeps_denials() -> None:
    desk = Desk()
    run = desk.agent([WRITE], [LOOK]).run_sync("go", approve="read_only")
    for at_round in (1, 2):
        model = ScriptedModel([[SEND], "Done."])
        forked = asyncio.run(fork(run, at_round, model=model, tools=desk.tools()))
        assert codes(forked)[-1] == DENIED and forked.settings["approve"] == "read_only"
        model = ScriptedModel([[SEND], "Done."])
        freed = asyncio.run(fork(run, at_round, model=model, tools=desk.tools(), options=RunOptions(approve="auto")))
        assert codes(freed)[-1] is None and freed.settings["approve"] == "auto"
    assert not any(round_.differs for round_ in replay(run).rounds)
    assert codes(asyncio.run(reproduce(run))) == codes(run)


def test_run_with_approved_calls_is_reproducible_with_its_answers() -> None:
    desk = Desk()
    live = desk.agent([WRITE], [SEND], [SEND], [WRITE]).start("go", approve="ask")
    run = answered(live, "always", "deny: no", "approve")
    again = asyncio.run(reproduce(run))
    assert codes(again) == codes(run) == [None, DENIED, None, None]
    assert [question.answer for question in again.questions] == [question.answer for question in run.questions]


def test_invalid_mode_is_refused_before_anything_runs() -> None:
    desk = Desk()
    agent = desk.agent([WRITE])
    wrong: Any = 3
    for begin in (partial(agent.run_sync, "go", approve="asks"), partial(agent.start, "go", approve="asks")):
        with pytest.raises(SettingsError, match=r"asks.*auto, ask, never, read_only"):
            begin()
    with pytest.raises(SettingsError, match="neither a mode nor a function"):
        RunOptions(approve=wrong)
    assert desk.done == []


def test_always_answer_to_a_custom_gate_grants_nothing(subtests: pytest.Subtests) -> None:
    def write(path: str) -> str:
        return f"wrote {path}"

    mine = "May write run?"
    for words, rule in (("May write run with a tiger, which bites?", "approval"), (mine, "approval"), ("Really?", "ask")):
        with subtests.test(f"{words} {rule}"):
            gate = partial(_asks_once, words, rule)
            made = Agent(
                ScriptedModel([[ToolCall("write", {"path": "a"})], [ToolCall("write", {"path": "b"})], "Done."]),
                tools=[write],
                gates=[gate],
            )
            run = asyncio.run(made.run("Go.", approve="ask", answer=lambda question: "always"))
            assert [asked.question.about.rule for asked in run.questions if asked.question.about] == ["approval", "ask"]
            assert [grant.question_id for grant in run.grants] == [run.questions[1].question.id]
            assert [grant.by for grant in run.grants] == ["program"]


def _asks_once(words: str, rule: str, call: ToolCall, run: Any) -> Ask | None:
    return None if run.questions else Ask(words, rule, approvals=("always",))
