"""The loops table: repetitions, including those that did not end the run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from asserted_sentences import Snapshot
from scripted_runs import look, play, think

from agentnb import Run, tables
from agentnb.core.log.events import RoundFinished
from agentnb.core.messages import ToolCall
from agentnb.detect import Finding
from agentnb.policies import Matrix

ANSWER = "There are three hundred and forty-four penguins in the table, of three species."
FOUND = ["rule", "first", "last", "severity"]


run_of = partial(play, tools=[look, think], todos=False, prompt="Go")


def rows(run: Run) -> list[tuple[Any, ...]]:
    return list(tables.loops(run)[FOUND].itertuples(index=False, name=None))


def test_repeated_answer_appears_before_it_ends_the_run(snapshot: Snapshot) -> None:
    run = run_of(f"{ANSWER}\n[CONTINUE]", f"{ANSWER}\n[CONTINUE]", "Enough.")
    assert (run.stop_reason, rows(run)) == ("natural", [("already_said", 1, 2, "notice")])
    ended = run_of(*[f"{ANSWER}\n[CONTINUE]"] * 9)
    assert (ended.stop_reason, rows(ended)) == (
        "loop_detected",
        [("already_said", 1, 2, "notice"), ("already_said", 2, 3, "notice"), ("already_said", 3, 4, "stop")],
    )
    assert tables.loops(ended).sentence[0] == snapshot


def test_each_blocked_call_has_a_row(snapshot: Snapshot) -> None:
    run = run_of(*[ToolCall("look", {"n": 1})] * 4, "So.")
    assert rows(run) == [
        (record.rule, round_.index + 1, round_.index + 1, "block") for round_ in run.rounds[2:4] for record in round_.records
    ]
    assert tables.loops(run).sentence[0] == snapshot


def test_planning_that_triggers_an_intervention_is_a_row(snapshot: Snapshot) -> None:
    thoughts = [ToolCall("think", {"thought": f"{number}"}) for number in range(5)]
    run = run_of(ToolCall("look", {"n": 1}), *thoughts, ToolCall("look", {"n": 2}), "So.")
    assert rows(run) == [("planning_only", 2, 5, "nudge"), ("planning_only", 2, 6, "nudge")]
    assert tables.loops(run).sentence[0] == snapshot


class EachRound:
    """Finds something in every round."""

    def take(self, event: Any, run: Any) -> Iterable[Finding]:
        if isinstance(event, RoundFinished):
            yield Finding("mine", "loops", event.index, event.index, "notice", "Again.")


class Watched(Matrix):
    """Return the matrix policies with an own detector."""

    def rules(self, *given: Any, **how: Any) -> Any:
        bundle = super().rules(*given, **how)
        return bundle._replace(detectors=(*bundle.detectors, EachRound))


def test_finding_of_a_custom_detector_is_a_row() -> None:
    run = run_of(ToolCall("look", {"n": 1}), "So.", policy=Watched())
    assert rows(run) == [("mine", 1, 1, "notice"), ("mine", 2, 2, "notice")]


def test_each_finding_row_has_its_family() -> None:
    thoughts = [ToolCall("think", {"thought": f"{number}"}) for number in range(5)]
    planned = run_of(ToolCall("look", {"n": 1}), *thoughts, ToolCall("look", {"n": 2}), "So.")
    assert set(tables.loops(planned).family) == {"stall"}
    assert set(tables.loops(run_of(*[ToolCall("look", {"n": 1})] * 4, "So.")).family) == {"loop"}
    assert list(tables.loops(run_of("So.", policy=Watched())).family) == ["loops"], "detectors name their family"


def test_run_without_repeats_has_no_row() -> None:
    assert rows(run_of(ToolCall("look", {"n": 1}), ToolCall("look", {"n": 2}), "So.")) == []
