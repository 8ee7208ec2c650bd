"""A score for an entire run that combines repeated calls, repeated texts and cycles, like DeepEval's metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from agentnb.core.log.work_events import Severity
from agentnb.core.run.call_window import call_key
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.blocks.detector_bases import RoundDetector
from agentnb.detect.blocks.signatures import Key
from agentnb.detect.detector import Finding

WEIGHTS: Mapping[str, float] = MappingProxyType({"calls": 0.40, "texts": 0.35, "cycles": 0.25})
MAX_REMEMBERED = 512
"""Maximum calls counted. Like MAX_TEXTS, a bound that the original does not need, because it reads a finished trace."""
MAX_TEXTS = 64
MAX_COMPARED = 1_000


class CombinedScore(RoundDetector):
    """The weighted score of a run fell below ``passes``; 1 is a run without repeats.

    ``calls``: scores by the number of identical calls from which they apply. ``alike``: the similarities at which two texts
    score 0.5 and 0, by Jaccard of their word pairs or by characters, whichever is higher. A tool called inside itself is a
    cycle.
    """

    rule = "loop_score"

    def __init__(
        self,
        passes: float = 0.5,
        severity: Severity = "notice",
        *,
        calls: Mapping[int, float] = MappingProxyType({3: 0.5, 6: 0.0}),
        alike: tuple[float, float] = (0.85, 0.95),
        weights: Mapping[str, float] = WEIGHTS,
    ) -> None:
        self.passes, self.severity, self.calls, self.alike, self.weights = passes, severity, calls, alike, weights
        self._counts: dict[Key, int] = {}
        self._texts: list[tuple[str, frozenset[tuple[str, str]]]] = []
        self._scores = dict.fromkeys(weights, 1.0)
        self._has_found = False

    @property
    def score(self) -> float:
        """The score so far, 0 to 1."""
        return sum(self.weights[name] * score for name, score in self._scores.items())

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process a round. The run is reported once, in the round in which it fails."""
        for record in one.records:
            key = call_key(record.call)
            if key in self._counts or len(self._counts) < MAX_REMEMBERED:
                self._counts[key] = count = self._counts.get(key, 0) + 1
                reached = [score for threshold, score in self.calls.items() if count >= threshold]
                self._lower("calls", min(reached, default=1.0))
            if any(inner.call.name == record.call.name for inner in record.inner):
                self._lower("cycles", 0.0)
        self._compare(one.text.strip())
        if self._has_found or self.score >= self.passes:
            return ()
        self._has_found = True
        evidence: dict[str, Any] = {name: round(score, 2) for name, score in self._scores.items()}
        sentence = f"The loop score fell to {self.score:.2f}, below {self.passes:g}"
        return self.finding(0, one.index, self.severity, sentence, evidence)

    def _lower(self, name: str, score: float) -> None:
        self._scores[name] = min(self._scores[name], score)

    def _compare(self, text: str) -> None:
        if not text:
            return
        from rapidfuzz.distance import Indel

        text = text[:MAX_COMPARED]
        words = text.lower().split()
        pairs = frozenset(pairwise(words))
        for earlier, earlier_pairs in self._texts:
            union_size = len(pairs | earlier_pairs)
            similarity = max(
                len(pairs & earlier_pairs) / union_size if union_size else 0.0, Indel.normalized_similarity(text, earlier)
            )
            if similarity >= self.alike[0]:
                self._lower("texts", 0.0 if similarity > self.alike[1] else 0.5)
        self._texts = [*self._texts[1 - MAX_TEXTS :], (text, pairs)]
