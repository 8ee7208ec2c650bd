"""Calls that a gate asks about: decided by the person, or by a function."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from marked_logs import cut_log, own_run
from run_checks import checked, codes, results
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, recover, tool
from agentnb.agent.extension import Extension
from agentnb.core.log import events as e
from agentnb.core.log.wire import encode
from agentnb.core.run.rounds import DENIED, MAX_TOOL_CALLS
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Allow, Ask, Deny, Verdict
from agentnb.runtime.host.live_run import LiveRun
from agentnb.tools.tool import ToolContext


def asks(call: ToolCall, run: Run) -> Verdict:
    """Asks about every call, unless the person has said always."""
    always = any(isinstance(event, e.QuestionAnswered) and event.answer == "always" for event in run.events)
    return Allow() if always else Ask(f"May {call.name} run?", "careful", ("always",))


class Written:
    """A tool that records its arguments."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def tools(self) -> list[Any]:
        async def write(path: str) -> str:
            self.paths.append(path)
            return f"wrote {path}"

        @tool(parallel_safe=True)
        async def look(path: str) -> str:
            self.paths.append(f"look {path}")
            return "seen"

        return [write, look]


def write(path: str = "a") -> ToolCall:
    return ToolCall("write", {"path": path})


def agent(written: Written, *calls: ToolCall, gates: Any = (asks,), **settings: Any) -> Agent:
    return Agent(ScriptedModel([list(calls), "Done."]), tools=written.tools(), todos=False, gates=gates, **settings)


def begin(written: Written, *calls: ToolCall, **settings: Any) -> LiveRun:
    live = agent(written, *calls, **settings).start("go")
    wait_until(lambda: live.run.waiting or live.done)
    return live


def ended(live: LiveRun) -> Run:
    return checked(live.result(PATIENCE))


def of_kind(run: Run, kind: type[Any]) -> list[Any]:
    return [event for event in run.events if isinstance(event, kind)]


def names(run: Run) -> list[str]:
    """The kinds of events between the reply and the end of its round."""
    kinds = [type(event).__name__ for event in run.events]
    return kinds[kinds.index("ModelReplied") + 1 : kinds.index("RoundFinished")]


@pytest.mark.req("KX.5")
def test_approved_call_runs_and_denied_call_does_not(subtests: pytest.Subtests) -> None:
    for answer, paths, told in [
        ("approve", ["a"], "wrote a"),
        (False, [], "write was not run: The person did not allow it.\n"),
        ("deny: not now", [], "The person did not allow it. They said: not now\n"),
    ]:
        with subtests.test(str(answer)):
            written = Written()
            live = begin(written, write())
            (question,) = live.run.waiting
            assert (question.kind, question.message) == ("approval", "May write run?")
            assert question.call_id == live.run.rounds[0].calls[0].id
            assert written.paths == []
            live.answer(answer)
            run = ended(live)
            assert written.paths == paths and told in results(run)[0].text
            end = ["ToolStarted", "ToolFinished"] if paths else ["CallBlocked"]
            assert names(run) == ["ToolAdmitted", "QuestionAsked", "QuestionAnswered", *end]
            assert codes(run) == [None if paths else DENIED]
            assert paths or run.rounds[0].records[0].rule == "careful"


@pytest.mark.req("KX.5")
def test_declined_question_does_not_approve_the_call() -> None:
    written = Written()
    live = begin(written, write())
    live.decline()
    assert codes(ended(live)) == [DENIED] and written.paths == []


@pytest.mark.req("KX.5")
def test_edited_arguments_run_and_the_model_is_informed() -> None:
    written = Written()
    live = begin(written, write("a"))
    live.answer({"edit": {"path": "b"}})
    run = ended(live)
    assert written.paths == ["b"]
    (started,) = of_kind(run, e.ToolStarted)
    assert started.edited and started.call.arguments == {"path": "b"}
    assert run.rounds[0].records[0].call == started.call
    assert results(run)[0].text == ('The person changed the arguments before write ran. It ran with: {"path":"b"}\nwrote b')


def test_gate_can_deny_edited_arguments() -> None:
    def no_secrets(call: ToolCall, run: Run) -> Verdict:
        return Deny("It is a secret.", "secrets") if call.arguments["path"] == "secret" else None

    written = Written()
    live = begin(written, write("a"), gates=(asks, no_secrets))
    live.answer({"edit": {"path": "secret"}})
    run = ended(live)
    assert written.paths == [] and run.rounds[0].records[0].rule == "secrets"


def test_gate_receives_an_earlier_always_answer() -> None:
    written = Written()
    live = begin(written, write("a"), write("b"), ToolCall("look", {"path": "c"}))
    live.answer("always")
    run = ended(live)
    assert written.paths == ["a", "b", "look c"]
    assert len(of_kind(run, e.QuestionAsked)) == len(of_kind(run, e.ToolAdmitted)) == 1


@pytest.mark.req("KX.5", "R0.72")
def test_question_blocks_calls_that_are_not_parallel_safe() -> None:
    written = Written()
    questions = (lambda call, run: Ask("May I?") if call.arguments["path"] == "a" else None,)
    live = begin(written, write("a"), ToolCall("look", {"path": "b"}), write("c"), gates=questions)
    wait_until(lambda: of_kind(live.run, e.ToolFinished))
    assert written.paths == ["look b"]
    live.answer(True)
    run = ended(live)
    assert written.paths == ["look b", "a", "c"]
    assert [result.text for result in results(run)] == ["wrote a", "seen", "wrote c"]


def test_limit_reached_during_a_question_denies_the_approved_call() -> None:
    written = Written()
    questions = (lambda call, run: Ask("May I?") if call.name == "write" else None,)
    live = begin(written, write("a"), ToolCall("look", {"path": "b"}), gates=questions, max_tool_calls=1)
    wait_until(lambda: of_kind(live.run, e.ToolFinished))
    live.answer(True)
    run = ended(live)
    assert codes(run) == [MAX_TOOL_CALLS, None] and written.paths == ["look b"]


@pytest.mark.req("KX.5")
def test_question_without_a_person_becomes_a_denial_with_a_reason() -> None:
    written = Written()
    run = agent(written, write()).run_sync("go")
    assert codes(run) == [DENIED] and "o person is attached" in results(run)[0].text and written.paths == []
    assert not of_kind(run, e.QuestionAsked)


def test_unknown_or_invalid_call_asks_no_question(subtests: pytest.Subtests) -> None:
    def count(number: int, kind: Literal["a", "b"] = "a") -> int:
        """Counts."""
        return number

    async def outer(context: ToolContext) -> str:
        """Makes a call that cannot fit."""
        return (await context.call("count", {"number": "many"})).text

    tools = [count, outer, tool(Agent(ScriptedModel(["Found."])), name="inner")]
    unfit: list[tuple[str, Any]] = [
        ("count", {}),
        ("count", {"number": "many"}),
        ("count", {"number": 1.5}),
        ("count", {"number": 1, "kind": "c"}),
        ("count", {"number": 1, "colour": "red"}),
        ("count", '{"number": 1'),
        ("count", None),
        ("inner", {"prompt": 1}),
    ]
    cases = [("counts", {}, "unknown_tool"), *[(*one, "invalid_arguments") for one in unfit]]
    for name, arguments, code in cases:
        with subtests.test(name, arguments=arguments):
            made = ToolCall(name, arguments)
            made_agent = Agent(ScriptedModel([[made], "Done."]), tools=tools, todos=False, gates=[asks])
            asked: list[ToolCall] = []
            run = checked(made_agent.run_sync("go", approve=lambda call, _, asked=asked: bool(asked.append(call))))
            assert (codes(run), asked, of_kind(run, e.QuestionAsked)) == ([code], [], [])
            unasked = Agent(ScriptedModel([[made], "Done."]), tools=tools, todos=False).run_sync("go")
            assert results(run)[0].text == results(unasked)[0].text
    with subtests.test("the call of a tool"):
        made_agent = Agent(ScriptedModel([[ToolCall("outer")], "Done."]), tools=tools, todos=False, gates=[asks])
        run = made_agent.run_sync("go", approve=lambda call, _: call.name == "outer")
        assert (
            "count was not run, because its arguments are invalid" in results(run)[0].text
            and len(of_kind(run, e.QuestionAsked)) == 1
        )
    with subtests.test("1.0 for an integer, and other arguments of the person"):
        for edit, expected in ((None, "1"), ({"number": 2}, "2")):
            made_agent = Agent(
                ScriptedModel([[ToolCall("count", {"number": 1.0})], "Done."]), tools=tools, todos=False, gates=[asks]
            )
            run = made_agent.run_sync("go", approve=lambda call, _, edit=edit: edit or True)
            assert len(of_kind(run, e.QuestionAsked)) == 1 and expected in results(run)[0].text


def test_question_closes_if_arguments_became_invalid_during_suspension(tmp_path: Any) -> None:
    store = Store(tmp_path)
    run = agent(Written(), write()).run_sync("go", store=store, suspend=True)
    assert run.is_suspended and len(run.waiting) == 1

    def write_(folder: str) -> str:
        """Takes a different argument now."""
        return folder

    now = [tool(name="write")(write_), *Written().tools()[1:]]
    answers = {run.waiting[0].id: "approve"}
    again = checked(
        asyncio.run(recover(run, tools=now, gates=[asks], model=ScriptedModel(["Done."]), store=store, answers=answers))
    )
    assert codes(again) == ["invalid_arguments"] and again.waiting == ()


@pytest.mark.req("KX.5")
def test_approve_function_decides_instead_of_the_person(subtests: pytest.Subtests) -> None:
    async def later(call: ToolCall, run: Run) -> Any:
        await asyncio.sleep(0)
        return call.arguments["path"] == "a"

    cases: dict[str, tuple[Any, list[str], str]] = {
        "yes": (lambda call, run: True, ["a"], "wrote a"),
        "no": (lambda call, run: False, [], "did not allow it."),
        "why not": (lambda call, run: "too late", [], "They said: too late"),
        "a person's yes": (lambda call, run: "approve", ["a"], "wrote a"),
        "a person's no": (lambda call, run: "deny", [], "did not allow it."),
        "other arguments": (lambda call, run: {"path": "b"}, ["b"], "It ran with"),
        "by the run": (lambda call, run: run.rounds[0].calls == (call,), ["a"], "wrote a"),
        "async": (later, ["a"], "wrote a"),
        "nothing to say": (lambda call, run: None, [], "did not allow it."),
        "what it cannot say": (lambda call, run: 3, [], "decides for them failed"),
        "an error": (lambda call, run: call.nothing, [], "decides for them failed"),
        "an exit": (lambda call, run: exit(), [], "decides for them failed"),
    }
    for name, (approve, paths, told) in cases.items():
        with subtests.test(name):
            written = Written()
            live = agent(written, write()).start("go", RunOptions(approve=approve, can_ask=False))
            run = ended(live)
            assert written.paths == paths and told in results(run)[0].text
            (answer,) = of_kind(run, e.QuestionAnswered)
            assert answer.by == "program" and not run.waiting
            assert bool(run.warnings) == (told == "decides for them failed")
            assert told != "decides for them failed" or "did not allow" not in results(run)[0].text


def test_person_decides_when_the_approve_function_returns_none() -> None:
    written = Written()
    live = agent(written, write()).start("go", RunOptions(approve=lambda call, run: None))
    wait_until(lambda: live.run.waiting or live.done)
    live.answer(True)
    run = ended(live)
    assert written.paths == ["a"] and of_kind(run, e.QuestionAnswered)[0].by == "person"


@pytest.mark.req("KX.11", "KX.5")
def test_undecided_call_of_a_dead_process_asks_again(
    subtests: pytest.Subtests,
) -> None:
    live = begin(Written(), write("a"))
    live.answer({"edit": {"path": "b"}})
    whole = ended(live)
    cases: dict[type[Any], tuple[list[str], int]] = {
        e.ModelReplied: (["a"], 1),
        e.ToolAdmitted: (["a"], 1),
        e.QuestionAsked: (["a"], 1),
        e.QuestionAnswered: (["b"], 0),
    }
    for kind, (paths, asked) in cases.items():
        with subtests.test(kind.__name__):
            seq = of_kind(whole, kind)[0].seq
            written = Written()
            run = own_run(whole.events[: seq + 1])
            questions: list[ToolCall] = []

            def approve(call: ToolCall, run: Run, questions: list[ToolCall] = questions) -> bool:
                questions.append(call)
                return True

            chosen = Agent(ScriptedModel(["Done."]), tools=written.tools(), todos=False, gates=[asks])
            ended(chosen.resume(run, options=RunOptions(approve=approve, can_ask=False)))
            assert (written.paths, len(questions)) == (paths, asked)


def test_queued_call_of_a_dead_process_is_not_judged_again() -> None:
    whole = agent(Written(), write("a"), gates=()).run_sync("go")
    events = list(whole.events[: of_kind(whole, e.ToolStarted)[0].seq])
    call = whole.rounds[0].calls[0]
    events.append(e.ToolAdmitted(seq=len(events), at=whole.started_at, run_id=whole.id, call=call))
    written = Written()
    chosen = Agent(ScriptedModel(["Done."]), tools=written.tools(), todos=False, gates=[asks])
    run = ended(chosen.resume(own_run(events), options=RunOptions(can_ask=False)))
    assert written.paths == ["a"] and codes(run) == [None]


def test_run_with_gates_is_not_resumed_without_them(tmp_path: Any) -> None:
    store = Store(tmp_path)
    run = agent(Written(), write()).run_sync("go", store=store)
    assert run.settings["gates"] == ["asks"]
    path = cut_log(store.path(run.id), -1)
    with pytest.raises(SettingsError, match="asks"):
        asyncio.run(recover(path, tools=Written().tools(), model=ScriptedModel([])))


def test_invalid_gate_is_refused() -> None:
    wrong: Any = ["ask"]
    with pytest.raises(SettingsError, match="is not a gate"):
        Agent(ScriptedModel([]), gates=wrong)


def test_answers_and_gate_reasons_are_logged_without_keys(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-planted-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)

    def asks_with_it(call: ToolCall, run: Run) -> Verdict:
        return Ask(f"May it run with {key}?")

    def denies_with_it(call: ToolCall, run: Run) -> Verdict:
        return Deny(f"It holds {key}.") if call.arguments["path"] == key else None

    for answer, gates in [
        ({"edit": {"path": key}}, (asks_with_it,)),
        (f"deny: {key} is in it", (asks_with_it,)),
        ({"edit": {"path": key}}, (asks_with_it, denies_with_it)),
    ]:
        with subtests.test(f"{answer} {len(gates)}"):
            written = Written()
            live = begin(written, write("a"), gates=gates)
            live.answer(answer)
            run = ended(live)
            assert key not in b"".join(map(encode, run.events)).decode() and key not in "".join(written.paths)


def test_approve_function_cannot_change_arguments_in_place() -> None:
    def approve(call: ToolCall, run: Run) -> bool:
        call.arguments["path"] = "elsewhere"
        return True

    written = Written()
    run = ended(agent(written, write()).start("go", RunOptions(approve=approve, can_ask=False)))
    assert written.paths == ["a"] and run.rounds[0].calls[0].arguments == {"path": "a"}


def test_gate_cannot_change_arguments_in_place(subtests: pytest.Subtests) -> None:
    def meddles(call: ToolCall, run: Run) -> Verdict:
        call.arguments["path"] = "elsewhere"
        return None

    cases: dict[str, dict[str, Any]] = {
        "of the agent": {"gates": [meddles]},
        "of an extension": {"extensions": [Extension(name="meddling", gates=(meddles,))]},
    }
    for name, settings in cases.items():
        with subtests.test(name):
            written = Written()
            run = Agent(ScriptedModel([write(), "Done."]), tools=written.tools(), todos=False, **settings).run_sync("go")
            assert written.paths == ["a"] and run.rounds[0].calls[0].arguments == {"path": "a"}
