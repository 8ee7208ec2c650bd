"""Code in the Markdown of a model: a ground of its own, and the colours of its language."""

from __future__ import annotations

import re
from html import unescape
from itertools import groupby
from typing import Any

from agentnb.display.markup import Html, joined, tag

LANGUAGES = frozenset(
    "bash console css html javascript js json julia py python r rust sh shell sql toml ts typescript xml yaml yml".split()  # noqa: SIM905
)
"""The languages that are coloured, by the word after the fence."""
CLASSES = frozenset(f"language-{name}" for name in LANGUAGES)
MAX_COLOURED = 20_000
"""Characters of a block that is coloured; a longer one is shown plain."""
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
"""The classes of tokens, by the beginning of their type; other tokens have the colour of the text."""


def with_code(html: str) -> Html:
    """Return sanitised Markdown with its code marked up: blocks in the colours of their language."""
    return Html(_BLOCK.sub(lambda found: _block(unescape(found[2]), (found[1] or "").removeprefix("language-")), html))


def _block(code: str, language: str) -> Html:
    return tag("pre", "code-block", tag("code", "code-text", _coloured(code, language)))


def _coloured(code: str, language: str) -> Html:
    if language not in LANGUAGES or len(code) > MAX_COLOURED:
        return joined(code)
    from pygments.lexers import get_lexer_by_name  # takes 20 ms

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    runs = groupby(lexer.get_tokens(code), key=lambda token: _class_of(token[0]))
    return joined(*[_span(kind, "".join(text for _, text in tokens)) for kind, tokens in runs])


def _class_of(kind: Any) -> str:
    name = str(kind).removeprefix("Token.")
    return next((found for start, found in _KINDS if name.startswith(start)), "")


def _span(kind: str, text: str) -> str:
    return tag("span", kind, text) if kind and text.strip() else text
