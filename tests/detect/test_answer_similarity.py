"""Repeated answers: at least 40 characters, 90 per cent alike, among the last five."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_builder import Story

from agentnb.core.messages import Text
from agentnb.detect.answer_similarity import Answers

ANSWER = (string.ascii_letters * 2)[:100]
"""A hundred letters."""


def changed(text: str, count: int) -> str:
    """Replace the first characters of the text, as many as given."""
    return "#" * count + text[count:]


def unlike(number: int) -> str:
    """Return an answer that is unlike any other number's."""
    return chr(0x4E00 + number) * 60


@pytest.mark.req("R0.81")
@pytest.mark.parametrize(("length", "found"), [(39, None), (40, 0), (41, 0)])
def test_answers_of_at_least_forty_characters_are_compared(length: int, found: int | None) -> None:
    answers = Answers()
    assert answers.add(0, ANSWER[:length]) is None
    assert answers.add(1, ANSWER[:length]) == found


@pytest.mark.req("R0.81")
def test_surrounding_whitespace_does_not_change_an_answer() -> None:
    answers = Answers()
    answers.add(0, f"  {ANSWER[:39]} \n")
    assert answers.add(1, f"  {ANSWER[:39]} \n") is None
    answers.add(2, ANSWER)
    assert answers.add(3, f"\n\n{ANSWER}  ") == 2


@pytest.mark.req("R0.81")
def test_answers_at_least_ninety_percent_similar_are_equal(subtests: pytest.Subtests) -> None:
    for count, found in [(0, 0), (9, 0), (10, 0), (11, None), (100, None)]:
        with subtests.test(count=count):
            answers = Answers()
            answers.add(0, ANSWER)
            assert answers.add(1, changed(ANSWER, count)) == found


@pytest.mark.req("R0.81")
def test_answer_is_compared_with_the_last_five(subtests: pytest.Subtests) -> None:
    for between, found in [(0, 0), (3, 0), (4, 0), (5, None)]:
        with subtests.test(between=between):
            answers = Answers()
            answers.add(0, ANSWER)
            for number in range(between):
                assert answers.add(number + 1, unlike(number)) is None
            assert answers.add(between + 1, ANSWER) == found


@pytest.mark.req("R0.81")
def test_short_answers_do_not_push_out_the_long_ones() -> None:
    answers = Answers()
    answers.add(0, ANSWER)
    for number in range(1, 9):
        answers.add(number, "Yes.")
    assert answers.add(9, ANSWER) == 0


def test_latest_of_several_similar_answers_is_named() -> None:
    answers = Answers()
    answers.add(0, ANSWER)
    answers.add(3, ANSWER)
    assert answers.add(5, ANSWER) == 3


def test_long_answers_with_a_common_beginning_are_not_equal() -> None:
    answers, beginning = Answers(), unlike(0) * 20
    answers.add(0, beginning + unlike(1) * 20)
    assert answers.add(1, beginning + unlike(2) * 20) is None
    assert answers.add(2, beginning) is None
    assert answers.add(3, beginning + unlike(2) * 20) == 1


@pytest.mark.req("KX.8")
def test_every_answer_after_a_user_message_is_new() -> None:
    answers = Answers()
    answers.add(0, ANSWER)
    answers.clear()
    assert answers == Answers()
    assert answers.add(1, ANSWER) is None


@given(st.lists(st.text(max_size=60), max_size=8))
def test_repeat_always_refers_to_an_earlier_round(texts: list[str]) -> None:
    answers = Answers()
    for index, text in enumerate(texts):
        found = answers.add(index, text)
        assert found is None or found < index
        if len(text.strip()) >= 40:
            assert answers.add(index, text) == index  # the second time in a row counts
        else:
            assert found is None


@pytest.mark.req("R0.81")
def test_round_names_the_round_its_answer_repeats() -> None:
    tale = Story().said(ANSWER).called("look").said(ANSWER[:-1] + "!")
    assert [round_.said_before for round_ in tale.run.rounds] == [None, None, 0]
    assert tale.run.judged.repeated == 1


@pytest.mark.req("R0.81")
def test_text_beside_a_call_is_not_an_answer() -> None:
    tale = Story().said(ANSWER)
    call = tale.begun().call("look")
    tale.replied(Text(ANSWER), call).ran(call).ended()
    assert tale.last.said_before is None
    assert tale.said(ANSWER).last.said_before == 0


@pytest.mark.req("R0.81", "KX.8")
def test_user_may_ask_for_the_same_answer_again() -> None:
    tale = Story().said(ANSWER).said(ANSWER).heard("Say it again")
    assert tale.run.judged.repeated == 0
    tale.said(ANSWER)
    assert tale.last.said_before is None


def test_long_answers_that_only_begin_alike_differ() -> None:
    begun = "The beginning is the same. " * 60
    answers = Answers()
    assert answers.add(0, begun + "And it ends in one way, which is quite its own. " * 20) is None
    assert answers.add(1, begun + "Here however everything has another close, as you see! " * 18) is None


def test_much_longer_answer_is_not_equal() -> None:
    answers = Answers()
    assert answers.add(0, "x" * 1_000) is None
    assert answers.add(1, "x" * 2_000) is None


def test_slightly_shortened_short_answer_is_still_equal() -> None:
    text = "The table has three columns and twelve rows, and none of its values is missing, nor twice there."
    answers = Answers()
    assert answers.add(0, text) is None
    assert answers.add(1, text[: int(len(text) * 0.85)]) == 0
