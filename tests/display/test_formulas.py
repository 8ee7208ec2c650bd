"""Formulas in the text of a model: recognition, drawing, and readable text without MathML."""

from __future__ import annotations

import subprocess
import sys
from time import process_time

import pytest
from hostile import check_is_harmless, visible_text
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.display.css import inline_css
from agentnb.display.markdown.markdown import fragment, markdown_html
from agentnb.display.markdown.markdown_parser import MARK, MAX_FORMULAS, MAX_TEX, formula_html, is_formula

TEX = [
    *"{}^_&'x2=+ ()[]|,.",
    *("\\frac", "\\sqrt", "\\left(", "\\right)", "\\begin{aligned}", "\\end{aligned}", "\\\\", "\\text{a b}", "\\mathbf{x}"),
    *("\\sum", "\\alpha", "\\hat", "\\overline", "\\binom", "\\boxed", "\\overset", "\\limits", "\\not", "\\operatorname{a}"),
    *("\\begin{pmatrix}", "\\end{pmatrix}", "\\;", "\\quad", "\\bigl", "\\pm", "\\underbrace", "\\displaystyle", "\\pmod"),
    *("\\href", "\\newcommand", "\\def", "\\color{red}", "\\rule", "\\hspace{9em}", "\\unicode{60}", "&lt;", "<b>", "%", "$"),
]


def typeset(text: str) -> bool:
    return "<math" in fragment(text)


def test_formulas_are_typeset_but_prices_and_variables_are_not(subtests: pytest.Subtests) -> None:
    formulas = [
        "$x$",
        "$R^2 = 0.76$",
        "($p<0.05$)",
        "**$n=3$**",
        "$2x+1$",
        "$\\alpha$, so",
        "\\(n\\)",
        "$$a + b$$",
        "\\[ x = 1 \\]",
    ]
    formulas += ["$10^{-5}$", "$95\\%$", "$\\text{two words here}$", "| a |\n|-|\n| $x$ |", "> $x$", "$x$-axis", "$f'(x)$"]
    for text in formulas:
        with subtests.test(formula=text):
            assert typeset(text)
    texts = [
        "costs $5 and $6",
        "from $5-$6",
        "$5$",
        "$5,000$",
        "$3/month and 4$",
        "$5 or 6$",
        "a $ b $ c",
        "US$x$",
        "$x$2",
        "$x$s",
    ]
    texts += [
        "$HOME/bin:$PATH",
        "$PATH$",
        "\\$x\\$",
        "$x\\$",
        "$a\nb = c$",
        "$$ and $$",
        "\\[x\\]",
        "f\\(x\\)",
        "\\(see below\\)",
    ]
    texts += ["`$x$`", "```\n$x$\n```", "    $x$", "<https://a.example/$x$>", "$`x`$", "$$$$", "$ $", f"$x$ {MARK}"]
    for text in texts:
        with subtests.test(text=text):
            assert not typeset(text)


def test_formula_is_readable_where_mathml_is_dropped(subtests: pytest.Subtests) -> None:
    cases = [
        ("x^2 + y_{i+1}", "x^2 +y_(i+1)"),
        ("\\frac{a}{b+c}", "a/(b+c)"),
        ("\\sqrt{x+1}", "√(x+1)"),
        ("\\sqrt[3]{y}", "(y)^(1/3)"),
        ("\\sum_{i=1}^n i", "∑_(i=1)^n i"),
        ("\\binom{n}{k}", "(n over k )"),
        ("f'(x)", "f\u2032 (x)"),
        ("\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}", "(a, b; c, d )"),
        ("\\begin{aligned} a &= b \\\\ &= c \\end{aligned}", "a =b; =c"),
        (
            "\\mathbb{R}^n \\mathbf{x} \\mathcal{L} \\boldsymbol\\beta \\mathbf{AB}",
            "\u211d^n \U0001d431\u2112\U0001d737\U0001d400\U0001d401",
        ),
        ("\\hat\\beta \\pm 1.5", "β^ ±1.5"),
        ("\\text{if } x < 1", "if x<1"),
    ]
    for tex, text in cases:
        with subtests.test(tex=tex):
            assert " ".join(visible_text(formula_html(tex, block=False)).replace("\xa0", " ").split()) == " ".join(text.split())


def test_unsupported_tex_stays_readable(subtests: pytest.Subtests) -> None:
    unknown = [
        "\\foo x",
        "\\ce{H}",
        "x^1^2",
        "\\frac{1}",
        "\\left( x",
        "a & b",
        "a \\\\ b",
        "x % y",
        "\\begin{tikz} x \\end{tikz}",
    ]
    harmful = [
        "\\href{https://a.example}{x}",
        "\\color{red} x",
        "\\class{jp-Button}{x}",
        "\\style{position:fixed}{x}",
        "\\unicode{60}",
    ]
    harmful += [
        "\\newcommand{\\a}{x}\\a",
        "\\def\\a{x}\\a",
        "\\hspace{900em} x",
        "\\rule{9em}{9em}",
        "\\raise{9em}{x}",
        "\\kern9em x",
    ]
    for tex in [*unknown, *harmful, "{" * 40 + "x" + "}" * 40, "x+" * MAX_TEX]:
        with subtests.test(tex=tex[:60]):
            assert formula_html(tex, block=True) == ""
            if len(tex) < 60 and "\\\\" not in tex:
                assert fragment(f"$${tex}$$") == f"<p>$${tex}$$</p>\n".replace("&", "&amp;")


def test_text_in_a_formula_never_becomes_markup() -> None:
    html = fragment("$\\text{<script>alert(1)</script>} < 1$")
    check_is_harmless(html)
    assert "<mtext>&lt;script&gt;alert(1)&lt;/script&gt;</mtext>" in html
    assert visible_text(fragment("$x = 1$ and &#xE000;0&#xE000;")) == "x=1 and x=1"  # no other formula can get in here
    assert "<pre><code>" in fragment("$x = 1$ and &#xE000;9&#xE000;")


def test_saved_formula_has_inline_styles() -> None:
    html = inline_css(fragment("$$\\boxed{\\begin{aligned} a &= b \\end{aligned}}$$"))
    assert 'class="agentnb-formula-boxed" style="border:1px solid;' in html and 'class="agentnb-cell-right" style=' in html
    check_is_harmless(html)


def test_formulas_over_the_limit_are_shown_as_tex() -> None:
    text = " ".join(f"$x_{{{n}}}$" for n in range(MAX_FORMULAS + 2))
    assert fragment(text).count("<math ") == MAX_FORMULAS and f"$x_{{{MAX_FORMULAS + 1}}}$" in fragment(text)


@pytest.mark.parametrize("block", [True, False])
@examples(300)
@given(tex=st.lists(st.sampled_from(TEX), max_size=40).map("".join) | st.text(max_size=60))
def test_any_tex_is_harmless_and_bounded(block: bool, tex: str) -> None:
    html = formula_html(tex, block=block)
    check_is_harmless(html)
    check_is_harmless(markdown_html(f"a $${tex}$$ b \\({tex}\\) c ${tex}$ d"))
    assert len(html) <= 60 * len(tex) + 300
    assert is_formula(tex, "$") in (True, False)


def test_every_formula_is_typeset_quickly(subtests: pytest.Subtests) -> None:
    pieces = [
        "\\sqrt",
        "\\frac",
        "{x",
        "_{x",
        "\\left(",
        "\\not",
        "x'",
        "\\overline",
        "x^{",
        "\\begin{cases}",
        "\\binom",
        "a_1^2",
    ]
    for piece in [*pieces, "\\text{a}", "\\operatorname{a}"]:
        with subtests.test(piece):
            started = process_time()
            formula_html(piece * (MAX_TEX // len(piece)), block=True)
            assert process_time() - started < 1


def test_formula_library_is_loaded_only_when_first_needed() -> None:
    code = (
        "import sys; from agentnb.display.markdown.markdown import fragment; fragment('It costs $5 and $6, `$x$`.'); "
        "before = 'latex2mathml' in sys.modules; fragment('$x$'); print(before, 'latex2mathml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
