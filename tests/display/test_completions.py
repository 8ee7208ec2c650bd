"""The end of a run reads alike everywhere; it is green only if it was checked and passed."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest
from hostile import visible_text
from run_builder import Fact, RunBuilder, called
from some_approvals import CASES

from agentnb import Run, tables
from agentnb.advice import Invocation, SetKey, as_advice
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import Assessment
from agentnb.core.log.wire import encode
from agentnb.core.run.rounds import DENIED, INTERRUPTED, LOST
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import head_line, run_text
from agentnb.display.lists.browser import rows_html
from agentnb.display.lists.history_list import history_text, status_html
from agentnb.display.lists.run_rows import row_of
from agentnb.display.parts.run_problems import round_anchor, trouble_words
from agentnb.display.texts.notebook_commands import CHECK
from agentnb.display.texts.states import chip
from agentnb.store.summaries import summary

ANSWER = "The threshold is 85 now."
PASSED, FAILED = (Assessment(outcome, "expectation", "answer.answered") for outcome in ("passed", "failed"))
REJECTED: list[Fact] = [
    (w.PlanProposed, {"plan_id": "p", "plan": {"steps": [{}]}}),
    (w.PlanRejected, {"plan_id": "p", "words": "Not \x1bon Monday"}),
]
REJECTED_CALL: list[Fact] = [
    (e.QuestionAsked, {"question": CASES["command"].question}),
    (e.QuestionAnswered, {"question_id": "q1", "answer": {"deny": "the other file"}}),
]
SUBSTITUTED: list[Fact] = [(w.StepStarted, {"step": "prices"}), (w.StepFinished, {"step": "prices", "error": "No answer"})]
SUBSTITUTED_TOO: list[Fact] = [(kind, fields | {"step": "report"}) for kind, fields in SUBSTITUTED]
REFUSED: Fact = (
    e.ErrorRaised,
    {"error": e.RunError("AuthenticationError", "the server refused the key (401)"), "where": "model"},
)


BLOCKED: dict[str, Any] = {"status": "stopped", "stop_reason": "blocked"}
NOT_THERE = "the text is not in conf.yaml\nRead it"


def ended(
    code: str = "",
    facts: list[Fact] = [],  # noqa: B006
    assessment: Assessment | None = None,
    error: str = NOT_THERE,
    invocation: Invocation = Invocation(),  # noqa: B008
    **end: Any,
) -> Run:
    """Return a run that edits a file, has these events, and answers."""
    text = error if code else "changed"
    arguments = {"path": "a.py"} if facts is REJECTED_CALL else {}
    story = (
        RunBuilder(invocation=invocation)
        .round(called("edit_file", "c1", **arguments), text=text, error_code=code or None)
        .extend(*facts)
        .round(ANSWER)
    )
    if assessment is not None:
        story.add(w.OutcomeGiven, assessment=assessment)
    return story.add(e.RunFinished, **{"status": "completed", "stop_reason": "natural", **end}).run


ENDS: dict[str, tuple[Run, str, str, str]] = {
    "passed": (ended(assessment=PASSED), "good", "Done", ""),
    "passed after a failed call": (ended("tool_error", assessment=PASSED), "good", "Done", ""),
    "not checked": (ended(), "neutral", "Done, not checked", ""),
    "a call that failed": (
        ended("tool_error"),
        "warn",
        "Done, 1 call failed",
        "First failed call: edit_file in round 1 (the text is not in conf.yaml).",
    ),
    "a command that failed": (
        ended("command_failed", error="STDERR:\ncat: a.txt: No such file\nExit code 1"),
        "warn",
        "Done, 1 call failed",
        "First failed call: edit_file in round 1 (cat: a.txt: No such file).",
    ),
    "a call that the person refused": (
        ended(DENIED),
        "warn",
        "Done, 1 call rejected",
        "First rejected call: edit_file in round 1 (the text is not in conf.yaml).",
    ),
    "a call that the person refused in words": (
        ended(DENIED, facts=REJECTED_CALL),
        "warn",
        "Done, 1 call rejected",
        'First rejected call: edit_file path="a.py" in round 1. You rejected it: “the other file”.',
    ),
    "a step with a substitute": (ended(facts=SUBSTITUTED), "warn", "Done, 1 step used a substitute", ""),
    "steps with substitutes": (ended(facts=SUBSTITUTED + SUBSTITUTED_TOO), "warn", "Done, 2 steps used substitutes", ""),
    "a substitute after a failed call": (
        ended("tool_error", facts=SUBSTITUTED),
        "warn",
        "Done, 1 call failed",
        "First failed call: edit_file in round 1 (the text is not in conf.yaml).",
    ),
    "a call that the kernel broke off": (ended(INTERRUPTED), "neutral", "Done, not checked", ""),
    "a trace without the result of a call": (ended(LOST), "neutral", "Done, not checked", ""),
    "a rejected plan": (
        ended(facts=REJECTED),
        "warn",
        "Plan rejected",
        "No step of the plan ran: “Not \N{REPLACEMENT CHARACTER}on Monday”. "
        "For another plan, change the prompt and run it again.",
    ),
    "a plan rejected and another made": (ended(facts=[*REJECTED, REJECTED[0]]), "neutral", "Done, not checked", ""),
    "a failed check": (ended(assessment=FAILED), "neutral", "Done", ""),
    "failed": (
        ended(facts=[REFUSED], status="failed", stop_reason="error"),
        "bad",
        "Failed",
        "the server refused the key (401)",
    ),
}


def failed(error: e.RunError) -> Run:
    return ended(facts=[(e.ErrorRaised, {"error": error, "where": "model"})], status="failed", stop_reason="error")


MARK = re.compile(r'class="agentnb-(?:chip|history-status) agentnb-(\w+)"[^>]*><span[^>]*>.</span> (?:<a[^>]*>)?([^<]*)<')


@pytest.mark.parametrize("name", ENDS)
def test_each_outcome_looks_and_reads_the_same_everywhere(name: str) -> None:
    run, tone, words, why = ENDS[name]
    row = summary([encode(event) + b"\n" for event in run.events], "interrupted")
    for html in (run_html(run), compact_html(run), page_html(run), status_html(row), rows_html([row_of(0, run)])):
        mark = MARK.search(html)
        assert mark is not None and (mark[1], mark[2].removesuffix(" by you")) == (tone, words)
    assert re.match(rf"{words}( by you)?(, expectation (passed|failed))?: 2 rounds", run_text(run))
    assert f" {words}" in history_text([row], "") and tables.runs(run).end.tolist() == [words]
    for text in (run_text(run), visible_text(run_html(run)), visible_text(page_html(run))):
        assert why in text and "\x1b" not in text and ("First " in text) == why.startswith("First ")
    assert ('class="agentnb-answer"' in run_html(run)) == (run.status == "completed" and words != "Plan rejected")


def test_call_counts_in_the_header_link_to_the_round() -> None:
    for name, (run, _, words, _) in ENDS.items():
        links = re.findall(r'<a class="agentnb-to-round"[^>]* href="#([^"]*)"[^>]*>([^<]*)</a>', run_html(run))
        anchors = [unquote(anchor) for anchor, told in links if told == words]
        counts = words.endswith(("call failed", "call rejected"))
        assert anchors == ([round_anchor(run.id, 0)] if counts else []), name


def test_rejected_plan_says_that_you_rejected_it() -> None:
    for by, expected in {"person": "Plan rejected by you", "agentnb": "Plan rejected"}.items():
        assert chip(ended(facts=[REJECTED[0], (REJECTED[1][0], {**REJECTED[1][1], "by": by})])) == expected


def test_valid_output_is_said_and_is_no_check() -> None:
    for answer, said in {"5": "output valid, ", "five": ""}.items():
        built = RunBuilder(settings={"output": {"schema": {"type": "integer"}}}).round(answer)
        run = built.add(e.RunFinished, status="completed", stop_reason="natural").run
        assert head_line(run).startswith(f"Done, not checked: {said}1 round")
        assert ("output valid · 1 round" in visible_text(run_html(run))) == bool(said)


def test_card_shows_the_next_step_for_each_outcome(subtests: pytest.Subtests) -> None:
    key, own = e.RunError("KeyRefused", "no", (SetKey("ANTHROPIC_API_KEY", lead="Enter another key"),)), "The traceback is in x"
    check, go_on = f"To check the next one, for example: {CHECK}", "Continue: %%agent --continue"
    opened = "%agent todos open ID, then %%agent --continue"
    cases = {
        "not checked": (ended(), check),
        "passed": (ended(assessment=PASSED), ""),
        "a rejected call": (ended(DENIED, facts=REJECTED_CALL), go_on),
        "blocked by a rule": (ended(DENIED, **BLOCKED), f"Allow the call, then continue: {opened}"),
        "blocked by a rule of the cell": (
            ended(DENIED, invocation=Invocation(rules=("save=deny",)), **BLOCKED),
            f"Change the --rule below, then continue: {opened} --rule save=deny",
        ),
        **{
            f"blocked by {mode}": (
                ended(DENIED, invocation=Invocation(approve=mode, rules=("save=deny",)), **BLOCKED),
                f"Continue without the mode {mode}, so that the call asks you: {opened} --rule save=deny",
            )
            for mode in ("never", "read_only")
        },
        "blocked without a call": (ended(**BLOCKED), f"Remove the cause, then continue: {opened}"),
        "blocked by the person": (ended(DENIED, facts=REJECTED_CALL, **BLOCKED), f"Continue: {opened}"),
        "a failed call": (ended("tool_error"), ""),
        "a refused key": (failed(key), "Enter another key: %agent key anthropic. Then continue: %%agent --continue"),
        "an own model": (failed(e.RunError("E", "no", as_advice(own), traceback="f()")), f"{own}. {go_on}"),
    }
    for name, (run, expected) in cases.items():
        with subtests.test(name):
            text = visible_text(run_html(run))
            assert expected in text and (check in text) == (expected == check)
            assert ("--continue" in text) == ("--continue" in expected)


def test_reminder_without_effect_is_not_said_as_an_error() -> None:
    one, two = (trouble_words("ignored", count) for count in (1, 2))
    assert (one, two) == ("1 guidance reminder not followed", "2 guidance reminders not followed")
