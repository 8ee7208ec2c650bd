"""Consequences of findings: notice, nudge, block and stop, one step at a time."""

from __future__ import annotations

from typing import Any

import pytest
from run_builder import Calls

from agentnb.core.log import work_events as w
from agentnb.core.messages import ToolCall
from agentnb.detect import Run
from agentnb.policies.detected import block, nudge, stop

EVIDENCE = {"tool": "look", "arguments": {"n": 1}}


def story_of(*severities: str, family: str = "loop", evidence: Any = EVIDENCE) -> Calls:
    """Return a run with a finding of each severity per round; "" for a round without one."""
    story = Calls()
    for severity in severities:
        story.call("look", n=1)
        if severity:
            last = story.round_count - 1
            fields = {"rule": "r", "family": family, "first": 0, "last": last, "sentence": "It repeats itself"}
            story.add(w.FindingMade, **fields, severity=severity, evidence=evidence)
    return story


def done(run: Run) -> list[str]:
    """Return the consequences of the last round."""
    call = ToolCall("look", {"n": 1}, "c")
    acts = {"nudge": nudge(run), "block": block(call, run), "stop": stop(run)}
    return [name for name, act in acts.items() if act is not None]


@pytest.mark.req("R0.79")
def test_worst_finding_starts_with_a_nudge_and_escalates_stepwise() -> None:
    assert done(story_of("stop").run) == ["nudge"]
    assert done(story_of("stop", "stop").run) == ["nudge", "block"]
    assert done(story_of("stop", "stop", "stop").run) == ["nudge", "block", "stop"]


def test_reaction_never_exceeds_the_severity_of_its_finding() -> None:
    assert done(story_of(*["notice"] * 5).run) == []
    assert done(story_of(*["nudge"] * 5).run) == ["nudge"]
    assert done(story_of(*["block"] * 5).run) == ["nudge", "block"]


def test_notice_does_not_count_as_an_escalation_step() -> None:
    assert done(story_of("notice", "notice", "stop").run) == ["nudge"]


def test_long_time_without_findings_resets_the_escalation() -> None:
    assert done(story_of("stop", "stop", "").run) == []
    assert done(story_of("stop", "", "stop").run) == ["nudge", "block"]
    assert done(story_of("stop", "stop", *[""] * 12, "stop").run) == ["nudge"]


def test_each_detector_family_has_its_own_escalation_steps() -> None:
    story = story_of("stop", "stop")
    story.add(w.FindingMade, rule="f", family="failure", first=0, last=1, severity="stop", sentence="It fails")
    assert stop(story.run) is None
    ended = stop(story_of(*["stop"] * 3, family="failure").run)
    assert ended is not None and (ended.stop_reason, ended.status) == ("failure_detected", "stopped")


def test_only_the_call_in_the_finding_is_blocked() -> None:
    run = story_of("block", "block").run
    assert block(ToolCall("look", {"n": 1.0}, "c"), run) is not None
    assert block(ToolCall("look", {"n": 2}, "c"), run) is None and block(ToolCall("see", {"n": 1}, "c"), run) is None
    for evidence in (None, ["look"], "look", {"tool": "look"}):
        assert block(ToolCall("look", {"n": 1}, "c"), story_of("block", "block", evidence=evidence).run) is None


def test_blocked_call_repeats_the_earlier_result() -> None:
    verdict = block(ToolCall("look", {"n": 1}, "c"), story_of("block", "block").run)
    assert verdict is not None and verdict.rule == "r" and verdict.result.error_code == "duplicate_call_blocked"
    assert verdict.result.text.endswith("ok")


@pytest.mark.req("R0.79")
def test_nudge_states_the_finding_and_the_next_step() -> None:
    first, second = nudge(story_of("stop").run), nudge(story_of("stop", "stop").run)
    assert first is not None and first.text.startswith("It repeats itself. Do something") and first.level == 1
    assert second is not None and "will be stopped" in second.text and second.level == 2
