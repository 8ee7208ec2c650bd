"""Detectors made from functions of the run so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_builder import Calls, RunBuilder

from agentnb import Agent, ToolCall
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Text, ToolResult
from agentnb.core.run.facts import RunFacts
from agentnb.detect import Finding, detector, findings, timeline
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel


@detector(family="stall", severity="nudge")
def slow(run: RunFacts) -> str | None:
    """Find every third round."""
    return f"{len(run.rounds)} rounds" if len(run.rounds) % 3 == 0 else None


def three() -> Calls:
    return Calls.of("abc")


def test_detector_sentence_becomes_a_finding_about_the_ended_round() -> None:
    assert findings(three().run, slow) == [Finding("slow", "stall", 2, 2, "nudge", "3 rounds")]


def test_detector_may_return_one_finding_several_or_none(subtests: pytest.Subtests) -> None:
    finding = Finding("mine", "words", 0, 1)
    cases: dict[str, tuple[Callable[[RunFacts], Any], int]] = {
        "nothing": (lambda run: None, 0),
        "an empty text": (lambda run: "", 0),
        "a finding": (lambda run: finding, 3),
        "several": (lambda run: [finding, "and this"], 6),
        "a generator": (lambda run: (text for text in ["a", "b"]), 6),
    }
    for name, (function, count) in cases.items():
        with subtests.test(name):
            assert len(findings(three().run, detector(function))) == count


def test_detector_is_named_after_its_function_or_explicitly() -> None:
    @detector
    def talkative(run: RunFacts) -> str:
        return "again"

    assert {finding.rule for finding in findings(three().run, talkative)} == {"talkative"}
    named = detector(name="words", severity="stop")(talkative.function)
    assert {(finding.rule, finding.severity) for finding in findings(three().run, named)} == {("words", "stop")}
    assert [*timeline(three().run, [named])["preset"]] == ["words"] * 3


def test_function_sees_each_call_of_workflow_steps() -> None:
    @detector
    def called(run: RunFacts) -> str:
        return ", ".join(f"{call.step}: {call.record.call.name}" for call in run.step_calls)

    run = RunBuilder("Go", run_kind="workflow")
    for step, outcome in {"load": "ran", "save": "blocked"}.items():
        call, result = ToolCall("work", {}, step), ToolResult(step, "work", (Text("x"),))
        run.add(w.StepStarted, step=step)
        if outcome == "ran":
            run.add(e.ToolStarted, call=call, step=step).add(e.ToolFinished, result=result, step=step)
        else:
            run.add(e.CallBlocked, call=call, result=result, rule="own", step=step)
        run.add(w.StepFinished, step=step)
    found = [(finding.first, finding.sentence) for finding in findings(run.run, called)]
    assert found == [(0, "load: work"), (1, "load: work, save: work")]


def test_detector_can_be_called_as_its_function() -> None:
    assert slow(three().run) == "3 rounds"


def test_invalid_detector_is_refused() -> None:
    for make, words in (
        (lambda: detector(severity="bad"), "severity"),  # type: ignore[call-overload]
        (lambda: findings(three().run, detector(lambda run: 5)), "returned 5"),
        (lambda: findings(three().run, 5), "5 is not a detector"),  # type: ignore[arg-type]
        (lambda: findings(three().run, "gemnii"), "gemini"),
    ):
        with pytest.raises(SettingsError, match=words):
            make()


def test_presets_and_custom_detectors_can_be_combined() -> None:
    story = Calls()
    for _ in range(3):
        story.call()
    assert [finding.rule for finding in findings(story.run, ["default", slow])] == ["nothing_new", "slow"]


def test_detector_observes_a_working_agent() -> None:
    def look(n: int) -> str:
        """Look."""
        return str(n)

    replies = [*[ToolCall("look", {"n": n}) for n in range(3)], "Done."]
    run = Agent(ScriptedModel(replies), tools=[look], detect=slow, todos=False).run_sync("go")
    assert [(finding.rule, finding.last) for finding in run.findings] == [("slow", 2)]
    assert [one.text[:9] for one in run.rounds[3].guidance if one.set == "detect"] == ["3 rounds."]
    assert run.settings["extensions"] == [{"name": "detect", "settings": {"preset": "slow"}}]
