"""The order of a round, and how the loop continues or ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_checks import assert_closed, assert_every_call_has_one_result, codes, kinds, results
from scripted_runs import add, loop_alone, reply

from agentnb.agent.agent import Agent
from agentnb.core.messages import Text, ToolCall
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import Continue, MaxRounds, Stop, natural_stop

ADD = ToolCall("add", {"a": 1, "b": 2})


@pytest.mark.req("R0.3", "R2.7")
def test_each_round_runs_model_then_tools_then_policies() -> None:
    seen: list[str] = []

    def note(what: str, value: Any) -> Any:
        seen.append(what)
        return value

    def look() -> str:
        return note("the tool runs", "seen")

    def decide(run: Run) -> Stop | None:
        return note("the policy decides", natural_stop(run))

    model = ScriptedModel(
        [
            lambda request: note("the model answers", ["I look.", ToolCall("look")]),
            lambda request: note("the model answers", "Done."),
        ],
        stream=False,
    )
    asyncio.run(loop_alone(model, decide, tools=[look], watch=lambda event: seen.append(type(event).__name__)))
    assert seen == [
        "RunStarted",
        "RoundStarted",
        "the model answers",
        "ModelReplied",
        "ToolStarted",
        "the tool runs",
        "ToolFinished",
        "RoundFinished",
        "the policy decides",
        "RoundStarted",
        "the model answers",
        "ModelReplied",
        "RoundFinished",
        "the policy decides",
        "RunFinished",
    ]


@pytest.mark.req("R0.1", "R0.8")
def test_rounds_are_numbered_from_zero_without_gaps() -> None:
    def nudge(run: Run) -> Continue | None:
        return Continue("nudge") if len(run.rounds) == 3 else None

    model = ScriptedModel([ADD, [ADD, ADD], "Half.", ToolCall("nothing"), "Done."])
    run = asyncio.run(loop_alone(model, nudge, natural_stop, tools=[add]))
    assert [a.index for a in run.rounds] == [0, 1, 2, 3, 4]
    assert [event.index for event in run.events if type(event).__name__ == "RoundStarted"] == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert len(model.requests) == 5
    assert [a.reason for a in run.rounds] == ["prompt", "tool_results", "tool_results", "nudge", "tool_results"]


@pytest.mark.req("R0.6")
def test_reply_with_text_and_calls_keeps_both() -> None:
    run = Agent(ScriptedModel([["First I add.", ADD], "It is 3."]), tools=[add]).run_sync("go")
    assert run.rounds[0].text == "First I add."
    assert [result.text for result in results(run)] == ["3"]
    assert run.messages[1].text == "First I add."
    assert run.text == "It is 3."


@pytest.mark.req("R0.4", "K0.3")
def test_tools_run_if_calls_exist_whatever_the_stop_reason(subtests: pytest.Subtests) -> None:
    for stop_reason in ["stop", "end_turn", "tool_use", "", "something_new"]:
        with subtests.test(stop_reason=stop_reason):
            model = ScriptedModel([reply(ADD, stop_reason=stop_reason), "Done."])
            run = Agent(model, tools=[add]).run_sync("go")
            assert [result.text for result in results(run)] == ["3"]
            assert run.rounds[0].stop_reason == stop_reason
            assert (run.status, run.stop_reason) == ("completed", "natural")


@pytest.mark.req("R0.4", "K2.1")
def test_text_without_calls_ends_the_run_for_any_stop_reason(subtests: pytest.Subtests) -> None:
    for stop_reason in ["stop", "stop_sequence", "tool_use", "", "something_new"]:
        with subtests.test(stop_reason=stop_reason):
            run = Agent(ScriptedModel([reply(Text("Done."), stop_reason=stop_reason)])).run_sync("go")
            assert (run.status, run.stop_reason, run.text) == ("completed", "natural", "Done.")
            assert run.rounds[-1].status == "natural_completion"


@pytest.mark.req("R0.7", "R2.8")
def test_max_rounds_ends_the_run_and_keeps_its_results() -> None:
    model = ScriptedModel([[f"Step {n}.", ToolCall("add", {"a": n, "b": 3 - n})] for n in range(9)])
    run = Agent(model, tools=[add], max_rounds=3).run_sync("go")
    assert (run.status, run.stop_reason, run.error) == ("limited", "max_rounds", None)
    assert len(run.rounds) == len(model.requests) == 3
    assert run.limit is not None and (run.limit.limit, run.limit.value) == ("max_rounds", 3)
    assert run.text == "Step 2."
    assert [result.text for result in results(run)] == ["3", "3", "3"]
    assert kinds(run)[-2:] == ["LimitReached", "RunFinished"]
    assert_every_call_has_one_result(run)


@pytest.mark.req("R0.7")
def test_natural_end_in_the_last_allowed_round_stays_natural() -> None:
    run = Agent(ScriptedModel([ADD, "It is 3."]), tools=[add], max_rounds=2).run_sync("go")
    assert (run.status, run.stop_reason, run.limit) == ("completed", "natural", None)


@pytest.mark.req("R0.7")
def test_limit_ends_a_run_whose_policies_never_stop() -> None:
    model = ScriptedModel(["Still here."] * 9)
    run = asyncio.run(loop_alone(model, MaxRounds(4), lambda run: Continue("more")))
    assert (run.status, len(run.rounds)) == ("limited", 4)


@pytest.mark.req("R0.5")
def test_continuation_without_guidance_sends_please_continue() -> None:
    def once_more(run: Run) -> Continue | Stop:
        return Continue("once_more") if len(run.rounds) < 2 else Stop("natural")

    model = ScriptedModel(["Half.", "Whole."])
    run = asyncio.run(loop_alone(model, once_more))
    assert [(m.role, m.text) for m in model.requests[0].messages] == [("user", "go")]
    assert [(m.role, m.text) for m in model.requests[1].messages] == [
        ("user", "go"),
        ("assistant", "Half."),
        ("user", "Please continue"),
    ]
    assert run.messages[2].text == "Please continue"
    assert [a.reason for a in run.rounds] == ["prompt", "once_more"]


@pytest.mark.req("R0.5")
def test_continuation_after_tools_sends_results_without_extra_text() -> None:
    def go_on(run: Run) -> Continue | Stop:
        return Continue("go_on") if len(run.rounds) < 2 else Stop("natural")

    model = ScriptedModel([ADD, "Done."])
    asyncio.run(loop_alone(model, go_on, tools=[add]))
    last = model.requests[1].messages[-1]
    assert (last.role, last.text, [part.text for part in last.parts]) == ("tool", "", ["3"])  # type: ignore[union-attr]


@pytest.mark.req("R0.3")
def test_policy_sees_only_finished_rounds() -> None:
    seen: list[tuple[int, str, bool, int, int]] = []

    def look(run: Run) -> Stop | None:
        last = run.rounds[-1]
        seen.append((last.index, last.status, last.ended_at is not None, len(last.calls), len(last.results)))
        assert run.open_round is None
        assert run.messages[-1].role == ("tool" if last.calls else "assistant")
        return natural_stop(run)

    asyncio.run(loop_alone(ScriptedModel([[ADD, ADD], "Done."]), look, tools=[add]))
    assert seen == [(0, "success", True, 2, 2), (1, "success", True, 0, 0)]


@pytest.mark.req("R0.9", "R2.14")
def test_run_has_text_rounds_totals_times_and_call_records() -> None:
    replies = [
        reply(ADD, usage=Usage(input=10, output=2, cost=0.5)),
        reply(Text("It is 3."), usage=Usage(input=20, output=3, cost=0.25)),
    ]
    run = Agent(ScriptedModel(replies), tools=[add]).run_sync("go")
    assert (run.text, run.stop_reason, len(run.rounds), run.error) == ("It is 3.", "natural", 2, None)
    assert (run.usage.input, run.usage.output, run.cost) == (30, 5, 0.75)
    assert run.started_at is not None and run.ended_at is not None and run.started_at <= run.ended_at
    assert run.seconds > 0
    (record,) = run.rounds[0].records
    assert record.result is not None
    assert (record.call.name, record.call.arguments, record.result.text) == ("add", {"a": 1, "b": 2}, "3")


@pytest.mark.req("R0.72", "R2.6")
def test_unknown_tool_is_an_error_result_and_loop_continues() -> None:
    run = Agent(ScriptedModel([ToolCall("ad"), "I see."]), tools=[add]).run_sync("go")
    (result,) = results(run)
    assert (result.is_error, result.error_code) == (True, "unknown_tool")
    assert result.text.startswith("tool not found: ad. ")
    assert "add" in result.text
    assert run.status == "completed"
    assert codes(run) == ["unknown_tool"]
    assert_closed(run)
