"""The default rules: what they report as a loop and what they leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_builder import Calls, answered, called, todo

from agentnb import load_trace
from agentnb.core.log import events as e
from agentnb.core.messages import Message, ToolCall
from agentnb.core.todos import TODO_TOOL
from agentnb.detect import findings
from agentnb.detect.blocks import FailingTool, NothingNew, RepeatedText

SEARCH = "Please search the web for the year in which the stock of Apple first rose above 50 dollars."
AGAIN = "Please search the web again for the year in which the stock of Apple first rose above 50 dollars!"
FIRST_YEAR = "Now please search the web for the first year in which the stock of Apple rose above 50 dollars."


def loops(story: Calls) -> list[tuple[str, int, int, str]]:
    return [(one.rule, one.first + 1, one.last + 1, one.severity) for one in story.found() if one.family in ("loop", "stall")]


run_of_letters = Calls.of


def test_third_identical_call_and_result_is_a_loop() -> None:
    assert loops(run_of_letters("AA")) == []
    assert loops(run_of_letters("AAA")) == [("nothing_new", 1, 3, "nudge")]


def test_continuing_loop_is_found_again_with_higher_severity() -> None:
    assert [loop[3] for loop in loops(run_of_letters("AAAAAA"))] == ["nudge", "block", "stop", "stop"]


def test_cycle_in_any_order_is_found_at_its_third_occurrence(subtests: pytest.Subtests) -> None:
    for once in ("AB", "ABC", "ABCD", "ABCDE"):
        with subtests.test(once):
            assert loops(run_of_letters((once * 3)[:-1])) == []
            found = loops(run_of_letters(once * 3))
            assert [(one[0], one[1], one[2]) for one in found] == [("nothing_new", 1, 3 * len(once))]
    assert loops(run_of_letters("ABBAABBA"))  # in another order each time


def test_loop_after_other_work_names_its_own_rounds() -> None:
    assert loops(run_of_letters("QRSTAAA")) == [("nothing_new", 5, 7, "nudge")]
    assert loops(run_of_letters("AQRSTAA")) == []  # an old call, and twice again
    assert loops(run_of_letters("AQRSTAAA"))


def test_key_order_and_thinking_do_not_distinguish_calls() -> None:
    story = Calls()
    for number in range(3):
        arguments = {"a": 1, "b": 2.0} if number % 2 else {"b": 2, "a": 1}
        story.round(f"I will try it in way {number}", ToolCall("look", arguments))
    assert [one.rule for one in story.found()] == ["nothing_new"]


def test_repeating_a_test_after_each_edit_is_not_a_loop() -> None:
    story = Calls()
    for number in range(8):
        story.call("edit", file="a.py", text=f"version {number}").call("run_tests", "1 failed: test_a")
    assert loops(story) == []


def test_rereading_an_edited_file_is_not_a_loop() -> None:
    story = Calls()
    for number in range(8):
        story.call("read", f"line {number}", file="a.py").call("write", "written", file="a.py", line=number)
    assert loops(story) == []


def test_few_retries_against_an_overloaded_server_are_not_a_loop(subtests: pytest.Subtests) -> None:
    for text in ("HTTP 503 Service Unavailable", "429 Too Many Requests", "The connection timed out", "Rate limit reached"):
        with subtests.test(text):
            story = Calls()
            for _ in range(5):
                story.call("fetch", text, error="tool_error", url="https://example.org")
            assert story.call("fetch", "<html>", url="https://example.org").found() == []
    endless = Calls()
    for _ in range(9):
        endless.call("fetch", "HTTP 503", error="tool_error")
    assert [loop[0] for loop in loops(endless)][:1] == ["nothing_new"]


def test_polling_is_not_a_loop_with_changing_or_equal_answers(subtests: pytest.Subtests) -> None:
    for name, texts in (
        ("get_job", [f"{number} per cent" for number in range(10)]),
        ("get_job", ["status: running"] * 10),
        ("get_job", ["still in progress (40%)"] * 10),
        ("wait_for_job", ["nothing yet"] * 10),
        ("checkStatus", ["3"] * 10),
        ("sleep", ["ok"] * 10),
    ):
        with subtests.test(name=name, text=texts[0]):
            story = Calls()
            for text in texts:
                story.call(name, text, job=1)
            assert loops(story.call("get_result", "done", job=1)) == []


def test_endless_poll_is_found_eventually() -> None:
    story = Calls()
    for _ in range(40):
        story.call("get_job", "status: running")
    assert next(loop[2] for loop in loops(story)) > 30


def test_user_message_is_new_information() -> None:
    assert loops(run_of_letters("AA").say().call("A").call("A")) == []
    assert loops(Calls().reply(SEARCH).reply(SEARCH).say().reply(SEARCH).reply(SEARCH)) == []
    asked_again = Calls()
    for _ in range(4):
        asked_again.say("In which year?").reply(SEARCH)
    assert loops(asked_again) == []


def test_blocked_calls_do_not_interrupt_a_loop() -> None:
    story = Calls().call("A").call("A")
    story.round(called("A", "x1"), blocked=["x1"]).round(called("A", "x2"), blocked=["x2"])
    assert [loop[3] for loop in loops(story)] == ["nudge", "block"]


def test_equal_calls_in_one_reply_are_not_a_loop() -> None:
    assert loops(Calls().batch("A", "A", "A", "A")) == []
    assert [loop[0] for loop in loops(Calls().batch("A", "B").batch("A", "B").batch("B", "A"))] == ["nothing_new"]


@pytest.mark.req("R0.81")
def test_third_nearly_identical_reply_is_a_loop() -> None:
    assert loops(Calls().reply(SEARCH).reply(AGAIN)) == []
    assert loops(Calls().reply(SEARCH).reply(AGAIN).reply(FIRST_YEAR)) == [("repeated_text", 1, 3, "nudge")]


def test_two_alternating_replies_are_a_loop() -> None:
    other = "I opened the page of the stock exchange, and it says nothing about that."
    assert [loop[0] for loop in loops(Calls().reply(SEARCH).reply(other).reply(AGAIN).reply(other))] == ["repeated_text"]


def test_replies_are_compared_per_author() -> None:
    assert loops(Calls().reply(SEARCH, "Ann").reply(SEARCH, "Bob").reply(SEARCH, "Cem").reply(SEARCH, "Dee")) == []


def test_same_sentence_about_different_items_is_not_a_loop() -> None:
    story = Calls()
    for name in ("Elizabeth", "Some Voices", "Sylvia", "Munich", "Layer Cake", "Spectre"):
        story.reply(f"Please check whether the film '{name}' can be seen on Netflix in the United States.")
    for number in range(6):
        story.reply(f"Your order number {number + 3100} was cancelled, and the money goes back to your card.")
    assert loops(story) == []


def test_constant_user_proxy_message_does_not_interrupt_a_loop() -> None:
    go_on = "Continue. Please keep solving the problem until you need to query."
    story = Calls()
    for _ in range(4):
        story.reply(SEARCH).say(go_on, author="proxy")
    assert [loop[0] for loop in loops(story)] == ["repeated_text"]


def test_replies_far_apart_are_not_a_loop() -> None:
    story = Calls().reply(SEARCH).reply(AGAIN)
    for number in range(12):
        story.reply(chr(0x4E00 + number) * 60)
    assert loops(story.reply(SEARCH)) == []


def test_message_ignored_in_three_replies_is_a_stall() -> None:
    refusal = "Please always give exactly one action in triple backticks, found {} actions. Please format it so."
    story = Calls().call()
    for number in range(3):
        story.reply(f"Something else, {chr(0x4E00 + number) * 50}").say(refusal.format(number))
    assert loops(story.reply("I am confused.")) == [("unheeded_message", 2, 5, "nudge")]
    talk = Calls()
    for number in range(4):
        talk.reply(f"{chr(0x4E00 + number) * 50}").say(refusal.format(number))
    assert loops(talk.reply("I am confused.")) == []  # a run that never called a tool is a conversation


def test_planning_only_and_talking_with_open_todos_are_stalls() -> None:
    planning = Calls()
    for number in range(4):
        planning.round(called(TODO_TOOL, n=number), after=(todo(1, title=f"Plan {number}"),))
    assert loops(planning) == [("planning_only", 1, 4, "nudge")]
    talking = Calls(todos=(todo(1),))
    for number in range(3):
        talking.reply(chr(0x4E00 + number) * 60)
    assert loops(talking) == [("talk_with_open_todos", 1, 3, "nudge")]
    assert loops(Calls().reply("Hm.").reply("Well.").reply("So.")) == []


def test_replies_with_lost_announced_calls_are_not_talking() -> None:
    story = Calls(todos=(todo(1),))
    for number in range(6):
        story.round(f"Step {chr(0x4E00 + number) * 50}", stop_reason="tool_use" if number % 2 else "end_turn")
    assert [loop[1:3] for loop in loops(story)] == [(1, 5)]  # the talk between them still counts
    lost = Calls(todos=(todo(1),))
    for number in range(6):
        lost.round(f"Step {chr(0x4E00 + number) * 50}", stop_reason="tool_calls")
    assert loops(lost) == []


def test_failing_tools_and_reopened_todos_are_found_outside_loops() -> None:
    failing = Calls()
    for number in range(4):
        failing.call("fetch", f"no such page {number}", error="tool_error", page=number)
    assert [(one.rule, one.family, one.severity) for one in failing.found()] == [("failing_tool", "failure", "nudge")]
    flipping = Calls().round(called(TODO_TOOL), after=(todo(1, "completed"),)).round(called(TODO_TOOL, n=2), after=(todo(1),))
    assert [(one.rule, one.family, one.severity) for one in flipping.found()] == [("todo_reopened", "discipline", "notice")]
    assert loops(failing) == loops(flipping) == []


@pytest.mark.req("R0.32", "R0.84")
def test_recorded_loop_is_found_and_healthy_run_has_no_findings() -> None:
    found = findings(load_trace("complex-fails.json"))
    assert {one.rule for one in found} == {"repeated_text"} and found[0].last == 4
    assert findings(load_trace("healthy-research.json")) == []


OTHERS = (
    "The harbour is closed on Sundays, and the ferry to the islands leaves an hour later than usual.",
    "Nothing was written about the weather, so the picnic may be moved into the great hall.",
    "A dozen violins were sold at the auction before anybody noticed the missing bow.",
    "Her garden has more tomatoes than cucumbers, which surprised even the oldest neighbour.",
)


def test_text_is_compared_only_within_its_window() -> None:
    for between, rules in ((2, ["repeated_text"]), (3, [])):
        story = Calls().reply(SEARCH)
        for text in OTHERS[:between]:
            story.reply(text)
        assert story.reply(SEARCH).rules(lambda: RepeatedText(1, window=3)) == rules, between


def test_call_without_a_recorded_result_is_compared_as_text() -> None:
    """HyperAgent logs contain the code that was run, but not its result."""
    thoughts = ("I open the file that raises once more.", "I open the file that raises.", "I open the file again.")
    for lost, rules in ((True, ["repeated_text"]), (False, [])):
        story = Calls()
        for number, thought in enumerate(thoughts):
            call = ToolCall("python", {"code": f"text = open_file('core/expr.py', start=10)\nprint(text){' ' * number}# look"})
            story.round(thought, call, error_code="lost" if lost else "", text="lost" if lost else f"line {number}")
        assert story.rules(RepeatedText) == rules


def test_finding_about_missing_results_does_not_call_them_equal() -> None:
    for code, told in (("lost", "came without a recorded result"), ("", "returned the same")):
        story = Calls()
        for _ in range(3):
            story.round(ToolCall("python", {"code": "look()"}), error_code=code)
        (found,) = story.found(NothingNew)
        assert found.sentence == f"The same call to python {told} 3 times with nothing new in between"


def test_repeats_count_only_within_the_configured_replies() -> None:
    for within, rules in ((4, ["repeated_text"]), (3, [])):
        story = Calls().reply(SEARCH).reply(SEARCH).reply(OTHERS[0]).reply(OTHERS[1]).reply(SEARCH)
        assert story.rules(partial(RepeatedText, 2, within=within)) == rules, within


def of_rounds(*rounds: dict[str, bool]) -> Calls:
    """Build a run whose rounds call `fetch` and `look` with these ids; each call succeeds or fails."""
    story = Calls()
    for index, round_calls in enumerate(rounds):
        calls = {f"{name} {index}": worked for name, worked in round_calls.items()}
        made = [called(call_id.partition(" ")[0].rstrip("12"), call_id) for call_id in calls]
        story.add(e.RoundStarted, index=index, reason="tool_results").add(
            e.ModelReplied, message=Message("assistant", tuple(made))
        )
        for call in made:
            story.extend(
                *answered(call, "boom", is_error=not calls[call.id], error_code="" if calls[call.id] else "tool_error")
            )
        story.add(e.RoundFinished, index=index, status="success")
    return story


def test_failing_tool_is_found_even_beside_a_working_one(subtests: pytest.Subtests) -> None:
    fails, beside, both = {"fetch1": False}, {"fetch1": False, "look1": True}, {"fetch1": False, "fetch2": True}
    cases = {
        "alone": ((fails,) * 3, ["failing_tool"]),
        "another worked beside it": ((beside,) * 3, ["failing_tool"]),
        "it worked too": ((fails, fails, both, fails, fails), []),
        "it worked too, in each round": ((both,) * 5, []),
        "three after it worked": ((fails, both, fails, fails, fails), ["failing_tool"]),
    }
    for name, (rounds, rules) in cases.items():
        with subtests.test(name):
            assert of_rounds(*rounds).rules(lambda: FailingTool(3)) == rules


def test_texts_can_be_compared_by_meaning() -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[float(text.count("search")), float(text.count("plan")), 0.1] for text in texts]

    reworded = [
        "Let us search for it on all the pages that there are.",
        "A thorough search of everything seems to be the best idea now!",
        "I believe that somebody should do a search, and quickly so.",
    ]
    story = Calls()
    for text in reworded:
        story.reply(text)
    assert story.found() == []
    assert story.rules(lambda: RepeatedText(embed=embed, alike=90)) == ["repeated_text"]
    story = Calls().reply(reworded[0]).reply("We need a plan before anything else can be begun at all.").reply(reworded[1])
    assert story.found(lambda: RepeatedText(embed=embed, alike=90)) == []


@given(st.text("ABCD", max_size=40))
@examples(50)
def test_calls_with_new_results_are_never_a_loop(letters: str) -> None:
    story = Calls()
    for number, letter in enumerate(letters):
        story.call(letter, f"result {number}")
    assert loops(story) == []


@given(st.text("ABC", min_size=1, max_size=12))
@examples(50)
def test_findings_in_a_prefix_remain_in_the_full_run(letters: str) -> None:
    part = run_of_letters(letters).found(NothingNew)
    assert run_of_letters(letters + "QA").found(NothingNew)[: len(part)] == part
    assert all(0 <= one.first <= one.last < len(letters) for one in part)
