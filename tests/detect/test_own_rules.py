"""A policy and a detector from outside the package: judged alike live, from the log, and on a foreign run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from run_builder import RunBuilder, a_round, guidance_of

from agentnb import Agent, Store, ToolCall, detect, load_trace
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.run.facts import RunFacts
from agentnb.detect import Detector, Finding, Run
from agentnb.errors import SettingsError
from agentnb.guidance import GuidanceSet
from agentnb.models import ScriptedModel
from agentnb.policies import Continue, Policy, PolicyBundle, Stop, Verdict
from agentnb.policies.verdict import decide

ASK_FOR_PROOF = "ask_for_proof"
"""The policy's own reason."""


@dataclass(frozen=True)
class Proof:
    """Asks for a tool's proof after each answer, a limited number of times, in its own guidance cell."""

    times: int = 2
    name: ClassVar[str] = "proof"

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        return PolicyBundle((self, *limits), detectors=(Waffling,))

    def __call__(self, run: Run) -> Verdict | None:
        if run.last_round.records:
            return None
        if run.judged.reasons.in_run.get(ASK_FOR_PROOF, 0) >= self.times or run.judged.ignored.get("proof", 0) >= 2:
            return Stop("proved_or_not", round_status="unproved")
        ask = Guidance("mine", "proof", "Prove it: run a check.", asks=("worked",), forbids=("repeats",))
        return Continue(ASK_FOR_PROOF, guidance=(ask,), round_status="asked_for_proof")


class Waffling:
    """Finds consecutive text-only rounds from a threshold on."""

    LONGEST = 2

    def __init__(self) -> None:
        self.row = 0

    def take(self, event: e.AnyEvent, run: RunFacts) -> Iterable[Finding]:
        if not isinstance(event, e.RoundFinished):
            return
        last = run.last_round
        self.row = 0 if last.records else self.row + 1
        if self.row == self.LONGEST:
            evidence = [round_.text for round_ in run.rounds[-self.LONGEST :]]
            yield Finding("waffling", "words", last.index - 1, last.index, "nudge", "It only talks", evidence)


def check(n: int) -> str:
    """Check it."""
    return f"{n} holds"


def replies() -> list[object]:
    return ["It is so.", ToolCall("check", {"n": 1}), "So it is.", "I have said what there is to say about it."]


def live(store: Store) -> Run:
    agent = Agent(ScriptedModel(replies()), tools=[check], policy=Proof(), todos=False)
    return asyncio.run(agent.run("Prove it", store=store))


def verdicts(run: Run) -> list[bool | None]:
    return [one.followed for a_round in run.rounds for one in a_round.followed]


def test_custom_rules_judge_live_runs_and_logs_equally(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = live(store)
    assert (run.stop_reason, [round_.status for round_ in run.rounds]) == (
        "proved_or_not",
        ["asked_for_proof", "success", "asked_for_proof", "unproved"],
    )
    assert verdicts(run) == [True, False]
    assert run.rounds[-1].followed[0].why == "not fulfilled: a work tool ran"
    assert [(finding.rule, finding.first, finding.last) for finding in run.findings] == [("waffling", 2, 3)]
    again = load_trace(store.path(run.id))
    assert verdicts(again) == verdicts(run) and again.judged == run.judged
    assert [*again.findings] == [*run.findings]
    findings = detect.findings(again, [Waffling])
    assert findings == [*run.detected] and [one.sentence for one in findings] == [finding.sentence for finding in run.findings]


def test_custom_rules_judge_foreign_runs_equally() -> None:
    foreign = RunBuilder("Prove it", origin=e.Origin("someone", "x.json"))
    ask = (guidance_of("proof", asks=("worked",), forbids=("repeats",)),)
    foreign.round("It is so.").round(ToolCall("check", {"n": 1}), reason=ASK_FOR_PROOF, guidance=ask)
    foreign.round("So it is.").round("I have said what there is to say.", reason=ASK_FOR_PROOF, guidance=ask)
    assert verdicts(foreign.run) == [True, False]
    assert Proof()(foreign.run) == Stop("proved_or_not", round_status="unproved")
    assert isinstance(Proof(times=3)(foreign.run), Continue)
    assert [finding.first for finding in detect.findings(foreign.run, [Waffling])] == [2]


def test_findings_of_a_dead_process_are_not_logged_twice(tmp_path: Path) -> None:
    store = Store(tmp_path)
    whole = live(store)
    lines = store.path(whole.id).read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if b'"finding_made"' in line)
    for kept in (place, place + 1):  # the process died right before or right after logging the finding
        store.path(whole.id).write_bytes(b"".join(lines[:kept]))
        writer, run = store.reopen(whole.id)
        agent = Agent(ScriptedModel([]), tools=[check], policy=Proof(), todos=False)
        resumed = agent.resume(run, writer).result(30)
        assert (resumed.stop_reason, len(resumed.detected), len(resumed.findings)) == ("proved_or_not", 1, 1)


def test_guidance_requiring_facts_of_later_versions_is_not_judged() -> None:
    story = RunBuilder("Go").round("Done.", guidance=(guidance_of("later", asks=("danced",)),))
    assert verdicts(story.run) == [None]


def test_any_object_with_take_can_be_a_detector() -> None:
    maker: type[Detector] = Waffling
    assert detect.findings(Run.from_events(RunBuilder("Go").extend(*a_round(0, "Hm.")).events), [maker]) == []


def test_finding_that_cannot_be_logged_is_refused_at_once(subtests: pytest.Subtests) -> None:
    fine: dict[str, Any] = {"rule": "r", "family": "f", "first": 0, "last": 2}
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    odd: tuple[dict[str, Any], ...] = (
        {"first": 3},
        {"first": -1},
        {"last": 2**70},
        {"first": 0.5},
        {"last": True},
        {"rule": 5},
        {"sentence": None},
        {"severity": "bad"},
        {"evidence": object()},
        {"evidence": deep},
    )
    for one in odd:
        with subtests.test(str(one)[:40]), pytest.raises(SettingsError):
            Finding(**{**fine, **one})
    finding = Finding(**fine, sentence="half \ud800", evidence=("a", {1: 2}))
    assert "\ud800" not in finding.sentence and finding.evidence == ["a", {"1": 2}]


def test_detector_may_return_nothing() -> None:
    class Silent:
        def take(self, event: e.AnyEvent, run: RunFacts) -> Iterable[Finding]:
            return None  # type: ignore[return-value]  # what a function without a return does

    assert detect.findings(RunBuilder("Go").round("Done.").run, [Silent]) == []


@pytest.mark.parametrize(
    "verdict",
    [
        "stop",
        True,
        Stop("x", status="weird"),  # type: ignore[arg-type]
        Stop("x", status="running"),
        Stop(5),  # type: ignore[arg-type]
        Stop("x", round_status="running"),
        Continue("x", round_status="running"),
        Continue(None),  # type: ignore[arg-type]
    ],
)
def test_verdict_that_cannot_be_logged_names_the_policy(verdict: Any) -> None:
    def odd_policy(run: Run) -> Any:
        return verdict

    with pytest.raises(SettingsError, match="odd_policy"):
        decide([odd_policy], RunBuilder("Go").round("Done.").run)


class Failing:
    """A detector that fails on the first event."""

    def take(self, event: e.AnyEvent, run: RunFacts) -> Iterable[Finding]:
        raise ZeroDivisionError("by nothing")


def test_failing_detector_is_dropped_with_a_warning(tmp_path: Path) -> None:
    class Both(Proof):
        name: ClassVar[str] = "both"

        def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
            return PolicyBundle((Proof(), *limits), detectors=(Failing, Waffling))

    store = Store(tmp_path)
    agent = Agent(ScriptedModel(replies()), tools=[check], policy=Both(), todos=False)
    run = asyncio.run(agent.run("Prove it", store=store))
    assert (run.stop_reason, len(run.findings)) == ("proved_or_not", 1)
    assert [warning.startswith("The detector Failing failed and was dropped") for warning in run.warnings] == [True]
    assert load_trace(store.path(run.id)).status == run.status == "completed"
    with pytest.raises(ZeroDivisionError):
        detect.findings(run, [Failing])


def test_guidance_that_cannot_be_logged_is_refused(subtests: pytest.Subtests) -> None:
    wrong = [
        Guidance("mine", "proof", "Prove it.", level=2**70),
        Guidance("mine", "proof", "Prove it.", level=True),
        Guidance("mine", "proof", "half a \ud83d"),
        Guidance("mine", "proof", 5),  # type: ignore[arg-type]
        "Prove it.",
    ]
    run = RunBuilder("Go").round("Hm.").run
    for guidance in wrong:
        with subtests.test(guidance=ascii(guidance)), pytest.raises(SettingsError):
            decide([lambda run, given=guidance: Continue("again", guidance=(given,))], run)  # type: ignore[misc]
