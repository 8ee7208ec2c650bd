"""Descriptions that every request can hold."""

from __future__ import annotations

from agentnb.tools.library.hints import MAX_DESCRIPTION, MAX_OF_PARAMETER, short_description, shorten


def test_short_description_is_unchanged() -> None:
    assert short_description("First.\n\nSecond,\nof two lines.") == "First.\n\nSecond,\nof two lines."


def test_long_description_is_truncated_after_a_paragraph() -> None:
    assert short_description("First.\n\nSecond.\n\n" + "word " * 300 + "\n\nLast.") == "First.\n\nSecond."


def test_long_first_paragraph_is_truncated_after_a_sentence() -> None:
    assert short_description("First one. " + "word " * 300) == "First one."
    cut = short_description("word " * 300)
    assert cut.endswith("word…") and len(cut) <= MAX_DESCRIPTION


def test_text_is_truncated_after_a_sentence_or_word() -> None:
    assert shorten("Short.\nAnd of two lines.") == "Short.\nAnd of two lines."
    assert shorten("First one.\nSecond one. " + "word " * 60) == "First one. Second one."
    for text in ["word " * 60, "w" * 300]:
        assert shorten(text).endswith("…") and len(shorten(text)) <= MAX_OF_PARAMETER
