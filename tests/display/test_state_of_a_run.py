"""The state of a run: its chip and tone, and which folds are open."""

from __future__ import annotations

import re
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hostile import visible_text
from run_builder import Fact, RunBuilder, answered, begun, called, todos_of

from agentnb.advice import Invocation, TryAgain, as_advice
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.text import run_text
from agentnb.display.defaults import MAX_TODOS
from agentnb.display.parts.head import MARKS, chip_html, meta_html, tone
from agentnb.display.parts.run_totals import Totals
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.states import chip, end_words, ending, next_step, why
from agentnb.display.texts.todo_labels import shown_todos


def ended(built: RunBuilder, status: e.Status = "completed", stop_reason: str = "natural") -> Run:
    return built.add(e.RunFinished, status=status, stop_reason=stop_reason, seconds=1.0).run


def with_todos(*statuses: str, **fields: Any) -> RunBuilder:
    return RunBuilder(todos=todos_of(*statuses), **fields).round(called("look")).round("Done.")  # type: ignore[arg-type]


def open_calls(*names: str) -> RunBuilder:
    """Return a round in which these tools run, after a call that has ended."""
    calls = [called(name, f"c{number}") for number, name in enumerate(("first", *names))]
    built = RunBuilder().extend(*begun(0)).add(e.ModelReplied, message=Message("assistant", tuple(calls)))
    built.extend(*answered(calls[0]))
    return built.extend(*[(e.ToolStarted, {"call": call}) for call in calls[1:]])


def test_ended_run_with_open_todos_shows_a_warning() -> None:
    left, done = ended(with_todos("completed", "in-progress")), ended(with_todos("completed", "completed"))
    assert (chip(left), tone(left)) == ("Done, todos open", "warn")
    assert (chip(done), tone(done)) == ("Done, not checked", "neutral")
    assert f"{MARKS['warn']}</span> Done, todos open" in chip_html(left) and "agentnb-warn" in chip_html(left)


def test_chip_names_each_running_tool_once() -> None:
    assert chip(open_calls("look", "listen", "look").run) == "Running look, listen"
    assert chip(open_calls("look").run) == "Running look"


LOOK = called("look", "c1")
SWITCHES: list[tuple[list[Fact], str, str]] = [
    ([], "Starting", "active"),
    ([(w.PlanProposed, {"plan_id": "a", "plan": {"steps": [{}] * 5}}), *begun(0)], "Thinking", "active"),
    ([(e.ModelReplied, {"message": Message("assistant", (Text("Let me look."), LOOK))})], "Thinking", "active"),
    ([(e.ToolStarted, {"call": LOOK})], "Running look", "active"),
    ([(w.StepStarted, {"step": "exec", "step_kind": "task", "agent": "llm/exec:run_plan"})], "Executing plan", "active"),
    ([(w.StepStarted, {"step": "exec/1", "step_kind": "call"})], "Executing plan, step 2 of 5", "active"),
    ([(e.QuestionAsked, {"question": WaitingOnUser("form", "Well?", {}, "q1", "c1")})], "Waiting for you", "asking"),
    ([(e.QuestionAnswered, {"question_id": "q1", "answer": True})], "Executing plan, step 2 of 5", "active"),
    ([(w.StepStarted, {"step": "exec/6", "step_kind": "call"})], "Executing plan", "active"),
    ([(w.StepFinished, {"step": "exec"}), answered(LOOK)[1]], "Thinking", "active"),
    ([(e.RoundFinished, {"index": 0, "status": "success"}), *begun(1)], "Thinking", "active"),
    ([(e.RetryScheduled, {"attempt": 1, "seconds": 2.0, "reason": "overloaded"})], "Retrying", "active"),
    ([(e.ModelReplied, {"message": Message("assistant", (Text("Found."),))})], "Waiting for you", "asking"),
    ([(e.RunFinished, {"status": "completed", "stop_reason": "natural", "seconds": 1.0})], "Done, not checked", "neutral"),
]


@pytest.mark.req("R3.37", "R3.13")
def test_chip_shows_the_current_state_even_in_live_cards() -> None:
    built, card = RunBuilder(), LiveCard()
    card.take(built.events[0])
    card.frame()
    before = "Starting"
    for facts, word, kind in SWITCHES:
        count = len(built.events)
        for event in built.extend(*facts).events[count:]:
            card.take(event)
        assert (chip(built.run), tone(built.run)) == (word, kind)
        frame = card.frame() or {"slots": {}, "say": before}
        assert ("chip" in frame["slots"]) == (word != before)
        assert frame["say"] == word and f"</span> {word}<" in chip_html(built.run)
        before = word


def test_chip_shows_retrying_while_the_summary_is_retried() -> None:
    built = RunBuilder().extend(*begun(0)).add(e.CompactionStarted, why="messages", messages=4)
    assert chip(built.run) == "Summarizing 4 messages"
    built.add(e.RetryScheduled, attempt=1, seconds=2.0, reason="overloaded")
    assert chip(built.run) == "Retrying"


ENDS: dict[str, tuple[e.Status, str, str]] = {
    "done": ("completed", "natural", "Done, not checked"),
    "stopped by the person": ("cancelled", "cancelled", "Stopped by you"),
    "blocked": ("stopped", "blocked", "Ended: todos blocked"),
    "a policy of one's own": ("stopped", "bored", "Ended: bored"),
    "failed": ("failed", "error", "Failed"),
}


def test_each_state_is_shown_once_as_one_word(subtests: pytest.Subtests) -> None:
    for name, (status, stop_reason, word) in ENDS.items():
        with subtests.test(name):
            run = ended(RunBuilder().round(called("look")).round("So far."), status, stop_reason)
            assert chip(run) == word
            for shown in (visible_text(run_html(run)), visible_text(compact_html(run)), run_text(run)):
                assert shown.count(word) == 1


@pytest.mark.parametrize(
    ("stop_reason", "words", "look"),
    [("natural", "Done, not checked", "neutral"), ("unchecked", "Ended, unchecked", "neutral")],
)
def test_unchecked_end_is_not_green(stop_reason: str, words: str, look: str) -> None:
    run = ended(RunBuilder().round("Well."), stop_reason=stop_reason)
    assert (chip(run), tone(run)) == (words, look)
    assert ("uncertain" in why(run)) is (stop_reason == "unchecked")


def test_round_without_a_reply_is_not_counted(subtests: pytest.Subtests) -> None:
    unanswered = ended(RunBuilder().extend(*begun(0)), "failed", "error")
    answered_once = ended(RunBuilder().round(called("look")).extend(*begun(1)), "failed", "error")
    cut_off = ended(RunBuilder().extend(*begun(0)), "cancelled", "cancelled")
    cases = [(unanswered, "no reply", "1 round"), (answered_once, "2 rounds", "no reply"), (cut_off, "no reply", "round")]
    for run, expected, never in cases:
        with subtests.test(told=expected, status=run.status):
            head = run_text(run).partition("\n")[0]
            assert expected in head and never not in head
            assert expected in visible_text(meta_html(run, Totals(run.rounds))) and expected in visible_text(compact_html(run))
    assert "round 1" in visible_text(meta_html(RunBuilder().extend(*begun(0)).run, Totals()))


def test_finished_run_is_folded_whatever_its_outcome(subtests: pytest.Subtests) -> None:
    for status, stop_reason, _ in ENDS.values():
        with subtests.test(stop_reason):
            failing = RunBuilder(todos=todos_of("not-started")).round(called("look"), error_code="tool_error").round("Done.")
            html = run_html(ended(failing, status, stop_reason))
            assert re.findall(r"<details[^>]* open", html) == []
            assert "1 failed call: round 1" in visible_text(html) and "</>" not in html  # every element has a name


def test_opened_folds_of_the_live_card_stay_open() -> None:
    run = ended(RunBuilder().round(called("look")).round("Done."))
    assert len(re.findall(r"<details[^>]* open", run_html(run, folds={"call:0:0": True}))) == 2


NEXT: dict[str, tuple[e.Status, str, str]] = {
    "done": ("completed", "natural", ""),
    "stopped by the person": ("cancelled", "cancelled", "Continue: %%agent --continue"),
    "stopped by a policy": ("stopped", "loop_detected", "Continue: %%agent --continue"),
    "failed": ("failed", "error", "Continue: %%agent --continue"),
}


def typed_next(run: Run) -> str:
    """Return the next step as a notebook shows it, or an empty text."""
    step = next_step(run)
    return "" if step is None else in_notebook([step])


def test_every_unsuccessful_outcome_says_what_to_type_next(subtests: pytest.Subtests) -> None:
    for name, (status, stop_reason, step) in NEXT.items():
        with subtests.test(name):
            assert typed_next(ended(RunBuilder(invocation=Invocation()).round("So far."), status, stop_reason)) == step
            in_python = ended(RunBuilder().round("So far."), status, stop_reason)  # no command reaches this run
            assert typed_next(in_python) == (step and "Continue: agent.run(PROMPT, continue_from=run)")
    assert next_step(ended(RunBuilder(), "failed", "error")) is None  # there is nothing to continue


def test_next_command_repeats_tools_and_reopens_blocked_todos(snapshot: Snapshot) -> None:
    tools = (ToolSpec("total", ""), ToolSpec("survey", ""))
    some_blocked = ended(with_todos("completed", "blocked", tools=tools, invocation=Invocation()), "stopped", "blocked")
    assert typed_next(some_blocked) == snapshot
    all_blocked = ended(with_todos("blocked", "blocked", invocation=Invocation()), "stopped", "blocked")
    assert typed_next(all_blocked) == snapshot
    long = tuple(ToolSpec(f"long_name_of_a_tool_{n}", "") for n in range(19))
    many = ended(RunBuilder(tools=long, invocation=Invocation()).round("So far."), "cancelled", "cancelled")
    assert typed_next(many) == "Continue: %%agent --continue -t TOOLS"
    for run in (some_blocked, all_blocked, many):
        assert "<code" in run_html(run) and typed_next(run) in visible_text(run_html(run))


def test_failed_run_suggests_continuing_unless_it_would_fail_again(snapshot: Snapshot) -> None:
    def after(error: e.RunError) -> str:
        built = RunBuilder(invocation=Invocation()).round("So far.")
        built.add(e.ErrorRaised, error=error, where="model")
        return ending(ended(built, "failed", "error"))

    unreachable = e.RunError("ProviderTrouble", "nothing answers", as_advice("Name another with url=URL"))
    assert after(unreachable) == snapshot
    assert after(e.RunError("ModelError", "no GPU")) == "no GPU. Continue: %%agent --continue"
    error = e.RunError("ProviderTrouble", "it fails", (TryAgain(lead="Try again in a while"),))
    assert after(error) == snapshot
    assert after(e.RunError("ScriptEnded", "The script ended", as_advice("Give it one more reply"))).endswith(
        "Give it one more reply"
    )


def test_looping_run_says_what_it_repeated(snapshot: Snapshot) -> None:
    built = RunBuilder().round("Again.").round("Again.")
    built.add(e.LoopDetected, rule="already_said", first=0, last=1, sentence="the answer of round 2 is that of round 1.")
    assert why(ended(built, "stopped", "loop_detected")) == snapshot
    assert why(ended(built, "stopped", "refusal")) == "The model declined to answer."


def test_run_text_has_a_line_for_each_todo(snapshot: Snapshot) -> None:
    lines = run_text(ended(with_todos("completed", "in-progress"))).splitlines()
    assert [line for line in lines if "Write story" in line] == snapshot


def test_long_list_shows_todos_around_the_first_open_one() -> None:
    for done, before, after in [
        (0, 0, 2 * MAX_TODOS),
        (2 * MAX_TODOS, 2 * MAX_TODOS - MAX_TODOS // 2, MAX_TODOS // 2),
        (3 * MAX_TODOS, 0, 2 * MAX_TODOS),
    ]:
        todos = todos_of(*["completed"] * done, *["not-started"] * (3 * MAX_TODOS - done))  # type: ignore[list-item]
        shown = shown_todos(todos)
        assert shown.todos == todos[before : before + MAX_TODOS]
        assert shown.before == (f"{before} todos before" if before else "")
        assert shown.after == (f"{after} todos after" if after else "")


def test_only_a_logged_run_shows_the_load_command() -> None:
    assert "%agent load" in compact_html(ended(RunBuilder().round("Done."))) and "%agent load" not in compact_html(Run())


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("max_rounds", "at the limit of rounds"),
        ("max_tool_calls_per_turn", "at the limit of tool calls per turn"),
        ("session_budget", "at the limit of session budget"),
        ("todo_intervention_exhausted", "todos ignored"),
        ("nested_run_failed", "nested run failed"),
        ("cancelled", "cancelled"),
        ("max tokens reached: the reply of read_file was cut off", "max tokens reached: the reply of read_file was cut off"),
    ],
)
def test_stop_reason_is_described_in_words(reason: str, told: str) -> None:
    assert end_words(reason) == told
