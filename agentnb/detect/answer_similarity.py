"""Detection of repeated answers."""

from __future__ import annotations

import msgspec

MIN_CHARACTERS = 40
"""Minimum characters of a compared answer; short ones may be alike by chance."""
MIN_SIMILARITY = 90.0
"""Minimum similarity in per cent for two answers to count as the same."""
MAX_ANSWERS = 5
"""Number of earlier answers compared with a new one."""
MAX_COMPARED = 1_000
"""Maximum characters compared, half of them at the end; more would take longer than the rest of a round."""


def both_ends(text: str, most: int, *, between: str = "") -> str:
    """Truncate the middle of a text longer than ``most`` characters, putting ``between`` at the cut."""
    return text if len(text) <= most else f"{text[: most // 2]}{between}{text[-most // 2 :]}"


class Answers(msgspec.Struct, gc=False):
    """The most recent answers of a run."""

    _last: tuple[tuple[int, int, str], ...] = ()
    """Round, length and compared part of each answer."""

    def add(self, index: int, text: str) -> int | None:
        """Store this round's answer; return the newest of the last five rounds with nearly the same answer, if any."""
        text = text.strip()
        if len(text) < MIN_CHARACTERS:
            return None
        part = both_ends(text, MAX_COMPARED)
        similar_round = self._like(len(text), part)
        self._last = (*self._last[1 - MAX_ANSWERS :], (index, len(text), part))
        return similar_round

    def clear(self) -> None:
        """Forget all answers: once the person has sent a message, the same answer may be right."""
        self._last = ()

    def _like(self, length: int, text: str) -> int | None:
        if not self._last:
            return None
        from rapidfuzz import fuzz

        for index, length_before, before in reversed(self._last):
            longer, shorter = max(length, length_before), min(length, length_before)
            similar_length = longer <= MAX_COMPARED or 100 * shorter >= MIN_SIMILARITY * longer
            if similar_length and fuzz.ratio(text, before, score_cutoff=MIN_SIMILARITY):
                return index
        return None
