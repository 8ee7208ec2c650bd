"""Verdicts that only end a turn, apart from those of guards and limits."""

from __future__ import annotations

import pytest
from run_builder import RunBuilder

from agentnb.guidance.sets import find_set
from agentnb.policies.policy_sets import Matrix, Minimal
from agentnb.policies.turn_rules import is_guard, turn_rule, without_rules
from agentnb.policies.verdict import Continue, LoopFinding, OnTextOnly, Stop, Verdict, decide

LOOP = LoopFinding("already_said", 0, 1, "Again")


def test_verdict_rule_is_derived_from_reason_loop_and_limit(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Verdict, bool, str | None, bool]] = [
        (Stop("natural"), False, "answer", False),
        (Stop("workflow_complete"), True, "answer", False),
        (Stop("complete_with_open_todos"), False, "answer", False),
        (Stop("workflow_mode_exhausted", "stopped"), False, "answer", False),
        (Continue("workflow_mode"), False, "answer", False),
        (Continue("continue_marker"), False, "answer", False),
        (Continue("said"), False, "answer", False),
        (Stop("error", "failed"), False, "reply", False),
        (Stop("refusal", "stopped"), False, "reply", False),
        (Stop("reply_cut", "failed"), False, "reply", False),
        (Continue("empty_answer"), False, "reply", True),
        (Continue("announced_call"), False, "reply", True),
        (Continue("pause_turn"), False, "reply", True),
        (Continue("open_todos"), False, "todos", False),
        (Continue("strict_todos"), True, "todos", False),
        (Continue("todo_nudge"), False, "todos", False),
        (Stop("blocked", "stopped"), False, "todos", False),
        (Stop("blocked", "stopped"), True, None, True),
        (Stop("todo_intervention_exhausted", "stopped"), True, None, True),
        (Continue("planning_only"), True, None, True),
        (Continue("tool_results"), True, None, True),
        (Stop("loop_detected", "stopped", loop=LOOP), False, None, True),
        (Stop("stall_detected", "stopped"), False, None, True),
        (Stop("max_rounds", "limited", limit=5), False, None, True),
        (Stop("natural", limit=5), False, None, True),
        (Stop("enough"), False, None, True),
    ]
    for verdict, after_calls, rule, guard in cases:
        with subtests.test(f"{verdict}, {after_calls}"):
            assert turn_rule(verdict, after_calls=after_calls) == rule
            assert is_guard(verdict, after_calls=after_calls) is guard


def test_answer_rules_of_built_in_policies_can_be_omitted(subtests: pytest.Subtests) -> None:
    rules = frozenset({"answer", "reply", "todos"})
    replies = ["Done.", "", "Done.\n", " "]
    for policy in (Matrix(), Minimal(), Matrix(workflow_mode=True), Matrix(strict_todos=True)):
        bundle = policy.rules(find_set("matrix"))
        for count in range(1, len(replies) + 1):
            run = RunBuilder()
            for text in replies[:count]:
                run.round(text)
            with subtests.test(f"{policy}, {count}"):
                assert turn_rule(decide(bundle.policies, run.run), after_calls=False) in rules
                assert decide(without_rules(bundle.policies, rules), run.run) == Continue("said")


def test_policies_after_an_omitted_one_still_decide() -> None:
    def natural(run: object) -> Stop:
        return Stop("natural")

    def enough(run: object) -> Stop:
        return Stop("enough", "stopped")

    run = RunBuilder().round("Done.").run
    policies = [OnTextOnly((natural, enough))]
    assert decide(policies, run) == Stop("natural")
    assert decide(without_rules(policies, frozenset({"answer"})), run) == Stop("enough", "stopped")
