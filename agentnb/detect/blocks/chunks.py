"""Text that repeats itself: the same chunk again and again, close together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.blocks.detector_bases import RoundDetector
from agentnb.detect.detector import Finding

_FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
_STRUCTURE = re.compile(r"^\s*(?:\|.*\||[|+-]{3,}|[*+-]\s.*|\d+\.\s.*|#{1,6}\s.*|>.*)$", re.MULTILINE)
"""Lines of tables, lists, headings and quotes: they naturally begin alike, so the search restarts after them."""


class RepeatedChunks(RoundDetector):
    """A chunk of ``size`` characters that occurs ``times`` times in the last ``history`` characters of a reply.

    Occurrences are at most ``mean_gap`` characters apart on average, with at most ``periods`` different texts between them.
    Code blocks are skipped; tables, lists, headings and quotes restart the search.
    """

    rule = "repeated_chunk"

    def __init__(
        self,
        size: int = 50,
        times: int = 10,
        severity: Severity = "nudge",
        *,
        then: Severity | None = None,
        mean_gap: float = 250.0,
        periods: int = 5,
        history: int = 5_000,
    ) -> None:
        self.size, self.times, self.severity, self.then = size, times, severity, then or severity
        self.mean_gap, self.periods, self.history = mean_gap, periods, history
        self._has_found = False

    def spoke(self, message: Message) -> None:
        """Reset: the next finding counts as the first."""
        self._has_found = False

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Search the text of a reply."""
        text = one.text
        if len(text) < self.size * 2:
            return ()
        chunk = next((repeated for prose in self._prose(text) if (repeated := self._find_repeated(prose))), "")
        if not chunk:
            return ()
        severity, self._has_found = (self.then if self._has_found else self.severity), True
        sentence = f"The reply of round {one.index + 1} repeats the same {self.size} characters {self.times} times or more"
        return self.finding(one.index, one.index, severity, sentence, chunk)

    def _prose(self, text: str) -> Iterator[str]:
        for number, part in enumerate(_FENCE.split(text)):
            if number % 2 == 0:  # odd parts are inside fences
                yield from (piece[-self.history :] for piece in _STRUCTURE.split(part))

    def _find_repeated(self, text: str) -> str:
        """Return a chunk that repeats too often, or ""."""
        positions_by_chunk: dict[str, list[int]] = {}
        for start in range(len(text) - self.size + 1):
            chunk = text[start : start + self.size]
            positions = positions_by_chunk.setdefault(chunk, [])
            positions.append(start)
            if len(positions) >= self.times and self._is_close(text, positions[-self.times :]):
                return chunk
        return ""

    def _is_close(self, text: str, at: list[int]) -> bool:
        if (at[-1] - at[0]) / (len(at) - 1) > self.mean_gap:
            return False
        between = {text[start:end] for start, end in pairwise(at)}
        return len(between) <= self.periods
