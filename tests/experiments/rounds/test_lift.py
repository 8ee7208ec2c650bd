"""Lift: an effect where sets were drawn by round, an association in other runs, and equal to plain code."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scripted_runs import agent_of, do, play, work

from agentnb import GuidanceSet, Matrix, RandomGuidance, Run, Store, lift
from agentnb.errors import SettingsError
from agentnb.experiments.rounds.lift import NO_OTHERS, OF_ASSOCIATION, OF_EFFECT, ONE_RUN
from agentnb.guidance.draws import draws_of

HALVES = {"off": 0.5, "matrix": 0.5}
WORKFLOW = Matrix(workflow_mode=True)
SAID = ("Nothing more.", "A.", "So.", "B.")


def after_work(number: int, words: Any, *said: str, **settings: Any) -> Run:
    """Build a run of one call and these answers under this guidance; workflow mode continues after each."""
    replies = [do(number), *said, "All is done.\n[WORKFLOW_COMPLETE]"]
    return play(*replies, tools=[work], guidance=words, policy=WORKFLOW, todos=False, **settings)


def of_kind(table: pd.DataFrame, kind: str = "workflow") -> dict[str, Any]:
    (row,) = table.query("kind == @kind and set == 'matrix'").to_dict("records")
    return row


def drawn_runs(count: int, sets: dict[Any, float] = HALVES) -> list[Run]:
    """Build runs that speak, work and speak regardless of guidance; some rounds work, some do not."""
    runs = []
    for task in range(count):
        replies = ["Hm.", do(task), "So.", "And.", do(task + 100), "Done.\n[WORKFLOW_COMPLETE]"]
        agent = agent_of(*replies, tools=[work], guidance=RandomGuidance(sets, "round", task), policy=WORKFLOW, todos=False)
        runs.append(agent.run_sync("Go", tags=[f"task:t{task % 20}"]))
    return runs


def test_effect_is_the_difference_of_weighted_means() -> None:
    """In plain code: does a call follow workflow-mode rounds more often under matrix than under off?"""
    runs = drawn_runs(30, {"off": 0.3, "matrix": 0.7})
    values = defaultdict(list)
    for run in runs:
        sets = {event.round: event.set for event in draws_of(run)}
        for round_ in run.rounds[1:]:
            if round_.reason == "workflow_mode":
                values[sets[round_.index]].append(bool(round_.records))
    row = of_kind(lift(runs, outcome="call_worked"))
    assert (row["judged"], row["judged_without"]) == (len(values["matrix"]), len(values["off"]))
    means = {name: sum(each) / len(each) for name, each in values.items()}
    assert (row["share"], row["anyway"]) == pytest.approx((means["matrix"], means["off"]))
    assert row["lift"] == pytest.approx(row["share"] - row["anyway"])
    assert row["lift_low"] < row["lift"] < row["lift_high"] and 0 < row["p_value"] <= row["p_adjusted"] <= 1
    assert (row["claim"], row["against"], row["trigger"], row["note"]) == ("effect", "off", "workflow_mode", OF_EFFECT)
    assert row["tasks"] == 20 and row["runs"] <= 30


def test_draws_of_several_designs_are_weighted_by_propensity() -> None:
    """Return rounds of runs with other propensities: each draw is weighted by the rounds it represents."""
    runs = [*drawn_runs(20, {"off": 0.2, "matrix": 0.8}), *drawn_runs(20, {"off": 0.8, "matrix": 0.2})]
    sums: dict[str, list[float]] = {"matrix": [0.0, 0.0], "off": [0.0, 0.0]}
    for run in runs:
        draws = {event.round: event for event in draws_of(run)}
        for round_ in run.rounds[1:]:
            if round_.reason == "tool_results":
                weight = 1 / draws[round_.index].propensity
                sums[draws[round_.index].set][0] += weight * bool(round_.records)
                sums[draws[round_.index].set][1] += weight
    row = of_kind(lift(runs, outcome="call_worked"), "tools")
    assert (row["share"], row["anyway"]) == pytest.approx(tuple(sums[name][0] / sums[name][1] for name in ("matrix", "off")))


def test_following_is_judged_identically_with_and_without_guidance() -> None:
    row = of_kind(lift(drawn_runs(30)))
    assert row["outcome"] == "followed" and 0 < row["share"] < 1 and 0 < row["anyway"] < 1
    rounds = [round_ for run in drawn_runs(30) for round_ in run.rounds if round_.reason == "workflow_mode"]
    assert row["judged"] + row["judged_without"] == len(rounds)
    told = [verdict.followed for round_ in rounds for guidance, verdict in zip(round_.guidance, round_.followed, strict=True)
            if guidance.cell == "workflow"]  # fmt: skip
    assert (len(told), sum(map(bool, told)) / len(told)) == (row["judged"], pytest.approx(row["share"]))


def test_no_loop_within_outcome_covers_the_next_rounds() -> None:
    runs = drawn_runs(10)
    same = "The table has three columns and twelve rows, and none of its values is missing."
    looping = [
        agent_of(do(1), same, same, same, same, guidance=RandomGuidance(HALVES, "round", seed), tools=[work], policy=WORKFLOW,
                 todos=False).run_sync("Go") for seed in range(10)
    ]  # fmt: skip
    near = lift(looping, outcome="no_loop_within_1")
    by_trigger = near.groupby("trigger")[["share", "anyway"]].mean()
    assert by_trigger.loc["tool_results"].eq(1).all(), "the first answer repeats nothing"
    assert by_trigger.loc["workflow_mode"].eq(0).all()
    assert lift(looping, outcome="no_loop_within_3")[["share", "anyway"]].eq(0).all().all()
    assert lift(runs, outcome="no_loop_within_3").query("kind == 'tools'")[["share", "anyway"]].eq(1).all().all()
    for name in ("no_loop_within_0", "no_loop", "folowed"):
        with pytest.raises(SettingsError, match=f"There is no near outcome '{name}'"):
            lift(runs, outcome=name)


def test_unknown_outcomes_are_counted_after_each_set() -> None:
    """A run that is cut short leaves its last rounds without the outcome; counted by hand."""
    runs = []
    for task in range(30):
        guidance = RandomGuidance(HALVES, "round", task)
        agent = agent_of(*SAID, "C.", tools=[work], guidance=guidance, policy=WORKFLOW, todos=False, max_rounds=4)
        runs.append(agent.run_sync("Go", tags=[f"task:t{task}"]))
    row = of_kind(lift(runs, outcome="no_loop_within_3"))
    lost: dict[str, int] = defaultdict(int)
    for run in runs:
        sets = {event.round: event.set for event in draws_of(run)}
        for round_ in run.rounds:
            lost[sets[round_.index]] += round_.reason == "workflow_mode" and round_.index + 3 > len(run.rounds)
    assert lost["matrix"] and lost["off"] and row["unknown"] == sum(lost.values())
    counts = f"{lost['matrix']} and {lost['off']} outcomes are unknown (after the set, after the other) and left out"
    assert f"; {counts}: if that depends on the set, the effect is biased" in row["note"]


def test_rounds_count_whichever_set_was_drawn() -> None:
    """Including runs whose drawn sets are all silent."""
    runs = drawn_runs(20, {"off": 0.9, "matrix": 0.1})
    assert any({event.set for event in draws_of(run)} == {"off"} for run in runs)
    rounds = [round_ for run in runs for round_ in run.rounds if round_.reason == "workflow_mode"]
    row = of_kind(lift(runs))
    assert row["judged"] + row["judged_without"] == len(rounds) and row["unknown"] == 0


def test_too_few_tasks_have_no_interval() -> None:
    table = lift(drawn_runs(5), outcome="call_worked")
    assert table["p_value"].isna().all() and table["lift_low"].isna().all() and len(table)
    reason = f"{OF_EFFECT}; no interval and no p_value (NaN): each set needs draws in 6 tasks"
    assert all(note.startswith(reason) for note in table["note"])


def test_sets_are_compared_with_the_first_wherever_either_has_text() -> None:
    brief = GuidanceSet("brief", {"workflow": "Go on.", "tools": ""})
    runs = drawn_runs(24, {"off": 0.25, brief: 0.25, "matrix": 0.5})
    table = lift(runs, outcome="call_worked")
    assert {*zip(table["set"], table["kind"], strict=True)} >= {
        ("brief", "workflow"),
        ("matrix", "workflow"),
        ("matrix", "tools"),
    }
    silent = table.query("set == 'brief' and kind == 'tools'")
    assert silent["judged"].eq(0).all() and silent["lift"].isna().all(), "neither brief nor off says anything after tools"
    assert silent["note"].str.contains("no lift (NaN): each set needs draws in 6 tasks", regex=False).all()
    assert table["p_adjusted"].dropna().ge(table["p_value"].dropna()).all()


def test_lift_of_a_store_equals_lift_of_its_runs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    agent = agent_of(*SAID, "[WORKFLOW_COMPLETE]", guidance=RandomGuidance(HALVES, "round", 1), tools=[work],
                     policy=WORKFLOW, todos=False)  # fmt: skip
    run = agent.run_sync("Go", store=store)
    pd.testing.assert_frame_equal(lift(tmp_path), lift([run]))


def test_lift_of_other_runs_is_an_association() -> None:
    guided = [after_work(1, "matrix"), after_work(2, "matrix", "I may do more of it, perhaps.")]
    bare = [after_work(1, "off", *SAID[:1]), after_work(2, "off", "A.", "So."), after_work(3, "off", "B.", "C.", "D.")]
    other = after_work(1, GuidanceSet("other", {"workflow": "Go on."}), "E.", "F.")  # its rounds do not lack this guidance
    row = of_kind(lift([*guided, *bare, other]))
    assert (row["set"], row["runs"], row["judged"], row["runs_without"], row["judged_without"]) == ("matrix", 1, 1, 3, 6)
    assert row["share"] == 1.0 and row["anyway"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert row["lift"] == pytest.approx(row["share"] - row["anyway"]) and row["lift_low"] < row["lift"] < row["lift_high"]
    assert (row["claim"], row["note"], row["against"]) == ("association", OF_ASSOCIATION, "")
    assert pd.isna(row["p_value"]) and pd.isna(row["tasks"])


def test_rate_of_a_single_run_explains_the_missing_interval() -> None:
    row = of_kind(lift([after_work(2, "matrix", "I may do more of it, perhaps."), after_work(2, "off", "A.", "So.")]))
    assert row["anyway"] == 0.5 and pd.isna(row["lift_low"]) and row["note"] == OF_ASSOCIATION + ONE_RUN


def test_draw_for_a_whole_run_yields_only_an_association() -> None:
    runs = [after_work(seed, RandomGuidance(HALVES, "run", seed), "A.", "B.") for seed in range(12)]
    row = of_kind(lift(runs))
    assert (row["claim"], row["note"]) == ("association", OF_ASSOCIATION) and row["runs"] + row["runs_without"] == 12


def test_lift_is_unknown_without_runs_lacking_the_guidance() -> None:
    table = lift([after_work(1, "matrix", "I may do more of it, perhaps."), after_work(1, "matrix")])
    assert len(table) and table["lift"].isna().all() and set(table["runs_without"]) == {0}
    assert set(table["note"]) == {NO_OTHERS}
    assert [*lift([]).columns] == [*table.columns]
    with pytest.deprecated_call(match="The column followed is now called share"):
        assert table["followed"].equals(table["share"])
