"""Replay: how another policy, guide, guard or limit would have affected a recorded run, round by round, computed by
the real code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import structs

from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.run.rounds import DUPLICATE, MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN
from agentnb.core.todos import open_todos
from agentnb.detect.agent_runs import check_of_agent
from agentnb.detect.detector import DetectorMaker, Finding
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors
from agentnb.detect.walk import RoundEvents, ShadowRun, walk_rounds
from agentnb.guidance.prompts import prompt
from agentnb.guidance.sets import GuidanceSet
from agentnb.interchange.files import one_run
from agentnb.policies.gates import Block, judge
from agentnb.policies.marker_text import without_markers
from agentnb.policies.policy_sets import PolicySet
from agentnb.policies.turn_rules import turn_rule, without_rules
from agentnb.policies.verdict import Continue, Stop, Verdict, decide, reason_of
from agentnb.rerun.recorded_course import RecordedCourse
from agentnb.rerun.replay_result import Decision, JudgedCall, Replay, ReplayedRound, differ
from agentnb.rerun.variant import Variant, variant_of

BY_A_GATE = frozenset({DUPLICATE, MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN})
"""Error codes of calls blocked by agentnb's own gates; a replay judges these calls again."""


def replay(
    run: Run | str | Path,
    guidance: str | GuidanceSet | None = None,
    policy: str | PolicySet | None = None,
    detect: Detectors | None = None,
    limits: Mapping[str, Any] | None = None,
    workflow_mode: bool | None = None,
    *,
    repeatable: Iterable[str] = (),
) -> Replay:
    """Apply this guidance, policy and these limits to a recorded run of any product, and return the result.

    Omitted settings come from the run's log, or else from ``matrix``; a run of another product has only the limits
    passed here. ``limits``: amounts by name, ``{"max_rounds": 10}`` (None removes a limit). ``workflow_mode`` turns
    the policy's mode on or off. ``detect``: a preset such as ``default``, or your own detectors, which see the
    complete record; their findings cause nudges, blocks and stops as in a live run. ``repeatable``: tools that may
    repeat, such as those that poll. No model is called. Time and money are not replayed. Raises `SettingsError` for
    invalid settings, and for a run with a custom policy if ``policy`` is not given.

    r = replay(load_trace("complex-fails"), workflow_mode=True) r.table(); r.first_divergence; r.caught_at
    """
    recorded = one_run(run)
    check_of_agent(recorded, "it cannot be replayed")
    changes: dict[str, Any] = {"guidance": guidance, "policy": policy, "limits": limits, "workflow_mode": workflow_mode}
    variant = variant_of(recorded, **changes, detect=detect, repeatable=repeatable)
    course = RecordedCourse(recorded, [*walk_rounds(recorded)])
    mode_is_chosen = variant.workflow_mode or workflow_mode is not None
    walk = _Walk(course, variant, _found_by_round(recorded, variant.bundle.detectors), mode_is_chosen)
    rounds = walk.rounds()
    return Replay(recorded, variant, rounds, walk.shadow.run, course.turn_ending)


def _found_by_round(run: Run, detect: Sequence[DetectorMaker]) -> dict[int, list[Finding]]:
    """Return the detectors' findings in the record, by the index of the round at whose end they occur."""
    findings: dict[int, list[Finding]] = {}
    if not detect:
        return findings
    folded, seen = Run(detect), 0
    for event in run.events:
        folded.apply(event)
        if len(folded.detected) > seen:
            index = folded.last_round.index if folded.rounds else 0
            findings.setdefault(index, []).extend(folded.detected[seen:])
            seen = len(folded.detected)
    for _, error in folded.take_failures():
        raise error
    return findings


class _Walk:
    """Walks over a recorded run together with its shadow run."""

    def __init__(
        self, course: RecordedCourse, variant: Variant, findings: Mapping[int, Sequence[Finding]], mode_is_chosen: bool
    ) -> None:
        """``mode_is_chosen``: whether the variant decides if an answer ends the run, even where the record does not show it."""
        self.shadow = ShadowRun(variant.bundle.detectors, variant.vary)
        self._variant, self._found, self._mode_is_chosen = variant, findings, mode_is_chosen
        bundle = variant.bundle
        self._policies, self._after_calls = bundle.policies, bundle.after_calls
        self._guides, self._gates = bundle.direct_guides, bundle.direct_gates
        self._course = course
        self._judged: list[JudgedCall] = []

    def rounds(self) -> list[ReplayedRound]:
        """Return all recorded rounds, replayed."""
        walked = self._course.walked
        replayed: list[ReplayedRound] = []
        why: Verdict | None = Continue("prompt")
        for position, round_ in enumerate(walked):
            is_over = not isinstance(why, Continue) or (position > 0 and self._course.is_outside(round_))
            if is_over:
                replayed += [self._only_recorded(later) for later in range(position, len(walked))]
                break
            assert isinstance(why, Continue), "just asked"
            self._open(round_, why)
            self._close(round_)
            done = self._decide(position)
            replayed.append(done)
            why = self._next(done, position)
        return self._mark(replayed)

    def _next(self, done: ReplayedRound, position: int) -> Verdict | None:
        """Return the reason for the next recorded round, or the end, or None if what happens next is not recorded."""
        if self._course.hands_over(position):
            if done.differs:  # a further round of the agent, which the person's message does not answer
                return done.verdict if isinstance(done.verdict, Stop) else None
            return Continue("said") if isinstance(done.verdict, Stop) else done.verdict
        # Without a verdict there was no recorded decision either, such as after a crash.
        return done.verdict or self._course.as_recorded(position)

    # A single round

    def _open(self, round_: RoundEvents, why: Continue) -> None:
        shadow, run = self.shadow, self.shadow.run
        shadow.catch_up(round_)
        last = run.last_finished_round
        nothing_new = last is not None and not last.records and not run.pending
        is_as_recorded = why.message == round_.start.continuation
        shadow.open_round(
            round_,
            reason=why.reason,
            round_status=why.round_status,
            continuation=why.message if is_as_recorded else (why.message or prompt("continue")) if nothing_new else "",
            note=self._variant.bundle.note(run),
        )
        shadow.guide(self._guidance(why))

    def _guidance(self, why: Continue) -> list[Guidance]:
        """Return the guidance of the open round: first that of the policies, then that of the guides."""
        own = [guide(self.shadow.run) for guide in self._guides]
        return [*why.guidance, *[guidance for guidance in own if guidance is not None]]

    def _close(self, round_: RoundEvents) -> None:
        self._judged = []
        self.shadow.close_round(_read_by(round_, self._variant.bundle.markers), self._judge)
        self.shadow.log_findings()

    def _judge(self, event: e.CallEvent) -> tuple[ToolResult, str] | None:
        """Let the gates judge a call, and note any deviation from the record. A denial by a person is kept."""
        was_blocked = isinstance(event, e.CallEnd)  # no other event of a call has a result
        if isinstance(event, e.CallEnd) and event.result.error_code not in BY_A_GATE:
            return None
        call = self._as_made(event.call)
        verdict = judge(self._gates, call, self.shadow.run)
        if isinstance(verdict, Block) and (was_blocked or not self._lets_repeat(verdict)):
            if not was_blocked:
                self._judged.append(JudgedCall(call, verdict.rule, True))
            return verdict.result, verdict.rule
        if isinstance(event, e.CallEnd):
            self._judged.append(JudgedCall(call, event.rule, False))
        return None

    def _as_made(self, call: ToolCall) -> ToolCall:
        """Return the call as the model made it, since a person may have changed its arguments before it ran."""
        records = self.shadow.run.last_round.records
        return next((record.call for record in records if record.call.id == call.id), call)

    def _lets_repeat(self, block: Block) -> bool:
        return block.result.error_code == DUPLICATE and block.result.name in self._may_repeat

    @cached_property
    def _may_repeat(self) -> frozenset[str]:
        """Tools that the run's own gates allowed to repeat; logs do not list the tools that are exempt."""
        return self._course.tools_that_repeat()

    # The decision after a round

    def _decide(self, position: int) -> ReplayedRound:
        course, run = self._course, self.shadow.run
        current = course.walked[position]
        following = course.walked[position + 1] if position + 1 < len(course.walked) else None
        after_text = course.after_text(position)
        if following is None:
            self.shadow.take_over(course.after_last_round())
        elif after_text not in ("person", "harness"):
            self.shadow.catch_up(following)
        verdict: Verdict | None = None
        not_knowable: Verdict | None = None
        if course.is_decided(current, following):
            verdict, not_knowable = self._verdict(position)
        recorded = course.decision(position)
        decision = self._decision(verdict, recorded)
        is_limited = after_text == "person" and isinstance(verdict, Stop) and verdict.limit is not None
        ends_otherwise = is_limited or differ(recorded, decision)
        return ReplayedRound(
            recorded=course.round_of(current),
            recorded_decision=recorded,
            would_be=run.last_round,
            decision=decision,
            verdict=verdict,
            not_knowable=not_knowable,
            after_text=after_text,
            judged_calls=tuple(self._judged),
            findings=tuple(self._found.get(current.start.index, ())),
            ends_otherwise=ends_otherwise,
            differs=bool(self._judged) or ends_otherwise,
        )

    def _verdict(self, position: int) -> tuple[Verdict, Verdict | None]:
        """Return the policies' decision after this round, and their verdict on a turn's end that the record does not show."""
        run = self.shadow.run
        has_calls = bool(run.last_round.records)
        policies = self._after_calls if has_calls else self._policies
        verdict = decide(policies, run)
        left_out = self._course.rules_left_out(position, mode_is_chosen=self._mode_is_chosen)
        if turn_rule(verdict, after_calls=has_calls) not in left_out:
            limit = self._limit_at_turn_end(verdict) if self._course.hands_over(position) else None
            return limit or verdict, None
        alternative = decide(without_rules(policies, left_out), run)
        if turn_rule(alternative, after_calls=has_calls) in left_out:  # no policy decided otherwise
            alternative = self._course.as_recorded(position) or alternative
        return alternative, verdict

    def _limit_at_turn_end(self, verdict: Verdict) -> Stop | None:
        """Return the limit reached at the end of a turn; it ends the run even if a person continues."""
        if not self._variant.limits or not isinstance(verdict, Stop):
            return None
        stop = decide(without_rules(self._policies, frozenset({"answer"})), self.shadow.run)
        return stop if isinstance(stop, Stop) and stop.limit is not None else None

    def _decision(self, verdict: Verdict | None, recorded: Decision) -> Decision:
        run = self.shadow.run
        continues, reason = recorded.continues, recorded.reason
        if verdict is not None:
            continues = isinstance(verdict, Continue)
            reason = reason_of(verdict)
        return Decision(
            tools=bool(run.last_round.records),
            open=len(open_todos(run.todos)),
            mode=self._variant.workflow_mode,
            continues=continues,
            reason=reason,
        )

    def _only_recorded(self, position: int) -> ReplayedRound:
        course = self._course
        recorded = course.round_of(course.walked[position])
        return ReplayedRound(
            recorded=recorded,
            recorded_decision=course.decision(position),
            after_text=course.after_text(position),
            findings=tuple(self._found.get(recorded.index, ())),
        )

    def _mark(self, replayed: list[ReplayedRound]) -> list[ReplayedRound]:
        """Add what is known only at the end: the guidance after each round, and whether a round is hypothetical."""
        shadowed = {round_.index: round_ for round_ in self.shadow.run.rounds}
        parting = next((position for position, round_ in enumerate(replayed) if round_.differs), len(replayed))
        beyond = self._beyond(replayed)
        marked = []
        for position, round_ in enumerate(replayed):
            following = replayed[position + 1] if position + 1 < len(replayed) else None
            would_be = None if round_.would_be is None else shadowed[round_.recorded.index]
            goes_on = following is not None and following.would_be is not None
            after = shadowed[following.recorded.index] if following is not None and goes_on else None
            marked.append(
                structs.replace(
                    round_,
                    would_be=would_be,
                    next_recorded=() if following is None else following.recorded.guidance,
                    next_guidance=after.guidance if after else beyond.get(round_.recorded.index, ()),
                    next_followed=after.followed if after else (),
                    hypothetical=position > parting,
                )
            )
        return marked

    def _beyond(self, replayed: Sequence[ReplayedRound]) -> dict[int, tuple[Guidance, ...]]:
        """Return the guidance for a round beyond the record, by the index of the round before it."""
        last = next((round_ for round_ in reversed(replayed) if round_.would_be is not None), None)
        if last is None or not isinstance(last.verdict, Continue) or self.shadow.run.open_round is not None:
            return {}
        if last is not replayed[-1] and not last.differs:
            return {}
        self.shadow.open_further_round(last.verdict.reason, last.verdict.round_status)
        return {last.recorded.index: tuple(self._guidance(last.verdict))}


def _read_by(round_: RoundEvents, markers: bool) -> RoundEvents:
    """Apply the variant's way of reading markers to the reply of a round."""
    return structs.replace(round_, answered=tuple([_reply_read_by(event, markers) for event in round_.answered]))


def _reply_read_by(event: e.AnyEvent, markers: bool) -> e.AnyEvent:
    if not isinstance(event, e.ModelReplied):
        return event
    if not markers:
        return structs.replace(event, signals=()) if event.signals else event
    message, signals = without_markers(event.message)
    return structs.replace(event, message=message, signals=(*event.signals, *signals)) if signals else event
