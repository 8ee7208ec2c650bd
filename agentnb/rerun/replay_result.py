"""Results of a replay: the recorded rounds, each with its outcome under a different policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agentnb.core.guidance import Followed, Guidance
from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.todos import open_todos
from agentnb.detect.detector import Finding
from agentnb.detect.guidance_rules import ALREADY_SAID, FAILURE_LOOP
from agentnb.detect.run import Run
from agentnb.detect.scores import FAMILIES
from agentnb.policies.turn_rules import is_guard
from agentnb.policies.verdict import Stop, Verdict, reason_of
from agentnb.rerun.turn_endings import LOGGED, AfterText, TurnEnding
from agentnb.rerun.variant import Variant
from agentnb.tables.columns import table_of

if TYPE_CHECKING:
    import pandas as pd

CORRECTIVE = (ALREADY_SAID, FAILURE_LOOP)
"""Guidance cells with which a guard responds to a repeat or a failure. An intervention for open todos counts as discipline
instead.
"""


class Decision(NamedTuple):
    """Facts after a round: whether tools were called, todos are open, workflow mode is on, and the run continues."""

    tools: bool
    open: int
    """Number of open todos."""
    mode: bool
    continues: bool | None
    """True or False, or None if undecided: the record breaks off, or the run was ended from outside."""
    reason: str
    """Reason for the next round, or for the stop; empty if not recorded."""


class JudgedCall(NamedTuple):
    """A call for which a gate's verdict differs from the record."""

    call: ToolCall
    rule: str
    """Rule that would have blocked it; if it would have run, the recorded rule."""
    blocked: bool
    """True if it would have been blocked; otherwise, the record blocked it and its result is unknown."""


class ReplayedRound(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded round and its replay. Rounds after the end of the replay have no ``would_be``."""

    recorded: WorkflowRound
    recorded_decision: Decision
    would_be: WorkflowRound | None = None
    """The round with its replayed guidance, and whether the recorded reply follows that guidance (``followed``)."""
    decision: Decision | None = None
    verdict: Verdict | None = None
    """Verdict of the policies after the round, or None if they were not consulted."""
    not_knowable: Verdict | None = None
    """Their verdict on an end of the turn that the record does not show; the replay does not follow it."""
    after_text: AfterText | None = None
    """Successor of a text-only reply in another product's record."""
    next_recorded: tuple[Guidance, ...] = ()
    """Recorded guidance in the next request."""
    next_guidance: tuple[Guidance, ...] = ()
    """Replayed guidance in the next request."""
    next_followed: tuple[Followed, ...] = ()
    """Verdicts on whether the next recorded reply follows each of these; empty if it is missing."""
    judged_calls: tuple[JudgedCall, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings of the detectors in the recorded round."""
    ends_otherwise: bool = False
    """True if only the record, or only the replay, ends or reaches a limit here."""
    differs: bool = False
    """True if a decision differs: whether a call is blocked, or whether the run ends here."""
    hypothetical: bool = False
    """True after the first divergence, where the record no longer shows what the model would do."""

    @property
    def number(self) -> int:
        """Round number, counted from 1 as in tables."""
        return self.recorded.index + 1

    @property
    def is_told_otherwise(self) -> bool:
        """True if its request would have carried different guidance."""
        return self.would_be is not None and _texts(self.would_be.guidance) != _texts(self.recorded.guidance)

    @property
    def caught_by(self) -> tuple[str, ...]:
        """Guards that would have caught a failure here, as text; may be empty."""
        had = {guidance.cell for guidance in self.next_recorded}
        corrective = dict.fromkeys(
            f"reminds the model ({guidance.cell})"
            for guidance in self.next_guidance
            if guidance.cell in CORRECTIVE and guidance.cell not in had
        )
        blocked = dict.fromkeys(f"blocks {judged.call.name} ({judged.rule})" for judged in self.judged_calls if judged.blocked)
        decided = []
        loops = isinstance(self.verdict, Stop) and self.verdict.loop is not None
        if self.decision is not None and (loops or self.ends_otherwise) and self.guard_decides:
            decided = [f"{'continues' if self.decision.continues else 'ends'} ({self.decision.reason})"]
        relevant = [finding for finding in self.findings if finding.severity != "notice" or finding.family in FAMILIES]
        return (*blocked, *decided, *corrective, *dict.fromkeys(f"finds {finding.rule}" for finding in relevant))

    @property
    def guard_decides(self) -> bool:
        """True if a guard, a limit or a detector decides after it, not just the rule that ends turns."""
        return self.verdict is not None and is_guard(self.verdict, after_calls=bool(self.recorded.records))


@dataclass(frozen=True)
class Replay:
    """A recorded run, replayed under a variant: `rounds` has recorded and replayed rounds, `table` is a data frame.

    A replay calls nothing and is deterministic. Time and money are not replayed; `not_replayed` lists everything left
    out.
    """

    recorded: Run
    variant: Variant
    rounds: Sequence[ReplayedRound] = field(repr=False)
    """A `ReplayedRound` for each recorded round: ``recorded``, ``would_be``, both decisions, ``verdict``, ``next_guidance``,
    ``judged_calls``, ``findings``.
    """
    would_be: Run = field(repr=False)
    """The shadow run: recorded replies and results, with replayed guidance and reasons."""
    turn_ending: TurnEnding = LOGGED
    """The recorded run's way of ending its turns, inferred from the record: ``kind``, ``after_texts``, ``sentence``."""

    @property
    def not_replayed(self) -> tuple[str, ...]:
        """Omissions from the replay, such as time and money."""
        return self.variant.not_replayed

    @cached_property
    def first_divergence(self) -> ReplayedRound | None:
        """The first round with a different decision (a blocked call, the end of the run), or None."""
        return next((round_ for round_ in self.rounds if round_.differs), None)

    @cached_property
    def first_told_otherwise(self) -> ReplayedRound | None:
        """The first round whose request would have carried different guidance, or None."""
        return next((round_ for round_ in self.rounds if round_.is_told_otherwise), None)

    @cached_property
    def caught_at(self) -> int | None:
        """The first round, from 1, where a guard, a limit or a detector would have caught a failure, or None.

        A block, an end, guidance about repeats or failures, or a finding counts; an intervention for open todos does
        not.
        """
        return next((round_.number for round_ in self.rounds if round_.caught_by), None)

    @property
    def stop(self) -> Stop | None:
        """The verdict that would have ended the run, or None if the record ends without one."""
        last = self._last_replayed
        return last.verdict if last is not None and isinstance(last.verdict, Stop) else None

    @property
    def rounds_saved(self) -> int:
        """Number of recorded rounds after an end caused by a guard, a limit or a detector."""
        return len(self._saved)

    @property
    def tokens_saved(self) -> int | None:
        """Tokens, sent and received, in the rounds of `rounds_saved`, or None if any of them are unknown."""
        used = [round_.usage for round_ in self._saved]
        if any(usage is None or usage.input is None or usage.output is None for usage in used):
            return None
        return sum((usage.input or 0) + (usage.output or 0) for usage in used if usage is not None)

    @cached_property
    def _saved(self) -> list[WorkflowRound]:
        last = self._last_replayed
        ends = last is not None and isinstance(last.verdict, Stop) and last.guard_decides
        return [round_.recorded for round_ in self.rounds if round_.would_be is None] if ends else []

    @cached_property
    def _last_replayed(self) -> ReplayedRound | None:
        return next((round_ for round_ in reversed(self.rounds) if round_.would_be is not None), None)

    @property
    def sentence(self) -> str:
        """Three sentences: the recorded outcome, the change in guidance, and the replayed end."""
        return f"{_outcome_sentence(self.recorded)} {_guidance_sentence(self)} {self.outcome_sentence}"

    @property
    def outcome_sentence(self) -> str:
        """The first divergence from the record, and the first round that could have caught a failure."""
        parting = self.first_divergence
        text = "The run would have gone as recorded" if parting is None else _parting(self, parting)
        if self.caught_at is not None and (parting is None or self.caught_at < parting.number):
            first = next(round_ for round_ in self.rounds if round_.caught_by)
            text = f"In round {self.caught_at}, the replay {', '.join(first.caught_by)}. {text}"
        return f"{text}."

    @property
    def caution(self) -> str:
        """Sentences about the limits of the replay."""
        parts = [f"Not replayed: {', '.join(self.not_replayed)}."]
        reworded, parting = self.first_told_otherwise, self.first_divergence
        if reworded is not None:
            parts.append("The recording does not show how the model would have replied to different guidance.")
        if parting is not None and any(round_.hypothetical for round_ in self.rounds):
            parts.append(f"Everything after round {parting.number} is hypothetical: the runs diverge there.")
        return " ".join(parts)

    def table(self) -> pd.DataFrame:
        """Return one row per recorded round, ``round`` from 1, with columns for the record and the replay; see
        docs/replay.md.
        """
        return table_of(self.rounds, _COLUMNS)

    def __repr__(self) -> str:
        return f"<Replay of {self.recorded.id} under {self.variant.sentence}: {self.outcome_sentence}>"


def differ(recorded: Decision, would_be: Decision) -> bool:
    """True if exactly one of them ends the run, and both are known."""
    are_known = recorded.continues is not None and would_be.continues is not None
    return are_known and recorded.continues is not would_be.continues


def _texts(guidance: Sequence[Guidance]) -> list[str]:
    return [item.text for item in guidance]


def _outcome_sentence(run: Run) -> str:
    if not run.rounds:
        return "The recording has no rounds."
    rounds = f"{len(run.rounds)} round{'s' * (len(run.rounds) != 1)}"
    if run.stop_reason is None:
        return f"The recording has {rounds} and does not say how the run ended."
    open_count = len(open_todos(run.todos))
    with_open = f", with {open_count} todo{'s' * (open_count != 1)} open" if open_count else ""
    return f"The run ended after {rounds} ({run.stop_reason}){with_open}."


def _guidance_sentence(replay: Replay) -> str:
    """Return a sentence about the guidance of the first request in which it differs."""
    first = replay.first_told_otherwise
    if first is None:
        return "The model would have received the same guidance."
    cells = cells_of(first.would_be.guidance) if first.would_be is not None else None
    reminder = f"a different reminder ({cells})" if cells else "no reminder"
    return f"From round {first.number} on, the model would have received {reminder}."


def _parting(replay: Replay, round_: ReplayedRound) -> str:
    blocked = [item for item in round_.judged_calls if item.blocked]
    where = f"in round {round_.number}"
    if blocked:
        return f"The policy would have blocked {blocked[0].call.name} {where} ({blocked[0].rule})"
    if round_.judged_calls:
        allowed = round_.judged_calls[0]
        return f"The policy would have allowed {allowed.call.name} {where}, which was blocked ({allowed.rule})"
    decision = round_.decision
    assert decision is not None, "a round that differs was decided on"
    if not decision.continues:
        remaining = sum(item.would_be is None for item in replay.rounds)
        more = f", {remaining} round{'s' * (remaining != 1)} before the recording ends" if remaining else ""
        return f"The run would have ended after round {round_.number} ({decision.reason}){more}"
    where = "where a person speaks in the recording" if round_.after_text == "person" else "where the recording ends"
    return f"The run would have continued after round {round_.number}, {where} ({decision.reason})"


def cells_of(guidance: Sequence[Guidance]) -> str | None:
    """Return the guidance cells as text, with levels above 1, or None if there is no guidance."""
    if not guidance:
        return None
    return ", ".join([f"{item.cell} ({item.level})" if item.level > 1 else item.cell for item in guidance])


def followed_all(followed: Sequence[Followed]) -> bool | None:
    """Return whether all guidance that could be judged was followed, or None if none could."""
    if not followed:
        return None
    judged = [verdict.followed for verdict in followed if verdict.followed is not None]
    return all(judged) if judged else None


def _calls(round_: ReplayedRound) -> str | None:
    return ", ".join([f"{judged.call.name}: {judged.rule}" for judged in round_.judged_calls if judged.blocked]) or None


def _would(value: Callable[[Decision], Any]) -> Callable[[ReplayedRound], Any]:
    return lambda round_: None if round_.decision is None else value(round_.decision)


_FOUR: dict[str, tuple[str, Callable[[Decision], Any]]] = {
    "tools": ("boolean", lambda decision: decision.tools),
    "open": ("Int64", lambda decision: decision.open),
    "mode": ("boolean", lambda decision: decision.mode),
    "continues": ("boolean", lambda decision: decision.continues),
    "reason": ("str", lambda decision: decision.reason or None),
}


def _recorded_value(value: Callable[[Decision], Any]) -> Callable[[ReplayedRound], Any]:
    return lambda round_: value(round_.recorded_decision)


_COLUMNS: dict[str, tuple[str, Callable[[ReplayedRound], Any]]] = {
    "round": ("Int64", lambda round_: round_.number),
    **{f"{name}_recorded": (dtype, _recorded_value(value)) for name, (dtype, value) in _FOUR.items()},
    **{f"{name}_would_be": (dtype, _would(value)) for name, (dtype, value) in _FOUR.items()},
    "blocked_would_be": ("str", _calls),
    "next_guidance_recorded": ("str", lambda round_: cells_of(round_.next_recorded)),
    "next_guidance_would_be": ("str", lambda round_: cells_of(round_.next_guidance)),
    "heeded": ("boolean", lambda round_: followed_all(round_.next_followed)),
    "after_text": ("str", lambda round_: round_.after_text),
    "not_knowable": ("str", lambda round_: None if round_.not_knowable is None else reason_of(round_.not_knowable)),
    "found": ("str", lambda round_: ", ".join([finding.rule for finding in round_.findings]) or None),
    "differs": ("boolean", lambda round_: round_.differs),
    "hypothetical": ("boolean", lambda round_: round_.hypothetical),
}
