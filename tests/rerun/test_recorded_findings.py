"""Replays and reproductions of runs with detectors, guidance and gates: recorded findings come from the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import look
from test_reproduce import same_facts

from agentnb import Agent, GuidanceSet, Run, ToolCall, fork_sync, replay, reproduce_sync
from agentnb.core.log.events import RoundFinished
from agentnb.core.log.work_events import FindingMade, ModelCalled
from agentnb.core.messages import Message, Text, ToolResult
from agentnb.core.request import Request
from agentnb.detect import Finding, detector
from agentnb.errors import ReplayDiverged
from agentnb.models import ScriptedModel
from agentnb.models.model import Reply
from agentnb.policies.gates import Block

LOOK = ToolCall("look", {"n": 1})


@detector(family="stall", severity="nudge")
def second(run: Run) -> str | None:
    return "The second round is over" if len(run.rounds) == 2 else None


@detector(family="stall", severity="nudge")
async def judge(run: Run, ask: Any) -> str | None:
    answer = await ask(f"After {len(run.rounds)} rounds: does it repeat itself?", system="You judge.")
    return f"The judge says {answer}" if answer == "yes" else None


class Judged:
    """Return a model that repeats itself, and admits it when asked about the second round."""

    name = "scripted:judged"

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: Request) -> Any:
        if request.system == "You judge.":
            self.asked += 1
            yield Reply(Message("assistant", (Text("yes" if "2 rounds" in request.messages[0].text else "no"),)))
            return
        rounds = sum(message.role == "assistant" for message in request.messages)
        yield Reply(Message("assistant", (LOOK if rounds < 3 else Text("Done."),)))


def live(detect: Any, model: Any = None, **how: Any) -> Run:
    model = model or ScriptedModel([*[LOOK] * 6, "Done."])
    return Agent(model, **{"tools": [look], "todos": False, "detect": detect, "policy": "minimal", **how}).run_sync("Go")


def told(run: Run) -> list[list[str]]:
    """Return the guidance of detectors, round by round."""
    return [[one.text for one in each.guidance if one.set == "detect"] for each in run.rounds]


def found(run: Run) -> list[tuple[Any, ...]]:
    return [
        (finding.rule, finding.family, finding.first, finding.last, finding.severity, finding.sentence)
        for finding in run.findings
    ]


def test_run_with_detectors_is_reproduced_with_its_findings(subtests: pytest.Subtests) -> None:
    cases: dict[str, Callable[[], Run]] = {
        "a preset": lambda: live("default"),
        "one of the person's own": lambda: live(second),
        "one that asks a model": lambda: live(judge, Judged()),
        "several": lambda: live(["default", second, judge], Judged()),
    }
    for name, make in cases.items():
        with subtests.test(name):
            run = make()
            assert run.findings and any(told(run))
            again = reproduce_sync(run)
            assert found(again) == found(run) and told(again) == told(run)
            assert (again.status, again.stop_reason) == (run.status, run.stop_reason)
            assert [*again.messages] == [*run.messages]
            kept = ("FindingMade", "RoundStarted", "RoundFinished", "GuidanceGiven")
            kinds = [[type(event).__name__ for event in each.events if type(event).__name__ in kept] for each in (run, again)]
            assert kinds[0] == kinds[1]


def test_reproduction_reuses_recorded_findings_without_calling_a_model() -> None:
    model = Judged()
    run = live(judge, model)
    assert model.asked == 4 and [finding.last for finding in run.findings] == [1]
    for again in (reproduce_sync(run), reproduce_sync(run, detect=judge)):
        assert found(again) == found(run)
        assert not [event for event in again.events if isinstance(event, ModelCalled)]
    for replayed in (replay(run), replay(run, detect=judge)):
        assert replayed.first_divergence is None and replayed.first_told_otherwise is None
        assert [[finding.sentence for finding in each.findings] for each in replayed.rounds] == [
            [],
            ["The judge says yes"],
            [],
            [],
        ]
        assert told(replayed.would_be) == told(run) and found(replayed.would_be) == found(run)
        assert replayed.caught_at == 2 and "the extension detect" not in replayed.not_replayed
    assert model.asked == 4


def test_detectors_passed_to_reproduce_run_again_and_report_differences() -> None:
    run = live(second)
    assert found(reproduce_sync(run, detect=second)) == found(run)

    @detector(name="second", family="stall", severity="nudge")
    def changed(run: Run) -> str | None:
        return "Two rounds are over" if len(run.rounds) == 2 else None

    with pytest.raises(ReplayDiverged) as caught:
        reproduce_sync(run, detect=changed)
    assert "round 3 of run" in str(caught.value) and "+" in str(caught.value) and "Two rounds are over" in str(caught.value)


def test_findings_belong_to_the_rounds_that_caused_them() -> None:
    @detector
    def late(run: Run) -> Finding | None:
        return Finding("mine", "loop", 0, 0, "nudge", "It began so") if len(run.rounds) == 3 else None

    run = live(late)
    again = reproduce_sync(run)
    for one in (run, again):
        kinds = [type(event) for event in one.events if isinstance(event, RoundFinished | FindingMade)]
        assert kinds.index(FindingMade) == 3
    assert found(again) == found(run)


def test_fork_keeps_only_findings_of_earlier_rounds() -> None:
    run = live(second)
    assert [finding.last for finding in run.findings] == [1]
    for at_round, sentences in ((2, []), (3, ["The second round is over"])):
        forked = fork_sync(run, at_round, model=ScriptedModel([ToolCall("look", {"n": 2}), "Done."]), tools=[look])
        assert [finding.sentence for finding in forked.findings] == sentences and len(forked.rounds) == at_round + 1
    again = fork_sync(run, 2, model=ScriptedModel([LOOK, "Done."]), tools=[look], detect=second)
    assert [finding.sentence for finding in again.findings] == ["The second round is over"]


def test_custom_guidance_comes_from_the_log_but_gates_are_passed(snapshot: Snapshot) -> None:
    def no_more(call: ToolCall, run: Any) -> Block | None:
        if len(run.rounds) < 3:
            return None
        return Block("no_more", ToolResult(call.id, call.name, (Text("Enough."),), is_error=True, error_code="no_more"))

    calls = [ToolCall("look", {"n": number}) for number in range(4)]
    words = GuidanceSet("brief", {"tools": "Be brief."})
    run = live(None, ScriptedModel([*calls, "Done."]), guidance=words, gates=[no_more], policy="matrix")
    assert [round_.records[0].rule for round_ in run.rounds[:4]] == ["", "", "no_more", "no_more"]
    assert any(guidance.text == "Be brief." for round_ in run.rounds for guidance in round_.guidance)
    same_facts(run, reproduce_sync(run, gates=[no_more]))
    with pytest.raises(ReplayDiverged, match="round 4 of run") as caught:
        reproduce_sync(run)
    assert caught.value.hint == snapshot
