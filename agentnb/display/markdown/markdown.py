"""Models' Markdown as HTML: parsed by one library, sanitised by another, and bounded whatever the text."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from agentnb.display.markdown.markdown_parser import MARK, parser
from agentnb.display.markup import NOTHING, PREFIX, Html, join_html, tag
from agentnb.display.texts.labels import clean

if TYPE_CHECKING:
    import nh3

LANGUAGES = frozenset(
    "bash console css html javascript js json julia py python r rust sh shell sql toml ts typescript xml yaml yml".split()  # noqa: SIM905
)
"""Languages that are highlighted, by the word after the fence."""
CLASSES = frozenset(f"language-{name}" for name in LANGUAGES)
MAX_COLOURED = 20_000
"""Maximum characters of a highlighted block; longer ones are shown plain."""
_BLOCK = re.compile(r'<pre><code(?: class="([^"]*)")?>(.*?)</code></pre>', re.DOTALL)
_KINDS = (
    ("Comment", "code-comment"),
    ("Keyword", "code-keyword"),
    ("Operator.Word", "code-keyword"),
    ("Literal.String", "code-string"),
    ("Literal.Number", "code-number"),
    ("Name.Function", "code-name"),
    ("Name.Class", "code-name"),
    ("Name.Decorator", "code-name"),
    ("Name.Builtin", "code-name"),
)
"""Classes of tokens by the prefix of their type. Other tokens have the colour of ordinary text."""


def with_code(html: str) -> Html:
    """Return sanitised Markdown with its code blocks highlighted."""
    return Html(_BLOCK.sub(lambda found: _block(unescape(found[2]), (found[1] or "").removeprefix("language-")), html))


def _block(code: str, language: str) -> Html:
    return tag("pre", "code-block", tag("code", "code-text", highlight_code(code, language)))


def highlight_code(code: str, language: str) -> Html:
    """Return code in the colours of its language; plain if it is long or the language is not in `LANGUAGES`."""
    if language not in LANGUAGES or len(code) > MAX_COLOURED:
        return join_html(code)
    from pygments.lexers import get_lexer_by_name  # takes 20 ms

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    runs = groupby(lexer.get_tokens(code), key=lambda token: _class_of(token[0]))
    return join_html(*[_span(kind, "".join(text for _, text in tokens)) for kind, tokens in runs])


def _class_of(kind: Any) -> str:
    name = str(kind).removeprefix("Token.")
    return next((css_class for start, css_class in _KINDS if name.startswith(start)), "")


def _span(kind: str, text: str) -> str:
    return tag("span", kind, text) if kind and text.strip() else text


MAX_CHARACTERS = 100_000
"""Maximum characters of text shown."""
GROWTH = 30
"""Maximum length of the HTML as a multiple of the text. Ordinary text about doubles; only attacks exceed this."""
_CELL = re.compile(r'<(t[hd])(?: align="(left|center|right)")?>')
_PLACE = re.compile(f"{MARK}(\\d+){MARK}")
ELEMENTS = {"p", "br", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "hr", "a"}
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES: dict[str, set[str]] = {"a": {"href"}, "ol": {"start"}, "th": {"align"}, "td": {"align"}, "*": set()}
"""Attributes allowed for each element; links also get ``rel`` and ``target``."""


def markdown_html(text: str, most: int = MAX_CHARACTERS) -> Html:
    """Return the text as HTML in a box. A long text is truncated, and the number of omitted characters is shown.

    Formulas are typeset. HTML, TeX that cannot be typeset, and text that is nested too deeply or that the library cannot parse
    are shown as written.
    """
    shown = clean(text)
    return markdown_box(fragment(shown[:most]), left_out(len(shown) - most))


def markdown_box(*content: Html) -> Html:
    """Wrap blocks of Markdown in a box."""
    return tag("div", "md", *content)


def left_out(count: int) -> Html:
    """Return a line with the number of omitted characters, if any."""
    return tag("p", "md-left-out", f"… ({count:,} more characters)") if count > 0 else NOTHING


def fragment(text: str) -> Html:
    """Return cleaned text as HTML, without a box."""
    if not text.strip():
        return NOTHING
    try:
        formulas: list[str] = []
        rendered = parser().render(text, {"formulas": None if MARK in text else formulas})
        if len(rendered) > GROWTH * len(text) + 2_000:
            return _as_written(text)
        # Clean again: only now are entities such as &#x202e; characters.
        shown = with_code(_CELL.sub(_align, clean(_cleaner().clean(rendered))))
        # Formulas last: the sanitiser drops MathML.
        return Html(_PLACE.sub(lambda found: formulas[int(found[1])], shown)) if formulas else shown
    except Exception:  # unparsable text must stay readable
        return _as_written(text)


def _align(cell: re.Match[str]) -> str:
    """Add an alignment class to a table cell; without our rule, JupyterLab would align all cells to the right."""
    return f'<{cell.group(1)} class="{PREFIX}cell-{cell.group(2) or "left"}">'


def _as_written(text: str) -> Html:
    return join_html(tag("pre", "", tag("code", "", text)), Html("\n"))


@cache
def _cleaner() -> nh3.Cleaner:
    """Return the cached sanitiser. It guards against flaws in the parser, but normally changes nothing."""
    import nh3

    return nh3.Cleaner(
        tags=ELEMENTS | TABLE,
        attributes=ATTRIBUTES,
        allowed_classes={"code": set(CLASSES)},
        set_tag_attribute_values={"a": {"target": "_blank"}},
        link_rel="noopener noreferrer nofollow",
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        clean_content_tags={"script", "style"},
    )
