"""Timelines: the findings of several detectors in one table."""

from __future__ import annotations

from run_builder import Calls

from agentnb.detect import timeline


def story() -> Calls:
    return Calls.of(["look"] * 5)


def test_findings_of_several_presets_are_in_chronological_order() -> None:
    table = timeline(story().run, ["default", "openhands", "opencode"])
    assert [(row["round"], row["preset"], row["rule"]) for _, row in table.iterrows()] == [
        (3, "default", "nothing_new"),
        (3, "opencode", "doom_loop"),
        (4, "openhands", "repeated_action_observation"),
    ]
    assert [*table.columns] == ["round", "preset", "rule", "family", "severity", "first", "last", "times", "sentence"]


def test_continuing_loop_has_one_row_with_its_last_severity() -> None:
    row = timeline(story().run).iloc[0]
    assert (row["round"], row["first"], row["last"], row["times"], row["severity"]) == (3, 1, 5, 3, "stop")


def test_run_without_findings_has_an_empty_table() -> None:
    table = timeline(Calls().call().run, "default")
    assert len(table) == 0 and [*table.dtypes] == [*timeline(story().run).dtypes]
