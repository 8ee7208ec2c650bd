"""`make scores`: the guidance ledger compared with the personas' own records and with labels by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmark_scripts import load_benchmark

from agentnb import label, save_trace
from agentnb.models.simulated.personas import FAULTS

BENCH = load_benchmark("followed")


def test_ledger_agrees_with_personas_about_each_kind_of_guidance(subtests: pytest.Subtests) -> None:
    for who in (*[fault.persona for fault in FAULTS], BENCH.KEPT_OUT):
        found = [one for seed in range(16) for one in BENCH.recorded(BENCH.run_of(who, seed), who)]
        assert {one.heeded for one in found} == {True, False}
        for kind, count in Counter(one.kind for one in found).items():
            if count >= BENCH.ENOUGH:
                with subtests.test(f"{who}, {kind}"):
                    assert sum(one.heeded == one.followed for one in found if one.kind == kind) / count >= 0.9


def test_persona_runs_more_seeds_until_each_kind_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BENCH, "MIN_SEEDS", 1)
    monkeypatch.setattr(BENCH, "run_of", lambda who, seed: seed)
    monkeypatch.setattr(BENCH, "recorded", lambda run, who: [BENCH.Verdicts("text", who, True, run % 2 == 0)] * 8)
    assert len(BENCH.of_persona("chatty", 99)) == 24 and len(BENCH.of_persona("chatty", 2)) == 16
    lines = BENCH.table(BENCH.of_persona("chatty", 99)).splitlines()
    assert lines[1].split() == ["text", "chatty", "24", "24", "16", "0.67", "(0.47-0.82)"]
    assert BENCH.table(BENCH.of_persona("chatty", 2)).endswith("few")


def test_reminder_labels_are_compared_with_the_ledger(tmp_path: Path) -> None:
    run = BENCH.run_of("chatty", 0)
    save_trace(run, tmp_path / "run.jsonl")
    bench = label(tmp_path, followed=True, who="ada")
    first = bench.subjects[0].run.rounds[1].followed[0].followed
    for number in (1, 2):
        bench.judge(number)
    found = [*BENCH.labelled(tmp_path)]
    assert [(one.who, one.heeded) for one in found] == [("ada", True), ("ada", False)]
    assert found[0].followed is first and found[0].kind == run.rounds[1].guidance[0].cell
    assert [*BENCH.labelled(tmp_path / "none")] == []
