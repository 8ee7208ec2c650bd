"""Limits as policies: each ends the run at its number, under its own name."""

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
    """Return a run whose last call this rule blocked."""
    facts = a_round(0, called("work", "c0"), blocked=["c0"])
    result = ToolResult("c0", "work", (), is_error=True, error_code=rule)
    changed = [
        (kind, {**values, "rule": rule, "result": result}) if kind is CallBlocked else (kind, values) for kind, values in facts
    ]
    return run_of(*changed)


@pytest.mark.req("KX.2", "R2.8")
def test_run_ends_after_the_last_allowed_round() -> None:
    assert MaxRounds(3)(run_of(*rounds(2))) is None
    assert MaxRounds(3)(run_of(*rounds(3))) == Stop("max_rounds", "limited", limit=3)


@pytest.mark.req("KX.2")
@pytest.mark.parametrize(("rule", "most"), [("max_tool_calls", 5), ("max_tool_calls_per_turn", 2)])
def test_only_calls_blocked_by_the_limit_end_the_run(rule: str, most: int) -> None:
    policy = MaxToolCalls(5, 2)
    assert policy(blocked(rule)) == Stop(rule, "limited", limit=most)
    assert policy(blocked("consecutive")) is None
    assert policy(run_of(*rounds(5))) is None, "all calls ran, so the model may answer"


@pytest.mark.req("KX.2")
def test_max_tokens_counts_both_directions_and_summaries() -> None:
    used = rounds(3, Usage(input=100, output=20))
    assert MaxTokens(361)(run_of(*used)) is None
    assert MaxTokens(360)(run_of(*used)) == Stop("max_tokens", "limited", limit=360)
    summary = (ContextCompacted, {"why": "messages", "compacted": Compacted(1, 3, 2), "usage": Usage(input=1, output=0)})
    assert MaxTokens(361)(run_of(*used[:-1], summary, used[-1])) is not None
    assert MaxTokens(1)(run_of(*rounds(2, Usage()))) is None, "unreported tokens are not counted"


@pytest.mark.req("KX.2")
def test_exhausted_budget_ends_the_run_with_its_name() -> None:
    session = Budget(1.0, name="session_budget")
    budget = Budget(0.5, within=session)
    run = run_of(*rounds(1))
    assert WithinBudget(budget)(run) is None
    session.settle(1.0)
    assert WithinBudget(budget)(run) == Stop("session_budget", "limited", limit=1.0)
    budget.settle(0.5)
    assert WithinBudget(budget)(run) == Stop("budget", "limited", limit=0.5)


@pytest.mark.req("KX.2", "R2.8")
def test_limit_overrides_a_policy_that_continues_the_run() -> None:
    def on(run: Run) -> Continue:
        return Continue("tool_results")

    assert decide((on, MaxRounds(1)), run_of(*rounds(1))) == Stop("max_rounds", "limited", limit=1)
    assert isinstance(decide((on, MaxRounds(2)), run_of(*rounds(1))), Continue)


@pytest.mark.req("KX.2")
def test_user_message_resets_the_turn_but_not_the_run() -> None:
    run = run_of(*rounds(2), said("More."))
    assert (run.calls_made, run.calls_this_turn) == (2, 0)
