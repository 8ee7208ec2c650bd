"""Judging runs by hand: keys, saved judgements, and what the view hides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from run_builder import RunBuilder, called, guidance_of, todo

from agentnb import Run, agreement, label, labels, load_trace
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.display.card.html import run_html
from agentnb.display.lists.blind_view import FIRST, LAST, blind_html
from agentnb.errors import SettingsError, TraceError
from agentnb.notebook.labelling import _widget_class

ANSWER = "There are three hundred and forty-four penguins in the table, of three species."


def runs(count: int) -> list[Run]:
    return [RunBuilder(f"Task {number}", run_id=f"r-{number}").round(f"Done {number}.").run for number in range(count)]


def test_each_key_saves_a_judgement_and_advances(snapshot: Snapshot) -> None:
    path = Path("labels.csv")
    bench = label(runs(4), path)
    assert not path.exists() and bench.told == "Run 1 of 4, 0 judged"
    bench.judge(2)
    assert labels(path)[["run_id", "label"]].to_numpy().tolist() == [["r-0", 1]]
    bench.go(bench.place + 1)
    bench.judge(1)
    assert bench.place == 3
    bench.judge(1)
    assert bench.place == 1  # the skipped run
    bench.judge(1)
    assert bench.place == 1 and bench.told == snapshot
    bench.go(99)
    assert bench.place == 3
    bench.go(-5)
    assert bench.place == 0
    with pytest.raises(SettingsError, match="Choose 1 to 2"):
        bench.judge(3)
    assert {**labels(path).set_index("run_id").label} == {"r-0": 1, "r-1": 0, "r-2": 0, "r-3": 0}


def test_undo_restores_one_judgement_at_a_time() -> None:
    bench = label(runs(3), "labels.jsonl")
    bench.judge(1)
    bench.judge(2)
    bench.go(0)
    bench.judge(2)  # a revised judgement of the first
    bench.undo()
    assert bench.place == 0 and bench.given == {"r-0": 0, "r-1": 1}
    bench.undo()
    assert bench.place == 1 and bench.given == {"r-0": 0}
    bench.undo()
    assert bench.given == {} and len(labels("labels.jsonl")) == 0
    with pytest.raises(SettingsError, match="no judgement to undo"):
        bench.undo()


def test_next_call_continues_where_this_person_left_off() -> None:
    first = label(runs(3), who="ada", labels={"fine": 0, "loop": 1, "gave up": 1})
    first.judge(2)
    assert label(runs(3), who="ada").place == 1
    other = label(runs(3), who="bob", labels=["good", "bad"])
    assert other.place == 0
    other.judge(2)
    assert labels("labels.csv")[["label", "who"]].to_numpy().tolist() == [["1", "ada"], ["bad", "bob"]]


def test_invalid_subject_is_refused_before_anything_is_written() -> None:
    for wrong in (["one"], {}, "yes", {"a": 1.5, "b": 2}, {"a": "", "b": 1}, [str(number) for number in range(10)]):
        with pytest.raises(SettingsError, match="two to nine labels"):
            label(runs(1), labels=wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="nothing to judge"):
        label([])
    Path("labels.csv").write_text("name\nada\n")
    with pytest.raises(TraceError, match="columns other than"):
        label(runs(1))
    assert Path("labels.csv").read_text() == "name\nada\n"


def test_labelling_view_hides_findings_guidance_and_policy() -> None:
    finding = {"rule": "secret_rule", "family": "secret_family", "first": 0, "last": 1, "sentence": "secret sentence"}
    loop = {"rule": "secret_loop", "sentence": "secret loop", "severity": "stop", "first": 0, "last": 2}
    built = RunBuilder("Count the penguins").round(called("look"), after=(todo(1), todo(2)))
    built.round(ANSWER, guidance=[guidance_of("text", "secret guidance")], facts=[(w.FindingMade, finding)])
    built.round(ANSWER, reason="continued", guidance=[guidance_of("already_said", "secret guidance")], status="todo_nudge")
    built.add(e.LoopDetected, **loop).add(e.RunFinished, status="stopped", stop_reason="loop_detected")
    run = built.run
    hints = ("repeated the answer", "guidance", "secret", "loop", "text-only reply")
    assert all(word in run_html(run) for word in ("repeated the answer", "loop"))
    shown = blind_html(run)
    assert not [word for word in hints if word in shown]
    assert shown.count(ANSWER) == 2 and "Count the penguins" in shown and "look" in shown
    assert "repeated" not in blind_html(load_trace("complex-fails"))


def test_long_run_shows_its_first_and_last_rounds() -> None:
    built = RunBuilder()
    for number in range(FIRST + LAST + 7):
        built.round(called("look", at=number))
    assert "7 rounds not shown" in blind_html(built.run) and blind_html(built.run).count("data-round") == FIRST + LAST


def test_message_for_another_run_is_ignored() -> None:
    bench = label(runs(3))
    bench._widget = _widget_class()(words=[*bench.labels])
    bench.go(0)
    for _ in range(2):  # a key pressed twice before the next run appeared
        bench._do({"do": "judge", "number": 2, "place": 0})
    assert bench.given == {"r-0": 1} and bench._widget.place == 1 and "Task 1" in bench._widget.html
    bench._do({"do": "judge", "number": 7, "place": 1})
    assert "Choose 1 to 2" in bench._widget.error
    bench._do({"do": "undo", "place": 1})
    assert bench._widget.error == "" and bench._widget.place == 0 and bench._widget.chosen == 0
    for odd in ({}, {"do": "judge", "place": 0}, {"do": ["x"], "place": 0}):
        bench._do(odd)
    assert bench.given == {} and json.dumps(bench._widget.told)
    bench.close()


def told(number: int) -> Run:
    """Return a run with three reminders; one of them has no request."""
    tale = RunBuilder(f"Task {number}", run_id=f"r-{number}").round("First.")
    return (
        tale.round("Second.", guidance=[guidance_of("text", "Call a tool."), guidance_of("todo_list", "The list.")])
        .round("Third.", guidance=[guidance_of("tools", "Say what came.")])
        .run
    )


def test_reminders_are_judged_individually_with_their_reply() -> None:
    bench = label([told(0), told(1)], "labels.csv", followed=True)
    assert bench.told == "Reminder 1 of 4, 0 judged" and [subject.reminder for subject in bench.subjects] == ["2.1", "3.1"] * 2
    shown = bench.subjects[0].html
    assert shown.index("First.") < shown.index("Call a tool.") < shown.index("Second.")
    assert "Third." not in shown and "Say what came." not in shown and "did not follow" not in shown
    bench.judge(1)
    bench.judge(2)
    assert labels("labels.csv")[["run_id", "label", "word", "reminder"]].to_numpy().tolist() == [
        ["r-0", 1, "followed", "2.1"],
        ["r-0", 0, "not followed", "3.1"],
    ]
    assert label([told(0), told(1)], "labels.csv", followed=True).told == "Reminder 3 of 4, 2 judged"
    with pytest.raises(SettingsError, match="nothing to judge"):
        label(runs(1), "labels.csv", followed=True)


def of_variants(count: int) -> list[Run]:
    return [
        RunBuilder(f"Task {number}", run_id=f"{arm}-{number}", tags=(f"variant:{arm}",)).round(f"Done {number}.").run
        for arm in ("secret_old", "secret_new")
        for number in range(count)
    ]


def test_sample_is_stratified_and_its_order_hides_the_variant() -> None:
    runs = of_variants(40)
    drawn = {seed: [subject.run.id for subject in label(runs, sample=10, seed=seed).subjects] for seed in range(40)}
    for order in drawn.values():
        assert sorted(run_id[:10] for run_id in order) == ["secret_new"] * 10 + ["secret_old"] * 10
    first = [sum(order[place].startswith("secret_old") for order in drawn.values()) for place in range(20)]
    assert all(6 <= count <= 34 for count in first), "each place has either variant: of 40 at 1/2, within 99.9 per cent"
    times = [sum(run.id in order for order in drawn.values()) for run in runs]
    assert min(times) >= 1 and max(times) <= 22, "each run is drawn as often: of 40 at 1/4, within 99.9 per cent"
    assert [subject.run.id for subject in label(reversed(runs), sample=10, who="bob").subjects] == drawn[0], (
        "the same for each person"
    )
    assert len(label(runs, sample=100).subjects) == len(label(runs).subjects) == 80


def test_labelling_view_never_reveals_the_variant() -> None:
    bench = label(of_variants(3), sample=2)
    bench._widget = _widget_class()(words=[*bench.labels])
    bench.go(0)
    for _ in range(4):
        text = f"{bench._widget.html}{bench._widget.told}{bench.told}{bench!r}"
        assert "secret" not in text and "Task" in text
        bench.judge(1)
    bench.close()
    with pytest.raises(SettingsError, match="must be a number of runs"):
        label(of_variants(1), sample=0)


def test_several_people_judge_one_sample_and_agreement_is_computed() -> None:
    for who, wrong in (("ada", ()), ("bob", (3,))):
        bench = label(of_variants(10), "labels.csv", sample=5, who=who)
        for place in range(10):
            bench.judge(1 + ((place % 2 == 0) != (place in wrong)))
    result = agreement("labels.csv")
    assert (result.subjects, result.people) == (10, 2) and 0.5 < result.alpha < 1
    assert agreement(labels("labels.csv")) == result
