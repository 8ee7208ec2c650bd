"""What a replay found: the rounds of a recorded run, and beside each what another policy would have made of it."""

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
from agentnb.detect.rules import ALREADY_SAID, FAILURE_LOOP
from agentnb.detect.run import Run
from agentnb.detect.scores import FAMILIES
from agentnb.policies.turn_rules import is_guard
from agentnb.policies.verdict import Stop, Verdict, reason_of
from agentnb.rerun.turn_endings import LOGGED, AfterText, TurnEnding
from agentnb.rerun.variant import Variant

if TYPE_CHECKING:
    import pandas as pd

CORRECTIVE = (ALREADY_SAID, FAILURE_LOOP)
"""Cells of guidance with which a guard answers a repeat or a failure. An intervention for open todos is discipline."""


class Decision(NamedTuple):
    """The four questions after a round: were tools called, are todos open, is workflow mode on, does the run continue?"""

    tools: bool
    open: int
    """Number of open todos."""
    mode: bool
    continues: bool | None
    """None if nothing decided it: the record breaks off, or the run was ended from outside."""
    reason: str
    """The reason of the next round, or why the run stopped; empty if the record does not say."""


class JudgedCall(NamedTuple):
    """A call that a gate would have judged in another way than the record shows."""

    call: ToolCall
    rule: str
    """The rule that would have blocked it; the recorded rule if it would have run."""
    blocked: bool
    """Whether it would have been blocked; if not, the record blocked it and its result is unknown."""


class ReplayedRound(msgspec.Struct, frozen=True, kw_only=True):
    """A round of the recorded run, and what would have been done. Rounds behind a would-be end have no ``would_be``."""

    recorded: WorkflowRound
    recorded_decision: Decision
    would_be: WorkflowRound | None = None
    """The round with the guidance that it would have had, and whether the recorded reply heeds it (``followed``)."""
    decision: Decision | None = None
    verdict: Verdict | None = None
    """What the policies say after it; None if they were not asked."""
    not_knowable: Verdict | None = None
    """Their verdict on the end of a turn that the record does not show; the replay does not follow it."""
    after_text: AfterText | None = None
    """What follows a reply without a tool call in the record of another product."""
    next_recorded: tuple[Guidance, ...] = ()
    """The guidance of the next request, as recorded."""
    next_guidance: tuple[Guidance, ...] = ()
    """The guidance that the next request would have had."""
    next_followed: tuple[Followed, ...] = ()
    """Whether the recorded next reply heeds each of these; empty if there is none."""
    judged_calls: tuple[JudgedCall, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What the detectors found in this round of the record."""
    ends_otherwise: bool = False
    """Whether one of record and replay ends here, or by a limit, and the other does not."""
    differs: bool = False
    """Whether a decision differs: a call blocked or not, the end of the run here or not."""
    hypothetical: bool = False
    """Whether it stands behind the first divergence, where the record no longer says what the model would have done."""

    @property
    def number(self) -> int:
        """The number of the round, counted from 1 as in tables."""
        return self.recorded.index + 1

    @property
    def is_told_otherwise(self) -> bool:
        """Whether its request would have had other guidance than it had."""
        return self.would_be is not None and _texts(self.would_be.guidance) != _texts(self.recorded.guidance)

    @property
    def caught_by(self) -> tuple[str, ...]:
        """What would have caught a failure here, in words; empty if nothing would."""
        had = {guidance.cell for guidance in self.next_recorded}
        corrective = dict.fromkeys(guidance.cell for guidance in self.next_guidance if guidance.cell in CORRECTIVE and guidance.cell not in had)
        blocked = dict.fromkeys(f"blocks {judged.call.name} ({judged.rule})" for judged in self.judged_calls if judged.blocked)
        decided = []
        loops = isinstance(self.verdict, Stop) and self.verdict.loop is not None
        if self.decision is not None and (loops or self.ends_otherwise) and self.guard_decides:
            decided = [f"{'continues' if self.decision.continues else 'ends'} ({self.decision.reason})"]
        relevant = [finding for finding in self.findings if finding.severity != "notice" or finding.family in FAMILIES]
        return (*blocked, *decided, *corrective, *dict.fromkeys(f"finds {finding.rule}" for finding in relevant))

    @property
    def guard_decides(self) -> bool:
        """Whether a guard, a limit or a detector decides after it, and not only the way in which turns end."""
        return self.verdict is not None and is_guard(self.verdict, after_calls=bool(self.recorded.records))


@dataclass(frozen=True)
class Replay:
    """A recorded run, replayed under a variant: `rounds` holds recorded beside would-be, `table` is a data frame.

    Nothing is called and nothing random happens: the same run and variant make the same replay. Time and money are not
    replayed: `not_replayed` says what else is not.
    """

    recorded: Run
    variant: Variant
    rounds: Sequence[ReplayedRound] = field(repr=False)
    """A `ReplayedRound` for each recorded round: ``recorded``, ``would_be``, both decisions, ``verdict``, ``next_guidance``,
    ``judged_calls``, ``findings``."""
    would_be: Run = field(repr=False)
    """The shadow of the run: the recorded replies and results, with the would-be guidance and reasons."""
    turn_ending: TurnEnding = LOGGED
    """How the recorded run ends its turns, inferred from the record: ``kind``, ``after_texts``, ``sentence``."""

    @property
    def not_replayed(self) -> tuple[str, ...]:
        """What the replay leaves out, such as time and money."""
        return self.variant.not_replayed

    @cached_property
    def first_divergence(self) -> ReplayedRound | None:
        """The first round in which a decision differs: a blocked call, or whether the run ends there; None without one."""
        return next((round_ for round_ in self.rounds if round_.differs), None)

    @cached_property
    def first_told_otherwise(self) -> ReplayedRound | None:
        """The first round whose request would have had other guidance; None if there is none."""
        return next((round_ for round_ in self.rounds if round_.is_told_otherwise), None)

    @cached_property
    def caught_at(self) -> int | None:
        """The first round, from 1, in which a guard, a limit or a detector would have caught a failure; None if none would.

        That is a block, an end, guidance on repeats or failures, or a finding; not an intervention for open todos.
        """
        return next((round_.number for round_ in self.rounds if round_.caught_by), None)

    @property
    def stop(self) -> Stop | None:
        """The verdict that would have ended the run; None if the record ends without one."""
        last = self._last_replayed
        return last.verdict if last is not None and isinstance(last.verdict, Stop) else None

    @property
    def rounds_saved(self) -> int:
        """How many recorded rounds come after the end that a guard, a limit or a detector would have brought."""
        return len(self._saved)

    @property
    def tokens_saved(self) -> int | None:
        """Tokens, sent and received, of the rounds in `rounds_saved`; None if one of them is unknown."""
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
        """What happened, what the model would have been told, and when the run would have ended: three sentences."""
        return f"{_happened(self.recorded)} {_told(self)} {self.outcome_sentence}"

    @property
    def outcome_sentence(self) -> str:
        """Where the replay first parts from the record, and where a failure could have been caught."""
        parting = self.first_divergence
        text = "It would have gone as recorded" if parting is None else _parting(self, parting)
        if self.caught_at is not None and (parting is None or self.caught_at < parting.number):
            first = next(round_ for round_ in self.rounds if round_.caught_by)
            text += f"; a failure could have been caught in round {self.caught_at}: {', '.join(first.caught_by)}"
        return f"{text}."

    @property
    def caution(self) -> str:
        """What the replay cannot know, in sentences."""
        parts = [f"Not replayed: {', '.join(self.not_replayed)}."]
        reworded, parting = self.first_told_otherwise, self.first_divergence
        if reworded is not None:
            parts.append("No record says what the model would have replied to other words.")
        if parting is not None and any(round_.hypothetical for round_ in self.rounds):
            parts.append(f"What stands behind round {parting.number} is hypothetical: there the runs part.")
        return " ".join(parts)

    def table(self) -> pd.DataFrame:
        """Return one row per recorded round, ``round`` from 1: recorded beside would-be, docs/replay.md says the columns."""
        import pandas as pd

        columns = {name: [value(round_) for round_ in self.rounds] for name, (_, value) in _COLUMNS.items()}
        return pd.DataFrame({name: pd.Series(values, dtype=_COLUMNS[name][0]) for name, values in columns.items()})

    def __repr__(self) -> str:
        return f"<Replay of {self.recorded.id} under {self.variant.sentence}: {self.outcome_sentence}>"


def differ(recorded: Decision, would_be: Decision) -> bool:
    """Return whether one continues and the other ends."""
    are_known = recorded.continues is not None and would_be.continues is not None
    return are_known and recorded.continues is not would_be.continues


def _texts(guidance: Sequence[Guidance]) -> list[str]:
    return [item.text for item in guidance]


def _happened(run: Run) -> str:
    if not run.rounds:
        return "The record has no rounds."
    rounds = f"{len(run.rounds)} round{'s' * (len(run.rounds) != 1)}"
    if run.stop_reason is None:
        return f"The record has {rounds} and no end."
    open_count = len(open_todos(run.todos))
    with_open = f", with {open_count} todo{'s' * (open_count != 1)} open" if open_count else ""
    return f"The run ended after {rounds} ({run.stop_reason}){with_open}."


def _told(replay: Replay) -> str:
    """Return the guidance that the first request with other words would have had."""
    first = replay.first_told_otherwise
    if first is None:
        return "The model would have been told the same."
    cells = cells_of(first.would_be.guidance) if first.would_be is not None else None
    return f"From round {first.number} on the model would have had {f'another reminder ({cells})' if cells else 'no reminder'}."


def _parting(replay: Replay, round_: ReplayedRound) -> str:
    blocked = [item for item in round_.judged_calls if item.blocked]
    where = f"in round {round_.number}"
    if blocked:
        return f"It would have blocked {blocked[0].call.name} {where} ({blocked[0].rule})"
    if round_.judged_calls:
        return f"It would have run {round_.judged_calls[0].call.name} {where}, which was blocked ({round_.judged_calls[0].rule})"
    decision = round_.decision
    assert decision is not None, "a round that differs was decided on"
    if not decision.continues:
        remaining = sum(item.would_be is None for item in replay.rounds)
        more = f", {remaining} round{'s' * (remaining != 1)} before the record ends" if remaining else ""
        return f"It would have ended after round {round_.number} ({decision.reason}){more}"
    where = "where a person speaks in the record" if round_.after_text == "person" else "where the record ends"
    return f"It would have continued after round {round_.number}, {where} ({decision.reason})"


def cells_of(guidance: Sequence[Guidance]) -> str | None:
    """Return the cells of guidance in words, with levels above 1; None without guidance."""
    if not guidance:
        return None
    return ", ".join([f"{item.cell} ({item.level})" if item.level > 1 else item.cell for item in guidance])


def heeded(followed: Sequence[Followed]) -> bool | None:
    """Return whether all guidance was followed that could be judged; None if none could."""
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


def _recorded(value: Callable[[Decision], Any]) -> Callable[[ReplayedRound], Any]:
    return lambda round_: value(round_.recorded_decision)


_COLUMNS: dict[str, tuple[str, Callable[[ReplayedRound], Any]]] = {
    "round": ("Int64", lambda round_: round_.number),
    **{f"{name}_recorded": (dtype, _recorded(value)) for name, (dtype, value) in _FOUR.items()},
    **{f"{name}_would_be": (dtype, _would(value)) for name, (dtype, value) in _FOUR.items()},
    "blocked_would_be": ("str", _calls),
    "next_guidance_recorded": ("str", lambda round_: cells_of(round_.next_recorded)),
    "next_guidance_would_be": ("str", lambda round_: cells_of(round_.next_guidance)),
    "heeded": ("boolean", lambda round_: heeded(round_.next_followed)),
    "after_text": ("str", lambda round_: round_.after_text),
    "not_knowable": ("str", lambda round_: None if round_.not_knowable is None else reason_of(round_.not_knowable)),
    "found": ("str", lambda round_: ", ".join([finding.rule for finding in round_.findings]) or None),
    "differs": ("boolean", lambda round_: round_.differs),
    "hypothetical": ("boolean", lambda round_: round_.hypothetical),
}
