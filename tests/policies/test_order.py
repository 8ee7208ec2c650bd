"""The precedence of verdicts, and every stop reason."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from ephemeral_text import MATRIX, reminder
from run_builder import a_round, said, todos_of
from run_checks import assert_closed, cells, ended, reasons
from scripted_runs import LONG_ANSWER, do, reply, scripted, think, tool_run, work
from todo_calls import complete, mark, start, write

from agentnb.agent.agent import Agent
from agentnb.core.messages import Text, ToolCall
from agentnb.core.request import Request
from agentnb.guidance import GuidanceSet
from agentnb.models.scripted import Line, ScriptedModel
from agentnb.policies import Matrix, MaxRounds, Policy, PolicyBundle, Stop, Verdict, decide
from agentnb.runtime.host.live_run import LiveRun

CALL = ToolCall("work")
OPEN = todos_of("completed", "in-progress")
BLOCKED = todos_of("blocked")
DONE = todos_of("completed")
WORKFLOW = Matrix(workflow_mode=True)
WORDS = ["Hm.", "Well.", "So.", "Right.", "Yes.", "No."]


def verdict_on(
    signals: tuple[str, ...] = (), todos: Any = (), policy: Matrix = WORKFLOW, parts: Sequence[Any] = ("Hm.",), most: int = 9
) -> str:
    """Return the reason of the verdict after one round."""
    verdict: Verdict = decide(
        policy.rules(MATRIX, MaxRounds(most)).policies, tool_run(*a_round(0, *parts, signals=signals), todos=todos)
    )
    return getattr(verdict, "reason", "") or verdict.stop_reason  # type: ignore[union-attr]


@pytest.mark.req("R0.35")
def test_markers_precede_todos_workflow_mode_and_natural_end(
    subtests: pytest.Subtests,
) -> None:
    for signals, todos, policy, expected in [
        (("continue", "complete", "stop"), (), WORKFLOW, "workflow_complete"),
        (("stop", "complete"), OPEN, WORKFLOW, "complete_with_open_todos"),
        (("continue", "stop"), (), WORKFLOW, "error"),
        (("continue",), OPEN, WORKFLOW, "continue_marker"),
        (("continue",), BLOCKED, WORKFLOW, "continue_marker"),
        (("stop",), OPEN, WORKFLOW, "open_todos"),
        ((), OPEN, WORKFLOW, "open_todos"),
        ((), BLOCKED, WORKFLOW, "blocked"),
        ((), DONE, WORKFLOW, "workflow_mode"),
        ((), (), WORKFLOW, "workflow_mode"),
        ((), OPEN, Matrix(), "open_todos"),
        ((), DONE, Matrix(), "natural"),
        ((), (), Matrix(), "natural"),
    ]:
        with subtests.test(signals=signals, todos=todos, policy=policy, expected=expected):
            assert verdict_on(signals, todos, policy) == expected


@pytest.mark.req("R0.39")
def test_calls_always_continue_the_run(subtests: pytest.Subtests) -> None:
    for todos, signals, policy in itertools.product([(), DONE, OPEN, BLOCKED], [(), ("continue",)], [Matrix(), WORKFLOW]):
        with subtests.test(todos=todos, signals=signals, policy=policy):
            assert verdict_on(signals, todos, policy, ["I look.", CALL]) == "tool_results"


@pytest.mark.req("R0.39", "R0.34", "R0.36", "R0.37", "R0.38")
def test_any_single_reason_suffices_to_continue() -> None:
    assert verdict_on(policy=Matrix(), parts=[CALL]) == "tool_results"
    assert verdict_on(("continue",), policy=Matrix()) == "continue_marker"
    assert verdict_on(todos=OPEN, policy=Matrix()) == "open_todos"
    assert verdict_on(policy=WORKFLOW) == "workflow_mode"
    assert verdict_on(policy=Matrix()) == "natural"


@pytest.mark.req("R0.7", "R0.48")
def test_max_rounds_stops_further_rounds_but_not_endings() -> None:
    for signals, todos in [((), OPEN), (("continue",), ()), ((), ())]:
        assert verdict_on(signals, todos, most=1) == "max_rounds"
    assert verdict_on(("complete",), OPEN, most=1) == "complete_with_open_todos"
    assert verdict_on(policy=Matrix(), most=1) == "natural"
    assert verdict_on((), BLOCKED, most=1) == "blocked"


@pytest.mark.req("R0.35")
def test_user_message_precedes_every_ending() -> None:
    policies = WORKFLOW.rules(MATRIX, MaxRounds(9)).policies
    for signals, todos in [(("complete",), ()), (("stop",), ()), ((), OPEN), ((), BLOCKED), ((), ())]:
        run = tool_run(*a_round(0, "Hm.", signals=signals), said("And now this."), todos=todos)
        assert decide(policies, run).reason == "said"  # type: ignore[union-attr]


@pytest.mark.req("R0.42", "R0.38")
def test_natural_end_adds_no_unsent_guidance() -> None:
    run, model = scripted(do(1), "Done.")
    assert ended(run) == ("completed", "natural")
    assert run.messages[-1].role == "assistant"
    assert run.rounds[-1].status == "natural_completion"
    kinds = [type(event).__name__ for event in run.events]
    assert kinds.index("GuidanceGiven") < len(kinds) - 1 - kinds[::-1].index("ModelReplied")
    assert kinds[-2:] == ["RoundFinished", "RunFinished"]
    assert [reminder(request) for request in model.requests] == [
        "\n\n".join([*(guidance.text for guidance in a_round.guidance), a_round.note]) for a_round in run.rounds
    ]


@pytest.mark.req("K0.6", "R0.35")
@pytest.mark.parametrize("reply_text", ["Hm.", "Hm.\n[CONTINUE]"])
def test_only_one_reason_adds_guidance_per_round(reply_text: str) -> None:
    run, _ = scripted(write("One"), reply_text, "[WORKFLOW_COMPLETE]", policy=WORKFLOW)
    assert len([cell for cell, _ in cells(run)[2] if cell in ("intervention", "workflow")]) <= 1


# Every stop reason

ENDS: dict[str, tuple[str, list[Line], dict[str, Any]]] = {
    "natural": ("completed", [do(1), "Done."], {}),
    "workflow_complete": ("completed", [write("One"), start(1), complete(1), "Done.\n[WORKFLOW_COMPLETE]"], {}),
    "complete_with_open_todos": ("completed", [write("One"), "Done.\n[WORKFLOW_COMPLETE]"], {}),
    "todo_intervention_exhausted": ("stopped", [write("One"), *WORDS], {}),
    "workflow_mode_exhausted": ("stopped", list(WORDS), {"policy": WORKFLOW}),
    "blocked": ("stopped", [write("One"), mark(1, "blocked", blockedReason="no key"), "I cannot."], {}),
    "loop_detected": ("stopped", [LONG_ANSWER] * 4, {"policy": WORKFLOW}),
    "max_rounds": ("limited", [do(1), do(2), do(3)], {"max_rounds": 3}),
    "refusal": ("stopped", [do(1), reply(Text("No."), stop_reason="refusal")], {}),
    "reply_cut": ("failed", [do(1), *[reply(Text("The first"), stop_reason="max_tokens")] * 2], {}),
    "error": ("failed", [do(1), RuntimeError("the line broke")], {}),
}


@pytest.mark.req("R0.7", "R0.38", "R0.53", "K0.2", "K0.7", "K0.9")
def test_every_stop_reason_is_reached(subtests: pytest.Subtests) -> None:
    for reason, (status, replies, settings) in ENDS.items():
        with subtests.test(reason=reason):
            run, _ = scripted(*replies, **settings)
            assert ended(run) == (status, reason)
            assert (run.error is not None) == (status == "failed")
            assert_closed(run)


@pytest.mark.req("R0.80", "R0.13")
def test_user_stop_wins_over_todos_workflow_mode_and_markers() -> None:
    for text, policy in [
        ("Hm.", Matrix()),
        ("Hm.", WORKFLOW),
        ("[CONTINUE]", Matrix()),
        ("Done.\n[WORKFLOW_COMPLETE]", Matrix(strict_todos=True)),
    ]:
        begun, handle = threading.Event(), []

        def stopping(request: Request, text: str = text, begun: threading.Event = begun, handle: list[LiveRun] = handle) -> str:
            assert begun.wait(30)
            handle[0].stop()
            return text

        model = ScriptedModel([write("One"), stopping, "Never asked for."])
        handle.append(Agent(model, tools=[work], policy=policy).start("go"))
        begun.set()
        run = handle[0].result(30)
        assert ended(run) == ("cancelled", "cancelled")
        assert len(model.requests) == 2
        assert_closed(run)


@pytest.mark.req("R0.80", "R0.13")
def test_user_stop_ends_a_run_despite_an_intervention() -> None:
    begun, handle = threading.Event(), []

    def stopping(request: Request) -> list[Any]:
        assert begun.wait(30)
        handle[0].stop("enough")
        return ["I go on.", do(1)]

    model = ScriptedModel([write("One"), "Hm.", "Well.", stopping, "Never asked for."])
    handle.append(Agent(model, tools=[work]).start("go"))
    begun.set()
    run: LiveRun | Any = handle[0].result(30)
    assert ended(run) == ("cancelled", "cancelled")
    assert [result.error_code for result in run.rounds[-1].results] == ["cancelled"]
    assert [todo.status for todo in run.todos] == ["not-started"]
    assert_closed(run)


@pytest.mark.req("R0.35", "R0.87")
def test_timely_user_message_is_read_before_the_end() -> None:
    begun, handle = threading.Event(), []

    def saying(request: Request) -> str:
        assert begun.wait(30)
        handle[0].say("And the other one?")
        return "Done.\n[WORKFLOW_COMPLETE]"

    model = ScriptedModel([saying, "The other one too.\n[WORKFLOW_COMPLETE]"])
    handle.append(Agent(model, tools=[work]).start("go"))
    begun.set()
    run = handle[0].result(30)
    assert ended(run) == ("completed", "workflow_complete")
    assert reasons(run) == ["prompt", "said"]
    assert model.requests[1].messages[-1].text.startswith("And the other one?")


def test_custom_policy_is_any_object_with_name_and_rules() -> None:
    class Brief:
        name = "brief"

        def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
            return PolicyBundle((lambda run: Stop("enough", "stopped"), *limits))

    run = Agent(ScriptedModel([ToolCall("work", {"item": 1})]), tools=[work], policy=Brief()).run_sync("go")
    assert (run.status, run.stop_reason, run.settings["policy"]["name"]) == ("stopped", "enough", "brief")


@pytest.mark.req("R0.66")
@pytest.mark.parametrize("rounds", [1, 5])
def test_planning_tolerance_is_configurable(rounds: int) -> None:
    thoughts = [ToolCall("think", {"thought": str(number)}) for number in range(7)]
    run = Agent(ScriptedModel(thoughts), tools=[work, think], policy=Matrix(planning_rounds=rounds), max_rounds=7).run_sync(
        "go"
    )
    assert [round.reason for round in run.rounds].index("planning_only") == rounds + 1
