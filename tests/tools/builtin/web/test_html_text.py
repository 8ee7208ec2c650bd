"""Text of HTML: visible content, in readable order and form."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentnb.tools.builtin.web.page_text import html_text

PAGE = """<!DOCTYPE html><html><head><title>Tides &amp; times</title><style>p{}</style>
<script>alert("<p>1")</script></head><body>
<nav><ul><li><a href="/">Home</a><li><a href="../b?x=1#f">B <b>bold</b></a></ul></nav>
<h1>Brest</h1><p>High water is<br>at <em>04:12</em>, <code>x &lt; y</code>.
<p>Low   water
later.</p>
<table><tr><th>Time<th>m<tr><td>04:12<td>6.1</table>
<pre>
def f():
    return 1
</pre>
<img src=x alt="A chart"> <a href="javascript:alert(1)">js</a> <a href=#top>top</a> <a name=x>anchor</a>
<!-- secret --> a < b and c > d <noscript>no</noscript> end &copy; &#x41;"""
TEXT = """# Tides & times

- [Home](https://example.org/)
- [B bold](https://example.org/b?x=1#f)

# Brest

High water is
at 04:12, x < y.

Low water later.

Time | m
04:12 | 6.1

def f():
    return 1

[image: A chart] js top anchor a < b and c > d end \N{COPYRIGHT SIGN} A"""


def text(html: str) -> str:
    return html_text(html, "https://example.org/a/b")


def test_page_becomes_readable_text() -> None:
    assert text(PAGE) == TEXT


def test_hidden_page_content_is_omitted(subtests: pytest.Subtests) -> None:
    for html in (
        "<div hidden>Obey<div>me</div>!</div>",
        "<p hidden>Obey<p>",
        "<span aria-hidden=true>Obey</span>",
        '<div style="color: red; DISPLAY : none">Obey</div>',
        '<div style="visibility:hidden"><p>Obey</div>',
        '<span style="font-size:0">Obey</span>',
        '<span style="font-size: 0px; color: red">Obey</span>',
        '<span style="opacity: 0.0">Obey</span>',
        "<script>Obey</script>",
        "<style>Obey</style>",
        "<template><p>Obey</template>",
        "<noscript>Obey</noscript>",
        "<svg><text>Obey</text></svg>",
        "<iframe>Obey</iframe>",
        "<textarea>Obey</textarea>",
        "<!-- Obey -->",
        "<!Obey>",
        "<?Obey?>",
        '<img title="Obey">',
        '<meta content="Obey">',
        f"<a href='data:,{'x' * 30_000}Obey'></a>",
    ):
        with subtests.test(html[:60]):
            assert text(f"<p>Before {html} after").split() == ["Before", "after"]
    assert text('<span style="font-size: 0.9em; opacity: 1">Seen</span><br hidden>too').split() == ["Seen", "too"]


def test_links_are_absolute_web_addresses() -> None:
    assert text("<a href=x>in <p>two</a> parts") == "[in](https://example.org/a/x)\n\ntwo parts"
    assert text("<a href=x> </a><a href=y><img alt=Chart></a>") == "[[image: Chart]](https://example.org/a/y)"
    for target in ("mailto:a@b.test", "data:text/html,x", "#a", "", "http://[", f"/{'x' * 600}"):
        assert text(f'<a href="{target}">here</a>') == "here"


def test_unclosed_element_ends_the_page() -> None:
    for rest in ("<!-- ", "<a href='", "<![CDATA[", "<script>"):
        assert text(f"<p>Seen {rest} not seen") == "Seen"
    assert text("</p></a></pre></div>Seen") == "Seen"


@given(st.text(alphabet="<>/!-=\"' apdivhrefscript&;#x[]?\n", max_size=200))
def test_any_input_is_parsed_without_errors(html: str) -> None:
    assert isinstance(text(html), str)


def test_hostile_pages_are_parsed_in_linear_time(subtests: pytest.Subtests) -> None:
    """At twenty times the length, quadratic work would take 400 times as long."""
    pieces = (
        "<div>",
        "<b><p>",
        "<ul><li>",
        "<",
        "<!--",
        "<![CDATA[",
        "<?",
        "<!",
        "</",
        "<a ",
        '<a x="',
        "<a x=",
        "<a" + " " * 99,
        "&#x",
    )
    for piece in (*pieces, "<a href=x>", "<div hidden>", "<title>"):
        with subtests.test(piece.strip()):
            few, many = (_seconds(piece * (length // len(piece))) for length in (2_500, 50_000))
            assert many < 100 * few + 0.2


def _seconds(html: str) -> float:
    start = time.process_time()
    text(html)
    return time.process_time() - start
