"""Markdown that arrives in pieces."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import property_settings
import pytest
from hostile import CORPUS, check_is_harmless, visible_text
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.display.markdown import streamed_markdown
from agentnb.display.markdown.markdown import MAX_CHARACTERS, markdown_box, markdown_html
from agentnb.display.markdown.streamed_markdown import Blocks

ORDINARY = [
    "A sentence with *emphasis*, `code` and a [link](https://a.example).",
    "Line one\nline two",
    "# A heading",
    "Underlined\n---",
    "---",
    "- a\n- b\n  - c",
    "- loose\n\n- list\n\n  with more",
    "1. one\n2. two",
    "7) seven",
    "> quoted\nlazily",
    "> - a\n>\n> - b",
    "```py\nx = 1\n\ny = 2\n```",
    "~~~\n```\n\n# no heading\n~~~",
    "````\n```\n````",
    "```\nnever closed\n\nand more",
    "    indented\n\n    code",
    "\tindented by a tab",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "a | b\n--|--\n1 | 2",
    "- in a list:\n\n  ```\n  code\n\n  more\n  ```",
    "$$\nx = y\n$$",
    "* * *",
    "<div>\n\ntext\n\n</div>",
    "é 😀 \u202e \r\n x",
    "+ a\n\n\n+ b",
    "   three blanks",
    "``` not `a fence",
    "-",
    "#",
]
SMALL = [*"$`*_-+>|#=~1.) \n\ta", "\n", "\n\n", "```", "\n```", "\n\n- ", "\n\n    ", "\n> ", "\n|-|-|\n", "\r\n"]


def streamed(text: str, size: int, *, settled_every: int = 1, most: int = MAX_CHARACTERS) -> tuple[list[str], str]:
    """Return the blocks settled before the end, and the whole `markdown_box`."""
    blocks = Blocks(most)
    settled = []
    for place, start in enumerate(range(0, len(text), size)):
        blocks.feed(text[start : start + size])
        if place % settled_every == 0:
            settled += blocks.settle()
    return list(settled), markdown_box(*settled, *blocks.finish())


@examples(400)
@given(
    st.lists(st.tuples(st.sampled_from(ORDINARY), st.sampled_from(["\n", "\n\n", "\n\n\n", "\n \n"])), max_size=8),
    st.integers(1, 40),
    st.integers(1, 5),
)
def test_ordinary_text_renders_identically_streamed_or_complete(pieces: list[tuple[str, str]], size: int, every: int) -> None:
    text = "".join(piece + between for piece, between in pieces)
    assert streamed(text, size, settled_every=every)[1] == markdown_html(text)


@examples(600)
@given(st.lists(st.sampled_from(SMALL), max_size=60).map("".join), st.integers(1, 10))
def test_odd_text_renders_identically_streamed_or_complete(text: str, size: int) -> None:
    assert streamed(text, size)[1] == markdown_html(text)


@pytest.mark.slow("80 texts in thirty pieces each, at night 240 in three hundred")
def test_hostile_stream_never_becomes_markup(subtests: pytest.Subtests) -> None:
    for sample in CORPUS[:: property_settings.size(3, nightly=1)]:
        with subtests.test(sample.name):
            settled, html = streamed(sample.text, max(1, len(sample.text) // property_settings.size(30, nightly=300)))
            for block in settled:
                check_is_harmless(block)
            check_is_harmless(html)
            assert [markup for markup in sample.never if markup in html] == []


def test_block_settles_as_soon_as_it_cannot_change(subtests: pytest.Subtests) -> None:
    cases = [
        ("para\n", 0),
        ("para\n\n", 1),
        ("para\n\nmore", 1),
        ("para\n```\n", 1),
        ("para\n# ", 0),
        ("```\nx\n\n\n", 0),
        ("```\nx\n```", 0),
        ("```\nx\n```\n", 1),
        ("- a\n\n", 0),
        ("- a\n\n- b\n\n", 0),
        ("- a\n\nb\n", 1),
        ("    a\n\n", 0),
        ("    a\n\nb\n", 1),
        ("|a|\n|-|\n|1|\n", 0),
        ("|a|\n|-|\n|1|\n\n", 1),
        ("> a\n\n", 1),
        ("# a\n\nb\n\n---\n\n", 3),
    ]
    for text, settled in cases:
        with subtests.test(text=text):
            assert len(streamed(text, 1)[0]) == settled
            assert len(streamed(text, 100)[0]) == settled


def test_tail_is_the_unsettled_text_and_is_sanitized() -> None:
    blocks = Blocks()
    blocks.feed("one\r")
    assert (blocks.settle(), blocks.tail) == ([], "one")
    blocks.feed("\n\r\nt\x1bwo \ud83d")
    assert [visible_text(block) for block in blocks.settle()] == ["one"]
    assert blocks.tail == "t\ufffdwo "
    blocks.feed("\ude00")
    assert blocks.tail == "t\ufffdwo 😀"
    assert [visible_text(block) for block in blocks.finish()] == ["t\ufffdwo 😀"]
    assert (blocks.tail, blocks.finish()) == ("", [])


def test_tail_kind_tells_code_from_text(subtests: pytest.Subtests) -> None:
    cases = [
        ("", "text"),
        ("words", "text"),
        ("``", "text"),
        ("```", "code"),
        ("```py\nx", "code"),
        ("\n\n~~~\nx\n\ny", "code"),
        ("```py\nx\n```\n", "text"),
        ("```py\nx\n```\n\nwords", "text"),
        ("words\n\n```py\nx", "code"),
        ("words\n```py\nx", "code"),
        ("words\n\n    x", "code"),
        ("words\n    x", "text"),
        ("- a\n\n      x", "text"),
        ("``` a ` b", "text"),
    ]
    for text, kind in cases:
        with subtests.test(text=text):
            for size in (1, 100):
                blocks = Blocks()
                for start in range(0, len(text), size):
                    blocks.feed(text[start : start + size])
                    blocks.settle()
                assert blocks.tail_kind == kind


def test_long_streamed_text_is_truncated_where_complete_text_is() -> None:
    text = "words and words\n\n" * 20
    assert visible_text(streamed(text, 7, most=100)[1]) == visible_text(markdown_html(text, 100))
    assert "(240 more characters)" in streamed(text, 7, most=100)[1]


@pytest.mark.slow("long texts, fed piece by piece")
def test_streaming_does_not_parse_a_quadratic_number_of_characters(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts characters given to the parser, so that no time is asserted."""
    cases = [
        "```py\n" + "x = 1\n\n" * 6_000,
        "one line " * 5_000,
        "many lines\n" * 4_000,
        "- a list\n\n" * 4_500,
        "    indented\n\n" * 3_000,
        "[a]: https://a.example\n\n" * 1_800,
        "> quoted\n\n" * 4_000,
        "a paragraph\n\n" * 3_500,
        "- ```\n  x\n\n" * 3_000,
        "* * *\n```\n```\n" * 3_000,
    ]
    parsed = 0

    def counted(made: Callable[[str], Any]) -> Callable[[str], Any]:
        def call(given: str) -> Any:
            nonlocal parsed
            parsed += len(given)
            return made(given)

        return call

    for name in ("top_blocks", "fragment"):
        monkeypatch.setattr(streamed_markdown, name, counted(getattr(streamed_markdown, name)))
    for text in (case[: len(case) // property_settings.size(3, nightly=1)] for case in cases):
        with subtests.test(text=text):
            parsed = 0
            streamed(text, 12)
            assert parsed <= 6 * len(text)


def test_feeding_a_delta_does_not_parse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_markdown, "top_blocks", lambda _: pytest.fail("parsed while fed"))
    blocks = Blocks()
    for _ in range(100):
        blocks.feed("words\n\n")
    blocks = Blocks()
    blocks.feed("words without an end")
    assert blocks.settle() == []


def test_size_of_deltas_does_not_change_the_result() -> None:
    text = "\n\n".join(ORDINARY)
    chance = random.Random(1)
    for _ in range(30):
        blocks, made, start = Blocks(), [], 0
        while start < len(text):
            size = chance.randint(1, 50)
            blocks.feed(text[start : start + size])
            start += size
            made += blocks.settle() if chance.random() < 0.5 else []
        assert markdown_box(*made, *blocks.finish()) == markdown_html(text)
