"""Plan results: summaries and findings of bounded length."""

from __future__ import annotations

import pytest
from plan_turns import agent, call, plan, result_of, step

from agentnb import Plan
from agentnb.chat.plans.plan_outcome import pending


@pytest.mark.req("R3.18")
def test_plan_summaries_are_truncated_and_findings_need_completed_plans() -> None:
    steps = [step(1, "brest", executorRequired=True), *[step(number, description="x" * 200) for number in range(2, 40)]]
    summary = pending(Plan.read(plan(*steps)), {})["summary"]
    assert len(summary) == 4_000 and summary.startswith("1. Step 1 (executor)\n2. xxx")
    result = result_of(agent(call(), plan(step(1)), "y" * 5_000, "Done.").run_sync("Go"))
    assert [len(insight) for insight in result["insights"]] == [1_000]
    failed = result_of(agent(call(), plan(step(1, "vigo"), step(2)), "It is high.", "So.").run_sync("Go"))
    assert (failed["status"], failed["insights"]) == ("failed", [])
