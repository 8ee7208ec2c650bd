"""The check that all display tests rely on."""

from __future__ import annotations

import pytest
from hostile import CORPUS, HARMFUL_HTML, Harmful, check_is_harmless, visible_text

from agentnb.display.css import inline_css
from agentnb.display.markup import tag


def test_harmful_html_is_rejected(subtests: pytest.Subtests) -> None:
    for html in HARMFUL_HTML:
        with subtests.test(html=html):
            with pytest.raises(Harmful):
                check_is_harmless(html)


def test_harmless_html_is_accepted(subtests: pytest.Subtests) -> None:
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


def test_only_a_page_has_a_head() -> None:
    page = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>x</title></head><body>y</body></html>'
    check_is_harmless(page, document=True)
    with pytest.raises(Harmful):
        check_is_harmless(page)


def test_hostile_texts_have_unique_names() -> None:
    assert len({sample.name + sample.text for sample in CORPUS}) == len(CORPUS)
    assert any(len(sample.text) > 1_000_000 for sample in CORPUS)


def test_most_of_the_hostile_corpus_is_harmful_without_escaping() -> None:
    """An unescaped corpus must fail, or it tests nothing."""
    harmful = 0
    for sample in CORPUS:
        try:
            check_is_harmless(sample.text[:10_000])
        except Harmful:
            harmful += 1
    assert harmful > 60


def test_visible_text_excludes_tags_and_extra_whitespace() -> None:
    assert visible_text("<p>a\n <b>b</b>&lt;c&gt;</p>") == "a b<c>"
