"""Markdown of a model: rendered, harmless and bounded."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hostile import CORPUS, check_is_harmless, visible_text
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples, size

from agentnb.display.css import inline_css
from agentnb.display.markdown import markdown
from agentnb.display.markdown.markdown import GROWTH, fragment, markdown_html

MARKS = [
    *"`*_[]()<>!#-|~:&\\\n\t \"'+.=0aA/;",
    "```",
    "\n\n",
    "    ",
    "](",
    "https://a.example",
    "javascript:",
    "<script>",
    "&#x202e;",
    "\x1b",
]


def inside(text: str) -> str:
    return fragment(text).replace("\n", "")


@pytest.mark.slow("240 texts, two dozen of them huge")
def test_hostile_text_never_becomes_markup_and_html_growth_is_bounded(subtests: pytest.Subtests) -> None:
    for place, one in enumerate(CORPUS):
        with subtests.test(one.name):
            html = markdown_html(one.text)
            check_is_harmless(html)
            if place % size(3, nightly=1) == 0:
                check_is_harmless(inline_css(html))
            assert [markup for markup in one.never if markup in html] == []
            # Links get attributes in the browser's form, at most as long again for each.
            assert len(html) <= 3 * GROWTH * min(len(one.text), markdown.MAX_CHARACTERS) + 2_000


@examples(300)
@given(st.text(st.characters(exclude_categories=()), max_size=200) | st.lists(st.sampled_from(MARKS), max_size=60).map("".join))
def test_any_text_is_rendered_and_harmless(text: str) -> None:
    check_is_harmless(markdown_html(text))


def test_markdown_elements_are_rendered_as_html(subtests: pytest.Subtests) -> None:
    cases = [
        ("a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <s>d</s> <code>e</code></p>"),
        ("> a\n\n---", "<blockquote><p>a</p></blockquote><hr>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("- a\n  - b", "<ul><li>a<ul><li>b</li></ul></li></ul>"),
        ("a  \nb", "<p>a<br>b</p>"),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>"),
        ("", ""),
        (" \n\t\n", ""),
    ]
    for text, html in cases:
        with subtests.test(text=text):
            assert inside(text) == html


def test_formulas_are_typeset_and_other_tex_stays_verbatim(subtests: pytest.Subtests) -> None:
    for text in ["$x_1$", "$a*b*c$", "\\(a_b\\)", "\\[\\frac{1}{2}\\,c\\]", "$$\na * b * c\n$$", "it is $5*x*y$."]:
        with subtests.test(text=text):
            assert fragment(text).count("<math ") == 1 and "$" not in fragment(text) and "\\" not in fragment(text)
    for text in ["$$a_b_c \\\\ d$$", "$\\ce{H_2O} *x*$", "\\[link\\]", "$PATH$", "$\\href{//evil}{*x*}$"]:
        with subtests.test(text=text):
            assert fragment(text) == f"<p>{text}</p>\n"


def test_single_dollar_sign_does_not_start_a_formula(subtests: pytest.Subtests) -> None:
    cases = [
        ("$5 *and* $10", "$5 <em>and</em> $10"),
        ("from $ 5 *and* $, so", "from $ 5 <em>and</em> $, so"),
        ("$A/*x*/$1", "$A/<em>x</em>/$1"),
        ("`$a` *b* `c$`", "<code>$a</code> <em>b</em> <code>c$</code>"),
        ("$HOME and `x$`", "$HOME and <code>x$</code>"),
        ("\\( *a*", "( <em>a</em>"),
        ("[$a_b_c$](x) \\$ $$", "$a_b_c$ (x) $ $$"),
    ]
    for text, html in cases:
        with subtests.test(text=text):
            assert inside(text) == f"<p>{html}</p>"


def test_table_keeps_its_alignment_without_styles() -> None:
    html = inside("|a|b|c|\n|:-|-:|-|\n|1|2|3|")
    assert (
        '<th class="agentnb-cell-left">a</th><th class="agentnb-cell-right">b</th><th class="agentnb-cell-left">c</th>' in html
    )
    assert (
        '<td class="agentnb-cell-left">1</td><td class="agentnb-cell-right">2</td><td class="agentnb-cell-left">3</td>' in html
    )
    assert "style" not in html


def test_headings_become_bold_paragraphs_and_stay_out_of_the_outline(subtests: pytest.Subtests) -> None:
    for text in ["# A *b*", "###### A *b*", "A *b*\n===", "A *b*\n---"]:
        with subtests.test(text=text):
            assert inside(text) == "<p><strong>A <em>b</em></strong></p>"


def test_code_blocks_keep_their_text_exactly(subtests: pytest.Subtests) -> None:
    code = "\n\tif a < b:\n    x  = '&lt;'\n\n"
    for language in ("py", "", "nonsense", 'py" onclick="x', "sql"):
        with subtests.test(language):
            html = fragment(f"```{language}\n{code}```")
            check_is_harmless(html)
            assert unescape(re.sub(r"<[^>]+>", "", html)) == f"{code}\n"
            assert html.startswith('<pre class="agentnb-code-block"><code class="agentnb-code-text">')


def test_code_is_highlighted_in_its_language() -> None:
    html = fragment("```python\nif x: return 'text', len(x)  # why\n```")
    for name, text in {"keyword": "if", "string": "&#x27;text&#x27;", "name": "len", "comment": "# why"}.items():
        assert f'<span class="agentnb-code-{name}">{unescape(text)}</span>' in html
    assert "<span" not in fragment("```nonsense\nif x: return 'text'\n```")
    assert "<span" not in fragment("```python\n" + "x = 1\n" * 4_000 + "```")


def test_links_open_in_a_new_tab_without_a_referrer() -> None:
    html = inside('[a](https://a.example/?x=1&y=2 "title") <me@a.example>')
    told = ' target="_blank" rel="noopener noreferrer nofollow"'
    assert f'<a href="https://a.example/?x=1&amp;y=2"{told}>a</a>' in html
    assert f'<a href="mailto:me@a.example"{told}>me@a.example</a>' in html


def test_addresses_that_are_not_web_links_stay_text(subtests: pytest.Subtests) -> None:
    cases = [
        ("[data](../penguins.csv)", "data (../penguins.csv)"),
        ("[*x*](ftp://a.example)", "<em>x</em> (ftp://a.example)"),
        ("<ftp://a.example>", "ftp://a.example"),
        ("[x](#)", "x (#)"),
        ("[x]()", "x"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        (f"[x](https://a.example/{'y' * 2_000})", f"x (https://a.example/{'y' * 182} … (1,818 more characters))"),
    ]
    for text, shown in cases:
        with subtests.test(text=text):
            assert inside(text) == f"<p>{shown}</p>"


def test_picture_becomes_its_alt_text_and_address(subtests: pytest.Subtests) -> None:
    cases = [
        ("![a *b*\nc](https://a.example/x.png)", "a b c", "https://a.example/x.png"),
        ("![](https://a.example/x.png)", "https://a.example/x.png", "https://a.example/x.png"),
        ("[![a](https://a.example/x.png)](https://b.example)", "a (https://a.example/x.png)", "https://b.example"),
        ("![a](x.png)", "a (x.png)", None),
        ("![a](data:image/png;base64,eA==)", "a (data:image/png;base64,eA==)", None),
    ]
    for text, shown, link in cases:
        with subtests.test(text=text):
            html = inside(text)
            assert visible_text(html) == shown
            assert (f'href="{link}"' if link else "<p>") in html
            assert "<img" not in html


def test_truncation_note_of_long_text_is_outside_code_fences() -> None:
    html = markdown_html("```\n" + "x" * 200, most=104)
    assert f">{'x' * 100}</code></pre>" in html
    assert html.endswith('<p class="agentnb-md-left-out">… (100 more characters)</p></div>')
    assert "more characters" not in markdown_html("x" * 104, most=104)


def test_too_deeply_nested_blocks_stay_verbatim(subtests: pytest.Subtests) -> None:
    for text in ["> " * 100 + "x", "- " * 100 + "x", "> - " * 40 + "x", "1. > " * 40 + "x"]:
        with subtests.test(text=text):
            assert fragment(text).startswith("<pre><code>")
            assert visible_text(fragment(text)) == text


def test_too_deeply_nested_emphasis_stays_verbatim() -> None:
    text = "*a **b " * 200 + "c** d* " * 200
    assert inside(text) == f"<p>{text.strip()}</p>"


def test_moderately_nested_blocks_are_rendered() -> None:
    html = fragment("\n".join("  " * depth + f"- {depth}" for depth in range(20)))
    assert html.count("<ul>") == 20
    assert visible_text(html) == " ".join(map(str, range(20)))


@pytest.mark.slow("texts of 5,000 brackets, at night of 100,000")
def test_parsing_brackets_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from markdown_it.parser_inline import ParserInline

    steps = 0
    skip = ParserInline.skipToken

    def counted(self, state):  # type: ignore[no-untyped-def]
        nonlocal steps
        steps += 1
        skip(self, state)

    monkeypatch.setattr(ParserInline, "skipToken", counted)
    for text in (text * size(1, nightly=20) for text in ("[" * 5_000, "[a" * 2_500, "[[]" * 1_667, "![](a" * 1_000)):
        fragment(text)
    assert steps < size(1_000_000, nightly=20_000_000)


def test_text_is_shown_when_the_markdown_library_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def render(self, text: str) -> str:
            raise RecursionError(text)

    monkeypatch.setattr(markdown, "parser", Broken)
    assert inside("a <b> *c*") == "<pre><code>a &lt;b&gt; *c*</code></pre>"


def test_sanitizer_removes_markup_that_the_parser_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses markup as if the parser had let it through."""

    class Open:
        def render(self, text: str, env: object) -> str:
            return text

    monkeypatch.setattr(markdown, "parser", Open)
    for sample in CORPUS:
        if len(sample.text) < 20_000:
            # The sanitizer closes only its own open elements; this keeps the card whole.
            check_is_harmless(markdown_html(sample.text))
    kept = fragment(
        '<p id="x" class="y" style="z" title="t" onclick="w">a<script>b</script><img src="https://a.example/x"></p>'
    )
    assert kept == "<p>a</p>"


def test_direction_and_escape_characters_are_replaced_even_as_entities() -> None:
    assert inside("a\x1b[31m &#x202e;b \u2066 &#27;") == "<p>a\ufffd[31m \ufffdb \ufffd \ufffd</p>"


def test_surrogates_are_joined_or_replaced() -> None:
    assert visible_text(markdown_html("\ud83d\ude00 \ud83d")) == "😀 \ufffd"


def test_padded_table_rows_do_not_exceed_the_token_limit() -> None:
    from agentnb.display.markdown.markdown_parser import MAX_TOKENS, top_blocks

    table = "|a" * 250 + "\n" + "|-" * 250 + "\n" + "a\n" * 250 + "\n---\n"
    kinds = [kind for kind, _, _ in top_blocks(table * 5)]
    assert kinds.count("table_open") == 1 and MAX_TOKENS < 250 * 250 * 3
