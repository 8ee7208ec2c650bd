"""Endings: an empty reply in the middle of work, and a claim that the record contradicts."""

from __future__ import annotations

from typing import Any

import pytest
from run_builder import Calls, called, todo

from agentnb.core.log import events as e
from agentnb.core.log.outcome import Assessment, outcome_of
from agentnb.core.log.work_events import OutcomeGiven
from agentnb.core.messages import Thinking
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.blocks import ClaimAgainstRecord, EmptyAnswer

DONE = "The proof has been completed and compiled successfully."


def over(story: Calls, status: str = "completed") -> Calls:
    return story.add(e.RunFinished, status=status, stop_reason="natural")


def ends(story: Calls, status: str = "completed") -> list[str]:
    return [one.rule for one in over(story, status).found() if one.family == "end"]


def listed(*statuses: Any) -> Calls:
    """Build a run whose model lists todos with these statuses and then works."""
    todos = tuple(todo(number, status) for number, status in enumerate(statuses, 1))
    return Calls().round(called(TODO_TOOL), after=todos).call()


def test_empty_last_reply_during_work_is_found_at_the_end(snapshot: Any) -> None:
    story = listed("completed", "in-progress").reply("I will go on.").reply("")
    assert [one for one in story.found() if one.family == "end"] == []
    (found,) = over(story).found(EmptyAnswer)
    assert (found.rule, found.family, found.first, found.last, found.severity) == ("empty_answer", "end", 3, 3, "notice")
    assert found.sentence == snapshot("with open todos")
    assert over(Calls().call().reply("")).found(EmptyAnswer)[0].sentence == snapshot("without todos")


def test_empty_end_is_found_only_after_unfinished_work(subtests: pytest.Subtests) -> None:
    for name, story, found in (
        ("thoughts alone", Calls().call().round(Thinking("Hm.")), True),
        ("two empty replies", Calls().call().reply("").reply(" "), True),
        ("an answer", Calls().call().reply("Here it is."), False),
        ("an answer before it", Calls().call().reply("Here it is.").reply(""), False),
        ("a call", Calls().call().call(), False),
        ("no work", Calls().reply(""), False),
        ("a marker", Calls().call().round("", signals=["complete"]), False),
        ("calls that the trace lost", Calls().call().round("", stop_reason="tool_use"), False),
        ("a new question", Calls().call().say("Thanks.").reply(""), False),
        ("work after a new question", Calls().say().call().reply(""), True),
    ):
        with subtests.test(name):
            assert ends(story) == ["empty_answer"] * found


def test_run_that_was_cut_short_has_no_end_finding(subtests: pytest.Subtests) -> None:
    for status in ("unknown", "failed", "limited", "stopped", "cancelled", "interrupted"):
        with subtests.test(status):
            found = status == "unknown"
            assert ends(Calls().call().reply(""), status) == ["empty_answer"] * found
            assert ends(listed("in-progress").reply(DONE), status) == ["claim_against_record"] * found


def with_reward(score: float) -> Calls:
    assessment = Assessment(outcome_of(score), "trace", "reward", score)
    return Calls().call().add(OutcomeGiven, assessment=assessment)


def test_claim_is_checked_against_todos_failed_calls_and_outcome(subtests: pytest.Subtests, snapshot: Any) -> None:
    failed = with_reward(0.0)
    for name, story in {
        "open todos": listed("completed", "in-progress"),
        "a failed last call": Calls().call().call("run_tests", "2 failed", error="tool_error"),
        "a recorded failure": failed,
        "two of them": listed("not-started").call("run_tests", "2 failed", error="tool_error"),
    }.items():
        with subtests.test(name):
            found = over(story.reply(DONE)).found(ClaimAgainstRecord)
            assert [(one.rule, one.family, one.severity, one.evidence) for one in found] == [
                ("claim_against_record", "end", "notice", DONE)
            ]
            assert found[0].sentence == snapshot(name)


def test_harmless_facts_do_not_contradict_a_success_claim(subtests: pytest.Subtests) -> None:
    failing = Calls().call("run_tests", "2 failed", error="tool_error")
    for name, story in {
        "completed todos": listed("completed", "completed"),
        "todos of an earlier question": listed("in-progress").say("And now?").call(),
        "another call that worked": Calls().call("run_tests", "2 failed", error="tool_error").call("run_tests", "2 passed"),
        "a call of an earlier question": failing.say("And now?"),
        "planning after it alone": Calls().call("run_tests", "2 passed").round(called(TODO_TOOL), error_code="tool_error"),
        "a bare exit code": Calls().call("Bash", "Exit code 1\n\n[error] tool reported failure", error="tool_error"),
        "a lost result": Calls().call("Bash", "It is lost", error="lost"),
        "a recorded success": with_reward(1.0),
        "half a reward": with_reward(0.5),
    }.items():
        with subtests.test(name):
            assert ends(story.reply(DONE)) == []


def test_success_claims_are_recognized_by_their_wording(subtests: pytest.Subtests) -> None:
    for text, claims in {
        "I've implemented the parser.": True,
        "Created `run.py` with two functions.": True,
        "Both orders were updated. Let me know if there's anything else.": True,
        "All tests passed.": True,
        "The timetable was added. It does not go on Sundays.": True,
        "The parser is implemented, but two tests fail.": False,
        "The parser is implemented and has not been tested.": False,
        "I could not compile it. The file was created.": False,
        "It wasn\u2019t added.": False,
        "The file was created. Shall I go on?": False,
        "Let me look at the file.": False,
        "The answer is 42.": False,
        f"Done.{' So.' * 2_000} It is not tested.": False,
    }.items():
        with subtests.test(text[:40]):
            assert ends(listed("in-progress").reply(text)) == ["claim_against_record"] * claims
    assert ends(listed("in-progress").round("So long.", signals=["complete"])) == ["claim_against_record"]
