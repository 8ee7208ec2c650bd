"""The check that all tests of display lean on."""

from __future__ import annotations

import pytest
from hostile import CORPUS, HARMFUL_HTML, Harmful, check_is_harmless, visible_text

from agentnb.display.css import inline_css
from agentnb.display.markup import tag


def test_harmful_html_is_not_let_through(subtests: pytest.Subtests) -> None:
    for html in HARMFUL_HTML:
        with subtests.test(html=html):
            with pytest.raises(Harmful):
                check_is_harmless(html)


def test_harmless_html_passes(subtests: pytest.Subtests) -> None:
    cases = [
        "plain & simple",
        '<a href="https://a.example/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">x</a>',
        '<a href="mailto:me@a.example">x</a>',
        '<img class="agentnb-tool-picture" src="data:image/png;base64,eA==" alt="x">',
        '<details open class="agentnb-md" data-fold="x" aria-label="y"><summary>z</summary><br>&lt;script&gt;</details>',
        inline_css(tag("div", "md", "x")),
    ]
    for html in cases:
        with subtests.test(html=html):
            check_is_harmless(html)


def test_a_page_has_a_head_and_a_piece_has_none() -> None:
    page = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>x</title></head><body>y</body></html>'
    check_is_harmless(page, document=True)
    with pytest.raises(Harmful):
        check_is_harmless(page)


def test_the_texts_have_names_of_their_own() -> None:
    assert len({one.name + one.text for one in CORPUS}) == len(CORPUS)
    assert any(len(one.text) > 1_000_000 for one in CORPUS)


def test_only_escaping_keeps_most_of_the_corpus_harmless() -> None:
    """The corpus would not be worth much if it passed as it is."""
    harmful = 0
    for one in CORPUS:
        try:
            check_is_harmless(one.text[:10_000])
        except Harmful:
            harmful += 1
    assert harmful > 60


def test_visible_text_is_the_words() -> None:
    assert visible_text("<p>a\n <b>b</b>&lt;c&gt;</p>") == "a b<c>"
