"""Replies that repeat: near-identical texts, thoughts, and consecutive replies without a call."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message, ToolCall
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.answer_similarity import both_ends
from agentnb.detect.blocks.detector_bases import RoundDetector, RowDetector, is_new_input
from agentnb.detect.blocks.repeated_calls import thinking_of
from agentnb.detect.blocks.signatures import is_lost
from agentnb.detect.detector import Finding

MIN_CHARACTERS = 40
"""Minimum characters of a compared text; short ones may be alike by chance."""
MAX_COMPARED = 1_000
"""Maximum number of characters to compare, half of them at the end."""
MIN_SIMILARITY = 80.0
"""Similarity in per cent that makes texts near-identical; values from 75 to 90 give nearly the same findings in the labelled
traces."""
_NAMES = re.compile(r"\w*\d\w*|\b[A-Z]\w*|\w+(?:[./_-]\w+)+")
_WORDS = re.compile(r"\w+(?:[./_-]\w+)*")

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Turns texts into vectors, for comparison by meaning."""


class _Reply(NamedTuple):
    round: int
    text: str
    vector: Sequence[float] | None


class RepeatedText(RoundDetector):
    """Replies without a call that nearly repeat a recent text of the same author.

    A call without a recorded result counts as text. Reported from the ``repeats``-th repeat onwards within ``within`` replies.
    A text is compared with its author's last ``window`` texts by rapidfuzz: at ``alike`` per cent or more, they are the same,
    unless each has a name or a number that the other lacks, as when a form is filled in for each item of a list. ``embed``
    compares by meaning instead: ``alike`` is then 100 times the cosine of the vectors. From the ``stop_after``-th finding
    onwards, the severity is stop.
    """

    rule = "repeated_text"

    def __init__(
        self,
        repeats: int = 2,
        severity: Severity = "nudge",
        *,
        stop_after: int = 3,
        alike: float = MIN_SIMILARITY,
        window: int = 5,
        within: int = 12,
        embed: Embed | None = None,
        same_names: bool = True,
    ) -> None:
        self.repeats, self.severity, self.alike, self.stop_after = repeats, severity, alike, stop_after
        self.window, self.within, self.embed, self.same_names = window, within, embed, same_names
        self._replied: dict[str, deque[_Reply]] = {}
        self._replies = self._times = 0
        self._found: deque[tuple[int, int]] = deque(maxlen=max(repeats, 1))
        """For each of the most recent repeats, the number of its reply and the round that it repeats."""
        self._heard = ""

    def spoke(self, message: Message) -> None:
        """Forget earlier texts, unless the message is from another agent that only repeated itself."""
        if is_new_input(message, self._heard):
            self._replied.clear()
            self._found.clear()
            self._times = 0
        self._heard = message.text

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Compare a reply with its author's last texts, if it has no calls or only calls without recorded results."""
        if one.reply is None or not all(is_lost(record) for record in one.records):
            return ()
        text = "\n".join([one.text, *[_call_text(record.call) for record in one.records]]).strip()
        if not text:
            return ()
        self._replies += 1
        if len(text) < MIN_CHARACTERS:
            return ()
        text = both_ends(text, MAX_COMPARED)
        current = _Reply(one.index, text, self.embed([text])[0] if self.embed is not None else None)
        before = self._before(one.reply.author)
        repeated = next((old for old in reversed(before) if self._is_same(current, old)), None)
        before.append(current)
        if repeated is None:
            return ()
        self._found.append((self._replies, repeated.round))
        reply, first = self._found[0]
        if len(self._found) < self.repeats or self._replies - reply >= self.within:
            return ()
        self._times += 1
        severity = "stop" if self._times >= self.stop_after else self.severity
        sentence = f"Round {one.index + 1} nearly repeats round {repeated.round + 1}"
        if self.repeats > 1:
            sentence += f", one of {self.repeats} such repeats within {self.within} replies"
        return self.finding(min(first, repeated.round), one.index, severity, sentence, [repeated.text, text])

    def _before(self, author: str) -> deque[_Reply]:
        """Return an author's most recent texts, keeping at most 16 authors."""
        if author not in self._replied and len(self._replied) == 16:
            del self._replied[next(iter(self._replied))]
        return self._replied.setdefault(author, deque(maxlen=self.window))

    def _is_same(self, reply: _Reply, earlier: _Reply) -> bool:
        if reply.vector is not None and earlier.vector is not None:
            return 100 * cosine(reply.vector, earlier.vector) >= self.alike
        from rapidfuzz import fuzz

        if not fuzz.ratio(reply.text, earlier.text, score_cutoff=self.alike):
            return False
        return not self.same_names or has_same_names(reply.text, earlier.text)


def _call_text(call: ToolCall) -> str:
    """Return a call as the text that a reply would contain."""
    values = call.arguments.values() if isinstance(call.arguments, dict) else (call.arguments,)
    return "\n".join([call.name, *[value if isinstance(value, str) else repr(value) for value in values]])


def has_same_names(one: str, other: str) -> bool:
    """False if each text has a name, a number or a path that the other lacks."""
    if one == other:
        return True
    missing = [_names(text) - _words(reference) for text, reference in ((one, other), (other, one))]
    return not (missing[0] and missing[1])


def _names(text: str) -> set[str]:
    return {name.lower() for name in _NAMES.findall(text)}


def _words(text: str) -> set[str]:
    words = {word.lower() for word in _WORDS.findall(text)}
    return words | {part for word in words for part in re.split(r"[./_-]", word)}


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of two vectors; 0 if either is 0."""
    product = sum(x * y for x, y in zip(one, other, strict=True))
    size = (sum(x * x for x in one) * sum(y * y for y in other)) ** 0.5
    return product / size if size else 0.0


class UnheededMessage(RoundDetector):
    """Nearly the same message ``times`` times in a row, each after a reply without a call.

    Typical of agents that must act by calls, and whose replies are rejected as malformed. Runs that never called a tool are
    conversations, and are skipped.
    """

    rule = "unheeded_message"
    family = "stall"

    def __init__(self, times: int = 3, severity: Severity = "nudge", *, alike: float = MIN_SIMILARITY) -> None:
        self.times, self.severity, self.alike = times, severity, alike
        self._message = ""
        self._count = self._first = 0
        self._has_called = False
        self._heard: list[str] = []

    def spoke(self, message: Message) -> None:
        """Store a message, to be compared when the next round has finished."""
        self._heard = [*self._heard, message.text][-1:]

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Compare the message that this round answers with the previous one. A call ends the streak."""
        heard, self._heard = self._heard, []
        if heard:
            return self._take(heard[0], one, bool(one.records))
        if one.records:
            self._has_called, self._count, self._message = True, 0, ""
        return ()

    def _take(self, text: str, run_round: WorkflowRound, has_called: bool) -> tuple[Finding, ...]:
        is_same = self._is_same(text)
        self._count, self._first = (self._count + 1, self._first) if is_same else (1, run_round.index)
        count, self._message = self._count, text[:MAX_COMPARED]
        if has_called:
            self._has_called, self._count, self._message = True, 0, ""
        if count < self.times or not self._has_called:
            return ()
        sentence = f"Nearly the same message came {count} times in a row, and its replies called no tool"
        return self.finding(max(self._first - 1, 0), run_round.index, self.severity, sentence, text[:MAX_COMPARED])

    def _is_same(self, text: str) -> bool:
        if not self._message or len(text) < MIN_CHARACTERS:
            return False
        from rapidfuzz import fuzz

        return bool(fuzz.ratio(text[:MAX_COMPARED], self._message, score_cutoff=self.alike))


class RepeatedThought(RowDetector):
    """The same thinking ``times`` times in a row."""

    rule = "repeated_thought"

    _last = ""

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Compare a round's thinking with the previous one. A round without thinking leaves the streak as it is."""
        thought = thinking_of(one).strip()
        if not thought:
            return ()
        if thought != self._last:
            self._last, self._count = thought, 0
        return self._count_round(one, "The model repeated the same thought {} times in a row", thought[:MAX_COMPARED])


class Monologue(RowDetector):
    """``times`` consecutive replies without a call, with no message from the person between them."""

    rule = "monologue"
    family = "stall"

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Count a reply."""
        if one.records:
            self._count = 0
        if one.records or not one.text.strip():
            return ()
        return self._count_round(one, "{} replies in a row called no tool, with no message in between")
