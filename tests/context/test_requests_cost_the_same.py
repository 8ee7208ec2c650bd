"""Request preparation has constant cost: as many messages are handled late in a run as early.

The runs are those of the benchmark; counting needs no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchmark_scripts import load_benchmark

from agentnb.context import request_builder as conversation_module
from agentnb.context import truncation
from agentnb.context.request_builder import RequestBuilder
from agentnb.detect.run import Run
from agentnb.models import estimate
from agentnb.tools.read_result import SPEC

EARLY, LATE, AROUND = 50, 500, 30


BENCH = load_benchmark("requests")
SETTINGS: dict[str, Any] = BENCH.SETTINGS


class Counter:
    """Counts the handled messages, by function."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.counts: dict[str, int] = {}
        self._count(patch, RequestBuilder, "_put")
        self._count(patch, RequestBuilder, "_take")
        for module in (estimate, conversation_module):
            self._count(patch, module, "tokens_of_message")
        self._count(patch, truncation, "_without_calls", None)
        self._count(patch, conversation_module, "are_whole", None)

    def _count(self, patch: pytest.MonkeyPatch, place: Any, name: str, handled: int | None = 1) -> None:
        """Count calls; ``handled``: messages per call, None if it takes a list."""
        plain: Callable[..., Any] = getattr(place, name)
        self.counts[name] = 0

        def counted(*given: Any, **more: Any) -> Any:
            self.counts[name] += len(given[0]) if handled is None else handled
            return plain(*given, **more)

        patch.setattr(place, name, counted)

    def taken(self) -> dict[str, int]:
        """Return the counts since the last call."""
        counts = dict(self.counts)
        self.counts.update(dict.fromkeys(self.counts, 0))
        return counts


def counts_of_each(name: str, counter: Counter) -> list[dict[str, int]]:
    """Return the counts of each round of a run."""
    parts = BENCH.rounds(reported="reported" in name, failing="failed" in name)
    (started,) = next(parts)
    history = SETTINGS[name]
    run, conversation, counts = Run.from_events([started]), RequestBuilder("Be brief.", (SPEC,), {}, history=history), []
    for begun in parts:
        for event in begun:
            run.apply(event)
        counter.taken()
        BENCH.prepare(conversation, history, run)
        counts.append(counter.taken())
        for event in next(parts):
            run.apply(event)
    return counts


@pytest.mark.req("R0.29")
@pytest.mark.parametrize("name", SETTINGS)
def test_round_500_handles_as_many_messages_as_round_50(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counts_of_each(name, Counter(monkeypatch))
    for what in counts[0]:
        of_rounds = [one[what] for one in counts]
        early, late = (of_rounds[place - AROUND : place + AROUND] for place in (EARLY, LATE))
        assert sum(late) <= 1.1 * sum(early) + 2, what
        assert max(late) <= max(early) + 2, what
    assert sum(one["_put"] for one in counts) >= 2 * len(counts) - 2, "nothing was counted"


@pytest.mark.req("R0.76")
def test_benchmark_settings_all_take_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the counts would not cover compaction, truncation, omission or estimates."""
    counter = Counter(monkeypatch)
    total = {
        name: [sum(column) for column in zip(*map(dict.values, counts_of_each(name, counter)), strict=True)]
        for name in SETTINGS
    }
    by_name = {name: dict(zip(counter.counts, sums, strict=True)) for name, sums in total.items()}
    plain = by_name["full"]["_put"]
    assert by_name["full"]["tokens_of_message"] == 0 < by_name["auto, tokens reported"]["tokens_of_message"]
    assert by_name["auto, tokens estimated"]["tokens_of_message"] > 0
    assert by_name["truncated to 40 messages"]["_without_calls"] > 10 * plain
    for name in ("compacted above 30 messages", "failed rounds left out"):
        assert by_name[name]["_put"] > plain
