"""Expectations: conditions for a run, and the round that broke them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from run_builder import RunBuilder, called, guidance_of

from agentnb import Agent, Run, detect, expect, load_trace, save_trace, tables
from agentnb.agent.extension import check_extensions
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.todos import Todo
from agentnb.detect import presets
from agentnb.errors import ExpectationFailed, ExpressionError, SettingsError
from agentnb.models import ScriptedModel
from agentnb.rerun.expect import Outcome, check_logged, check_steps, expectations_extension, logged_outcomes, outcomes_of
from agentnb.rerun.run_values import NAMES, RunValues, after_each_round, at_the_end

ANSWER = "There are three hundred and forty-four penguins in the table, of three species."


def outcome(run: Run, expectation: Any) -> Outcome:
    (found,) = outcomes_of(run, [expectation])
    return found


def searching(*counts: int, **fields: Any) -> Run:
    """Build a run with a round per count, of this many searches, and a last round that reports it."""
    built = RunBuilder(**fields)
    for count in counts:
        built.round(*[called("web_search", q=f"{built.round_count}-{n}") for n in range(count)])
    return built.round("Found.").run


@pytest.mark.req("R0.32", "R0.85", "R0.86")
def test_example_failures_break_expectations_in_the_expected_rounds() -> None:
    healthy = ("todos_closed", "max_consecutive_assistant <= 1", "loops == 0")
    broken = {}
    for name in ("complex-fails", "simple-fail", "didnt-close-out", "healthy"):
        run = load_trace(name)
        broken[name] = {one.expectation: one.round for one in outcomes_of(run, healthy) if not one.holds}
    assert broken == {
        "complex-fails": {"max_consecutive_assistant <= 1": 4, "loops == 0": 4},
        "simple-fail": {"todos_closed": 1},
        "didnt-close-out": {"todos_closed": 1},
        "healthy": {},
    }
    run = load_trace("healthy")
    assert expect(run, *healthy) is run
    assert outcome(load_trace("complex-fails"), "max_consecutive_assistant == 5").holds


def test_error_names_each_failed_expectation_with_value_and_round() -> None:
    run = load_trace("complex-fails")
    with pytest.raises(ExpectationFailed) as failed:
        expect(run, "loops == 0", "todos_closed", 'calls["web_search"] <= 3')
    assert str(failed.value).splitlines() == [
        f"Run {run.id} is not as expected:",
        "  loops == 0: loops is 4, broken in round 4",
        "  calls[\"web_search\"] <= 3: calls['web_search'] is 4, broken in round 2",
        "See round 2: run.rounds[1]",
    ]
    assert isinstance(failed.value, AssertionError) and failed.value.run is run
    assert [one.round for one in failed.value.failed[run.id]] == [4, 2]


@pytest.mark.req("R0.32", "R0.81")
def test_findings_of_a_preset_can_be_expected_of_any_run(subtests: pytest.Subtests) -> None:
    run = load_trace("complex-fails")
    assert not run.findings
    cases = {
        "detected.default.loop == 0": ("detected.default.loop is 3", 5),
        "detected.default.repeated_text == 0": ("detected.default.repeated_text is 3", 5),
        "detected.openhands.all == 0": ("detected.openhands.all is 1", 5),
        "detected.openhands.monologue == 0 && rounds < 99": ("detected.openhands.monologue is 1, rounds is 7", 5),
        'detected.naive_row["loop"] == 0 && detected.default.stall == 0': ("", None),
        "detected.langgraph.all + detected.langgraph.limit == 0": ("", None),
    }
    for expectation, (value, broke) in cases.items():
        with subtests.test(expectation):
            found = outcome(run, expectation)
            assert (found.holds, found.round) == (broke is None, broke) and (not value or found.found == value)
    for name in presets.names():
        rows = detect.timeline(run, name)
        assert outcome(run, f"detected.{name}.all == {len(rows)}").holds
        for family, count in rows["family"].value_counts().items():
            assert outcome(run, f"detected.{name}.{family} == {count}").holds
        assert {*rows["rule"]} <= {*presets.describe(name).rule_names}
    assert expect(load_trace("healthy"), "detected.default.loop == 0", "loops == 0")


def test_unknown_preset_or_rule_is_refused_before_reading_runs(subtests: pytest.Subtests) -> None:
    wrong = {
        "detected.openhand.all == 0": "detected has no openhand. Did you mean openhands",
        'detected.default["nothing_nwe"] == 0': "has no nothing_nwe. Did you mean nothing_new?",
        "1 == 2 && detected.qwen.loops == 0": "detected.qwen has no loops. Did you mean loop?",
        "detected.all.default == 0": "detected has no all",
    }
    for expectation, told in wrong.items():
        with subtests.test(expectation), pytest.raises(ExpressionError) as caught:
            expect("no/such/folder", expectation)
        assert told in str(caught.value)


def test_reported_round_is_where_the_expectation_became_false_for_good(subtests: pytest.Subtests) -> None:
    one, two = Todo(1, "one"), Todo(2, "two")
    built = RunBuilder()
    built.round("a", called("write"), after=(one,))
    built.round("b", called("write"), after=(Todo(1, "one", "completed"),))
    built.round("c", called("write"), after=(Todo(1, "one", "completed"), two))
    run = built.round("d").add(e.RunFinished, status="completed", stop_reason="natural").run
    for expectation, broke in {
        "todos_closed": 3,  # still open after round 1, closed after round 2
        "rounds < 3": 3,
        "tool_calls == 2": 3,
        "rounds > 9": None,  # it never held
        'status == "failed"': 4,
        'text != "d"': 4,
    }.items():
        with subtests.test(expectation):
            found = outcome(run, expectation)
            assert not found.holds and found.round == broke
    assert "and it never held" in outcome(run, "rounds > 9").sentence
    assert "at the end, after round 4" in outcome(run, 'status == "failed"').sentence


def test_expectation_names_have_the_same_values_as_the_tables(subtests: pytest.Subtests) -> None:
    for name in ("complex-fails", "simple-fail", "healthy"):
        run = load_trace(name)
        row = tables.runs(run).iloc[0]
        values = RunValues(at_the_end(run))
        for column in ("rounds", "tool_calls", "tool_errors", "status"):
            with subtests.test(name, column=column):
                assert values[column] == row[column]
        assert values["loops"] == (tables.loops(run).family == "loop").sum()


def test_guidance_calls_errors_and_findings_are_counted() -> None:
    said = guidance_of("tools", "Call a tool.")
    built = RunBuilder().round(called("look"), called("look"), called("find"), error_code="tool_error")
    built.round(called("look"), guidance=[said]).round("Nothing.", guidance=[guidance_of("text", "Go on.")])
    run = built.run
    expect(
        run,
        "tool_calls == 4 && tool_errors == 3 && calls_blocked == 0",
        "guidance_given == 2 && guidance_followed == 1 && followed_rate == 0.5",
        'calls["look"] == 3 && calls.find == 1 && "find" in tools && "delete" not in tools',
        "findings.loop == 0 && findings.discipline == 0",
    )
    assert outcome(run, "tools[0] == 'look' && len(tools) == 2").holds


def test_unknown_value_makes_any_comparison_fail(subtests: pytest.Subtests) -> None:
    run = load_trace("healthy")
    for expectation, name in {
        "cost < 0.5": "cost",
        "cost != 7": "cost",
        "!(cost > 1)": "cost",
        "cost == null": "cost",
        "input_tokens < 1000": "input_tokens",
        "seconds < 1e9 || true": "seconds",
        "followed_rate >= 0": "followed_rate",
        "guidance_given == 0": "guidance_given",
    }.items():
        with subtests.test(expectation):
            found = outcome(run, expectation)
            assert found.holds is (not name)
            assert not name or f"{name} is not known" in found.found
    assert outcome(run, "rounds > 0 || cost < 1").holds  # the file is not read


def test_impossible_expectation_is_refused_before_reading_any_run(subtests: pytest.Subtests) -> None:
    for expectation, told in {
        "lops == 0": "lops is unknown. Did you mean loops?",
        "loops = 0": "is not valid",
        "": "blank",
        "loops ==": "incomplete",
        "__import__('os')": "cannot be called",
    }.items():
        with subtests.test(expectation), pytest.raises(ExpressionError) as refused:
            expect("nowhere.jsonl", expectation)
        assert told in str(refused.value)
    with pytest.raises(SettingsError, match="neither an expression nor a function"):
        expect(load_trace("healthy"), 3)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="needs an expectation"):
        expect(load_trace("healthy"))


def test_expectation_without_a_truth_value_never_passes(subtests: pytest.Subtests) -> None:
    run = searching(2, 1)
    for expectation, told in {
        "rounds": "its value is 3, neither true nor false",
        'calls["web_serch"] == 0': "calls has no web_serch. Did you mean web_search?",
        "findings.lopp == 0": "Did you mean loop?",
        "steps.qa.attempts <= 2": "steps has no qa",
        "rounds / 0 > 1": "divides by zero",
    }.items():
        with subtests.test(expectation):
            found = outcome(run, expectation)
            assert not found.holds and told in found.sentence and "held after" not in found.sentence


def test_function_expectation_is_called_after_each_round(snapshot: Snapshot) -> None:
    def few_rounds(run: Run) -> bool:
        return len(run.rounds) < 3

    def checks(run: Run) -> bool:
        assert run.text == "Nothing", f"it says {run.text}"
        return True

    run = searching(1, 1, 1)
    assert outcome(run, few_rounds) == Outcome("few_rounds", False, "it returned false", 3)
    assert outcome(run, lambda run: len(run.rounds) > 99).expectation == "lambda run: len(run.rounds) > 99"
    assert outcome(run, checks).found == snapshot
    assert not outcome(run, lambda run: None).holds and outcome(run, lambda run: run.rounds).holds


def test_failing_runs_are_named_and_zero_runs_raise(tmp_path: Path) -> None:
    runs = [searching(count, run_id=f"run-{count}") for count in (1, 5, 2, 7)]
    for run in runs:
        save_trace(run, tmp_path / f"{run.id}.jsonl")
    assert expect(runs, "rounds == 2") == runs
    with pytest.raises(ExpectationFailed) as failed:
        expect(tmp_path, "tool_calls < 4")
    assert "2 of 4 runs are not as expected" in str(failed.value) and list(failed.value.failed) == ["run-5", "run-7"]
    with pytest.raises(SettingsError, match="no run"):
        expect([], "loops == 0")


def test_workflow_steps_are_available_by_id(snapshot: Snapshot) -> None:
    built = RunBuilder()
    for _ in range(3):
        built.add(w.StepStarted, step="qa", step_kind="agent")
        built.add(w.StepFinished, step="qa", status="failed", attempts=3, error="no")
    expect(built.run, 'steps.qa.attempts == 3 && steps["qa"].status == "failed" && len(steps) == 1')
    assert outcome(built.run, "steps.qa.attempts <= 2").sentence == snapshot
    with pytest.raises(ExpectationFailed, match=r"See the steps: tables\.steps"):
        expect(built.run, "steps.qa.attempts <= 2")


def test_steps_named_by_an_expectation_are_known_before_running(subtests: pytest.Subtests) -> None:
    for text, unknown in {
        "loops == 0 && len(steps) > 1": "",
        "steps.check.times <= 1 && steps['both/left'].output.steps.nobody == 'x'": "",
        "steps.each.items > 0 || steps['each/2'].status == 'failed'": "",
        "steps[text].times > 0": "",
        "len(steps.chek.output) > 1": "chek",
        "loops == 0 && steps['left'].times > 0": "left",
    }.items():
        with subtests.test(text):
            with pytest.raises(ExpressionError, match=f"no step {unknown}") if unknown else nullcontext():
                check_steps([text], ["check", "both", "both/left", "each"])


def test_values_after_each_round_reflect_only_earlier_events() -> None:
    run = load_trace("complex-fails")
    seen = [(at.rounds, at.tool_calls, at.found["loop"], at.max_consecutive_assistant) for at in after_each_round(run)]
    assert seen == [(0, 0, 0, 0), (1, 3, 0, 0), (2, 4, 0, 0), (3, 4, 0, 1), (4, 4, 1, 2), (5, 4, 2, 3), (6, 4, 3, 4)]


def test_evaluation_reads_each_event_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = searching(*[1] * 30)
    applied = []
    apply = Run.apply
    monkeypatch.setattr(Run, "apply", lambda self, event: (applied.append(event.seq), apply(self, event))[1])
    outcomes_of(run, ["rounds < 3", "tool_calls < 2", lambda run: len(run.rounds) < 9])
    assert len(applied) == len(run.events)
    applied.clear()
    outcomes_of(run, ["rounds > 3", "loops == 0"])
    assert not applied  # without a failure nothing is walked


def test_log_keeps_expectations_of_its_cell_but_recovery_ignores_them(tmp_path: Path) -> None:
    expected = expectations_extension(["rounds == 1", 'status == "failed"'])
    run = Agent(ScriptedModel(["Done."]), extensions=[expected]).run_sync("go")
    again = load_trace(save_trace(run, tmp_path / "run.jsonl"))
    assert [outcome.holds for outcome in logged_outcomes(again)] == [True, False]
    check_extensions(again, ())  # as `recover` does, with an agent without expectations
    with pytest.raises(ExpectationFailed, match="status"):
        check_logged(again)
    begun = Run.from_events(run.events[:3])
    assert begun.should_continue and logged_outcomes(begun) == ()
    assert logged_outcomes(load_trace("healthy")) == ()
    with pytest.raises(ExpressionError, match="round is unknown"):
        expectations_extension(["round == 1"])


def test_unsupported_expectations_of_another_version_load_but_fail() -> None:
    settings = {"extensions": [{"name": "expect", "settings": {"texts": ["moods == 1", "rounds ==", 7, "rounds == 1"]}}]}
    run = RunBuilder(settings=settings).round("Done.").add(e.RunFinished, status="completed", stop_reason="natural").run
    assert [outcome.holds for outcome in logged_outcomes(run)] == [False, False, True]


def test_reference_page_lists_each_name_with_its_meaning() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text("utf-8")
    for name, one in NAMES.items():
        assert f"| `{name}` | {one.meaning} |" in page
