"""Whether an answer has been given before: 40 characters, 90 per cent, the last five."""

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
    """The text with its first so many characters others: by so many per cent of its length less alike."""
    return "#" * count + text[count:]


def unlike(number: int) -> str:
    """An answer that is like none of another number."""
    return chr(0x4E00 + number) * 60


@pytest.mark.req("R0.81")
@pytest.mark.parametrize(("length", "found"), [(39, None), (40, 0), (41, 0)])
def test_answers_are_compared_from_forty_characters_on(length: int, found: int | None) -> None:
    answers = Answers()
    assert answers.add(0, ANSWER[:length]) is None
    assert answers.add(1, ANSWER[:length]) == found


@pytest.mark.req("R0.81")
def test_blanks_around_an_answer_do_not_make_it_longer_or_another() -> None:
    answers = Answers()
    answers.add(0, f"  {ANSWER[:39]} \n")
    assert answers.add(1, f"  {ANSWER[:39]} \n") is None
    answers.add(2, ANSWER)
    assert answers.add(3, f"\n\n{ANSWER}  ") == 2


@pytest.mark.req("R0.81")
def test_answers_that_are_at_least_ninety_per_cent_alike_are_the_same(subtests: pytest.Subtests) -> None:
    for count, found in [(0, 0), (9, 0), (10, 0), (11, None), (100, None)]:
        with subtests.test(count=count):
            answers = Answers()
            answers.add(0, ANSWER)
            assert answers.add(1, changed(ANSWER, count)) == found


@pytest.mark.req("R0.81")
def test_an_answer_is_compared_with_the_last_five(subtests: pytest.Subtests) -> None:
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


def test_of_several_the_newest_is_named() -> None:
    answers = Answers()
    answers.add(0, ANSWER)
    answers.add(3, ANSWER)
    assert answers.add(5, ANSWER) == 3


def test_of_long_answers_the_beginning_alone_does_not_make_them_the_same() -> None:
    answers, beginning = Answers(), unlike(0) * 20
    answers.add(0, beginning + unlike(1) * 20)
    assert answers.add(1, beginning + unlike(2) * 20) is None
    assert answers.add(2, beginning) is None
    assert answers.add(3, beginning + unlike(2) * 20) == 1


@pytest.mark.req("KX.8")
def test_after_a_word_of_the_person_every_answer_is_new() -> None:
    answers = Answers()
    answers.add(0, ANSWER)
    answers.clear()
    assert answers == Answers()
    assert answers.add(1, ANSWER) is None


@given(st.lists(st.text(max_size=60), max_size=8))
def test_what_is_found_is_one_of_the_rounds_before(texts: list[str]) -> None:
    answers = Answers()
    for index, text in enumerate(texts):
        found = answers.add(index, text)
        assert found is None or found < index
        if len(text.strip()) >= 40:
            assert answers.add(index, text) == index  # at once again it is alike, whatever it is
        else:
            assert found is None


@pytest.mark.req("R0.81")
def test_a_round_says_which_round_its_answer_repeats() -> None:
    tale = Story().said(ANSWER).called("look").said(ANSWER[:-1] + "!")
    assert [one.said_before for one in tale.run.rounds] == [None, None, 0]
    assert tale.run.judged.repeated == 1


@pytest.mark.req("R0.81")
def test_words_beside_a_call_are_no_answer() -> None:
    tale = Story().said(ANSWER)
    call = tale.begun().call("look")
    tale.replied(Text(ANSWER), call).ran(call).ended()
    assert tale.last.said_before is None
    assert tale.said(ANSWER).last.said_before == 0


@pytest.mark.req("R0.81", "KX.8")
def test_the_person_may_ask_for_the_same_answer_again() -> None:
    tale = Story().said(ANSWER).said(ANSWER).heard("Say it again")
    assert tale.run.judged.repeated == 0
    tale.said(ANSWER)
    assert tale.last.said_before is None


def test_long_answers_that_only_begin_alike_are_not_the_same() -> None:
    begun = "The beginning is the same. " * 60
    answers = Answers()
    assert answers.add(0, begun + "And it ends in one way, which is quite its own. " * 20) is None
    assert answers.add(1, begun + "Here however everything has another close, as you see! " * 18) is None


def test_an_answer_and_one_much_longer_are_not_the_same() -> None:
    answers = Answers()
    assert answers.add(0, "x" * 1_000) is None
    assert answers.add(1, "x" * 2_000) is None


def test_a_short_answer_that_is_cut_a_little_is_still_the_same() -> None:
    text = "The table has three columns and twelve rows, and none of its values is missing, nor twice there."
    answers = Answers()
    assert answers.add(0, text) is None
    assert answers.add(1, text[: int(len(text) * 0.85)]) == 0
