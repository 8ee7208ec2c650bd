"""Comparison of two runs: rounds with equal calls are paired, and the first differences named."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb import Run, ToolCall, diff, load_trace
from agentnb.core.log.events import Origin
from agentnb.core.usage import Usage
from agentnb.interchange.conversion.run_writer import RunWriter

Round = tuple[str, list[tuple[str, int]], str]


def run_of(*rounds: Round) -> Run:
    """Build a run from rounds of words, calls (a tool and a number) and result texts."""
    writer = RunWriter(Origin("by_hand"), model="m")
    writer.say("Go")
    for text, calls, result in rounds:
        writer.reply(text, [ToolCall(name, {"at": at}) for name, at in calls], usage=Usage(10, 5, cost=0.5))
        for _ in calls:
            writer.result("", result)
    return writer.finish()


LOOK: Round = ("I look.", [("look", 1)], "a hat")
DIG: Round = ("I dig.", [("dig", 1)], "a stone")
DONE: Round = ("Done.", [], "")


def pairs(a: Run, b: Run) -> list[tuple[int | None, int | None, str]]:
    rounds = diff(a, b).rounds
    return [
        (round_.a.index if round_.a else None, round_.b.index if round_.b else None, round_.difference) for round_ in rounds
    ]


def test_rounds_are_paired_by_their_calls(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[Round], list[Round], list[tuple[int | None, int | None, str]]]] = {
        "the same": ([LOOK, DONE], [LOOK, DONE], [(0, 0, "same"), (1, 1, "same")]),
        "other words": ([LOOK, DONE], [("Hm.", *LOOK[1:]), DONE], [(0, 0, "text"), (1, 1, "same")]),
        "other results": ([LOOK, DONE], [(*LOOK[:2], "nothing"), DONE], [(0, 0, "results"), (1, 1, "same")]),
        "other calls": ([LOOK, DONE], [DIG, DONE], [(0, 0, "calls"), (1, 1, "same")]),
        "one more": ([LOOK, DONE], [LOOK, DIG, DONE], [(0, 0, "same"), (None, 1, "only_b"), (1, 2, "same")]),
        "one less": ([LOOK, DIG, DONE], [LOOK, DONE], [(0, 0, "same"), (1, None, "only_a"), (2, 1, "same")]),
        "nothing": ([], [DONE], [(None, 0, "only_b")]),
    }
    for name, (a, b, expected) in cases.items():
        with subtests.test(name):
            assert pairs(run_of(*a), run_of(*b)) == expected


def test_result_that_failed_in_only_one_run_counts_as_different() -> None:
    runs = []
    for is_error in (False, True):
        writer = RunWriter(Origin("by_hand"), model="m")
        writer.say("Go")
        writer.reply("", [ToolCall("look", {})])
        writer.result("", "nothing", is_error=is_error)
        runs.append(writer.finish())
    assert pairs(runs[0], runs[1]) == [(0, 0, "results")] and pairs(runs[1], runs[1]) == [(0, 0, "same")]


def test_first_divergence_is_in_calls_or_results_not_text(snapshot: Snapshot) -> None:
    found = diff(run_of(LOOK, DIG, DONE), run_of(("Hm.", *LOOK[1:]), ("", [("dig", 2)], "a stone"), DONE))
    assert found.first_divergence is not None and found.first_divergence == found.rounds[1]
    assert found.sentence == snapshot
    same = diff(run_of(LOOK), run_of(("Hm.", *LOOK[1:])))
    assert same.first_divergence is None
    assert same.sentence == snapshot


def test_table_counts_rounds_from_1_and_omits_missing_ones() -> None:
    table = diff(run_of(LOOK, DONE), run_of(LOOK, DIG, DONE)).table()
    assert table["difference"].tolist() == ["same", "only_b", "same"]
    assert table["round_b"].tolist() == [1, 2, 3] and table["round_a"].isna().tolist() == [False, True, False]
    assert table["calls_b"][1] == 'dig({"at":1})' and table["cost_a"].isna().tolist() == [False, True, False]


def test_summary_compares_numbers_and_omits_unknown_ones() -> None:
    healthy, failed = load_trace("healthy"), load_trace("simple-fail")
    rows: dict[str, Any] = diff(healthy, failed).summary().set_index("what").to_dict("index")
    assert (rows["rounds"]["a"], rows["rounds"]["b"], rows["rounds"]["difference"]) == (9, 6, -3.0)
    assert rows["cost"]["a"] is None and rows["cost"]["difference"] != rows["cost"]["difference"]
    priced: dict[str, Any] = diff(run_of(LOOK), run_of(LOOK, DIG)).summary().set_index("what").to_dict("index")
    assert (priced["cost"]["difference"], priced["output_tokens"]["difference"]) == (0.5, 5.0)


@examples(40)
@given(st.lists(st.sampled_from([LOOK, DIG, DONE]), max_size=6), st.lists(st.sampled_from([LOOK, DIG, DONE]), max_size=6))
def test_rounds_of_both_runs_appear_once_in_order(a: list[Round], b: list[Round]) -> None:
    found = diff(run_of(*a), run_of(*b))
    assert [round_.a.index for round_ in found.rounds if round_.a] == list(range(len(a)))
    assert [round_.b.index for round_ in found.rounds if round_.b] == list(range(len(b)))
    assert (a == b) == all(round_.difference == "same" for round_ in found.rounds)
