"""Inference of how a recorded run ends its turns, from the events after its text-only replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from agentnb.detect.run import Run
from agentnb.detect.walk import RoundEvents

AfterText: TypeAlias = Literal["end", "person", "harness", "agent", "same_agent"]
"""Successor of a reply without a tool call: the end of the record, a message from a person or the harness, or another reply."""
TurnKind: TypeAlias = Literal["end", "person", "harness", "agent", "same_agent", "calls", "logged"]
"""Most frequent successor of such replies, or ``agent`` if another agent follows any of them. ``calls``: every reply
has a call. ``logged``: a run of agentnb, whose policy decides.
"""
GOES_ON: tuple[AfterText, ...] = ("agent", "same_agent", "harness")
"""Successors of a reply that did not end the turn."""
_WORDS: dict[AfterText, str] = {
    "agent": "another agent speaks",
    "same_agent": "the same agent continues",
    "harness": "the harness answers",
    "person": "a person speaks",
    "end": "the recording ends",
}
_LEADS: dict[TurnKind, str] = {
    "end": "A reply without a tool call ends the run",
    "person": "A reply without a tool call ends the turn",
    **dict.fromkeys(GOES_ON, "A reply without a tool call does not end the run"),
    "calls": "Each reply has a tool call: the run ends with one, or from outside",
    "logged": "Turns end as the policy says",
}


class TurnEnding(msgspec.Struct, frozen=True):
    """A recorded run's way of ending its turns, and the evidence."""

    kind: TurnKind
    after_texts: Mapping[AfterText, tuple[int, ...]] = {}
    """Numbers, from 1, of the rounds without a tool call, by successor."""

    @property
    def by_text(self) -> bool:
        """True if a reply without a tool call ends a turn."""
        return self.kind not in GOES_ON

    @property
    def sentence(self) -> str:
        """A sentence about the ends of turns, with the number of text-only replies."""
        parts = [
            f"after {len(numbers):,} such {'replies' if len(numbers) > 1 else 'reply'} "
            f"({'from ' if len(numbers) > 1 else ''}round {numbers[0]}) {_WORDS[after]}"
            for after, numbers in self.after_texts.items()
        ]
        return f"{_LEADS[self.kind]}{': ' if parts else ''}{', '.join(parts)}."


LOGGED = TurnEnding("logged")


def infer_turn_ending(after_rounds: Iterable[AfterText | None]) -> TurnEnding:
    """Infer how turns end from the result of `after_texts`."""
    numbers: dict[AfterText, list[int]] = {name: [] for name in _WORDS}
    for number, name in enumerate(after_rounds, 1):
        if name is not None:
            numbers[name].append(number)
    evidence: dict[AfterText, tuple[int, ...]] = {name: tuple(rounds) for name, rounds in numbers.items() if rounds}
    if not evidence:
        return TurnEnding("calls")
    # Another agent anywhere indicates a team, and a reply with a successor is better evidence than the last one.
    most: AfterText = max(evidence, key=lambda name: 0 if name == "end" else len(evidence[name]))
    return TurnEnding("agent" if "agent" in evidence else most, evidence)


def after_texts(run: Run, walked: Sequence[RoundEvents]) -> list[AfterText | None]:
    """Return the successor of each round in another product's run, or None for rounds with tool calls or without a reply."""
    by_index = {round_.index: round_ for round_ in run.rounds}
    rounds = [by_index[round_.start.index] for round_ in walked]
    persons = {"", _prompt_author(run)}
    after: list[AfterText | None] = []
    for position, round_ in enumerate(rounds):
        if round_.records or round_.reply is None:
            after.append(None)
        elif position + 1 == len(rounds):
            after.append("end")
        else:
            speakers = {event.user_message.author for event in walked[position + 1].before if event.user_message is not None}
            next_reply = rounds[position + 1].reply
            if speakers:
                after.append("person" if speakers & persons else "harness")
            else:
                changes = next_reply is not None and next_reply.author != round_.reply.author
                after.append("agent" if changes else "same_agent")
    return after


def _prompt_author(run: Run) -> str:
    return run.messages[run.inherited].author
