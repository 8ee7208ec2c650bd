"""The limits as policies: each ends the run at its number, under its own name, and not before."""

from __future__ import annotations

import pytest
from run_builder import Fact, a_round, called, run_of, said

from agentnb.core.compaction_records import Compacted
from agentnb.core.log.events import CallBlocked, ContextCompacted, ModelReplied
from agentnb.core.messages import ToolResult
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.policies import Continue, Stop, decide
from agentnb.policies.run_limits import MaxRounds, MaxTokens, MaxToolCalls
from agentnb.runtime.budget import Budget, WithinBudget


def rounds(count: int, usage: Usage | None = None) -> list[Fact]:
    facts = [fact for index in range(count) for fact in a_round(index, called("work", f"c{index}"))]
    if usage is None:
        return facts
    return [(kind, {**values, "usage": usage}) if kind is ModelReplied else (kind, values) for kind, values in facts]


def blocked(rule: str) -> Run:
    """A run of which the last call was not let run for this rule."""
    facts = a_round(0, called("work", "c0"), blocked=["c0"])
    result = ToolResult("c0", "work", (), is_error=True, error_code=rule)
    changed = [
        (kind, {**values, "rule": rule, "result": result}) if kind is CallBlocked else (kind, values) for kind, values in facts
    ]
    return run_of(*changed)


@pytest.mark.req("KX.2", "R2.8")
def test_the_last_round_that_may_be_is_the_last() -> None:
    assert MaxRounds(3)(run_of(*rounds(2))) is None
    assert MaxRounds(3)(run_of(*rounds(3))) == Stop("max_rounds", "limited", limit=3)


@pytest.mark.req("KX.2")
@pytest.mark.parametrize(("rule", "most"), [("max_tool_calls", 5), ("max_tool_calls_per_turn", 2)])
def test_a_call_above_the_number_ends_the_run_and_one_that_was_blocked_for_another_reason_does_not(
    rule: str, most: int
) -> None:
    policy = MaxToolCalls(5, 2)
    assert policy(blocked(rule)) == Stop(rule, "limited", limit=most)
    assert policy(blocked("consecutive")) is None
    assert policy(run_of(*rounds(5))) is None, "all that were asked for could be made: it may answer"


@pytest.mark.req("KX.2")
def test_tokens_are_counted_both_ways_over_all_calls_those_for_summaries_among_them() -> None:
    used = rounds(3, Usage(input=100, output=20))
    assert MaxTokens(361)(run_of(*used)) is None
    assert MaxTokens(360)(run_of(*used)) == Stop("max_tokens", "limited", limit=360)
    summary = (ContextCompacted, {"why": "messages", "compacted": Compacted(1, 3, 2), "usage": Usage(input=1, output=0)})
    assert MaxTokens(361)(run_of(*used[:-1], summary, used[-1])) is not None
    assert MaxTokens(1)(run_of(*rounds(2, Usage()))) is None, "what nobody counted is no number"


@pytest.mark.req("KX.2")
def test_an_empty_purse_ends_it_under_the_name_of_that_purse() -> None:
    session = Budget(1.0, name="session_budget")
    budget = Budget(0.5, within=session)
    run = run_of(*rounds(1))
    assert WithinBudget(budget)(run) is None
    session.settle(1.0)
    assert WithinBudget(budget)(run) == Stop("session_budget", "limited", limit=1.0)
    budget.settle(0.5)
    assert WithinBudget(budget)(run) == Stop("budget", "limited", limit=0.5)


@pytest.mark.req("KX.2", "R2.8")
def test_a_limit_ends_a_run_that_another_policy_would_let_go_on() -> None:
    def on(run: Run) -> Continue:
        return Continue("tool_results")

    assert decide((on, MaxRounds(1)), run_of(*rounds(1))) == Stop("max_rounds", "limited", limit=1)
    assert isinstance(decide((on, MaxRounds(2)), run_of(*rounds(1))), Continue)


@pytest.mark.req("KX.2")
def test_what_the_person_says_begins_the_turn_anew_and_not_the_run() -> None:
    run = run_of(*rounds(2), said("More."))
    assert (run.calls_made, run.calls_this_turn) == (2, 0)
