"""The Markdown parser for text of models: its output is bounded in size, depth and work, and fetches nothing.

A formula becomes MathML if it is surely one; other TeX stays text. A picture becomes a link to it, a heading a paragraph in
bold (so that no heading of a model appears in the table of contents of the notebook), and an address that is neither web nor
mail becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from agentnb.display.markdown.formulas import DELIMITERS, formula_html, is_formula
from agentnb.display.texts.labels import cut

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MAX_NESTED = 60
"""Levels of quotes, lists and emphasis; text that nests deeper is shown as written."""
MAX_ADDRESS = 1_000
"""Characters of an address that is a link; longer ones are text."""
MAX_OF_AN_ADDRESS = 200
"""Characters shown of an address that is text."""
MAX_LOOKED_AT = 5_000_000
"""Characters that unmatched brackets may scan in one text: each scans all the text after it."""
MAX_TOKENS = 50_000
"""Tokens of a text after which no table begins: a table adds the cells that its rows leave out."""
MAX_MATH = 2_000
"""Characters of one formula."""
MARK = "\ue000"
"""Stands before and after the number of a formula until the text around it is sanitised; a text that holds it gets none."""
MAX_FORMULAS = 500
"""Formulas that are typeset in one text; the others stay TeX."""

_LINKED = re.compile(r"https?://|mailto:", re.IGNORECASE)


class TooDeepError(Exception):
    """The text nests deeper than is shown."""


@cache
def parser() -> MarkdownIt:
    """Return the parser, made once: CommonMark, tables and strikethrough; HTML in the text stays text."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import table
    from markdown_it.rules_inline import image, link

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTED}).enable(["table", "strikethrough"])
    made.inline.ruler.at("link", _bounded(link))
    made.inline.ruler.at("image", _bounded(image))
    made.inline.ruler.before("escape", "math", _math)
    made.block.ruler.at("table", _table_unless_too_much(table), {"alt": ["paragraph", "reference"]})
    made.core.ruler.push("agentnb", _made_plain)
    made.add_render_rule("heading_open", lambda *_: "<p><strong>")
    made.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    return made


def top_blocks(text: str) -> list[tuple[str, int, int]]:
    """Return type, first line and line after the last of each top-level block."""
    tokens: list[Token] = []
    made = parser()
    made.block.parse(text, made, {}, tokens)
    return [(token.type, *token.map) for token in tokens if token.level == 0 and token.map and token.nesting >= 0]  # type: ignore[misc]


def _bounded(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Wrap the rule for a bracket: it gives up when the brackets of the text have scanned too much in total."""

    def bounded(state: StateInline, silent: bool) -> bool:
        if state.env.get("looked_at", 0) > MAX_LOOKED_AT:
            return False
        start = state.pos
        found = rule(state, silent)
        looked_at = (state.pos if found else state.posMax) - start
        state.env["looked_at"] = state.env.get("looked_at", 0) + looked_at  # read again: nested brackets have changed it
        return found

    return bounded


def _math(state: StateInline, silent: bool) -> bool:
    """Typeset a formula, or keep its TeX as written: its underscores and backslashes are not Markdown."""
    source, start = state.src, state.pos
    for opening, closing in DELIMITERS:
        if source[start] == opening[0] and source.startswith(opening, start):
            first = start + len(opening)
            end = source.find(closing, first, min(first + MAX_MATH, state.posMax))
            if end > first and (opening != "$" or _stays_tex(source[first:end], source[end + 1 : end + 2])):
                state.pos = end + len(closing)
                if not silent:
                    _add_formula(state, source[first:end], opening, source[max(start - 1, 0) : start], start)
                return True
    return False


def _stays_tex(text: str, next_character: str) -> bool:
    """Return whether text between two dollar signs may be TeX, and stays as it is at least."""
    return text == text.strip() and "`" not in text and not next_character.isdigit()


def _add_formula(state: StateInline, text: str, opening: str, before: str, start: int) -> None:
    """Add the place of a formula to the tokens and the formula to those of the text, or its TeX if it cannot be typeset."""
    formulas, made = state.env.get("formulas"), ""
    after = state.src[state.pos : state.pos + 1]
    if formulas is not None and len(formulas) < MAX_FORMULAS and is_formula(text, opening, before, after):
        made = formula_html(text, block=opening in ("$$", "\\["))
    if formulas is not None and made:
        state.pending += f"{MARK}{len(formulas)}{MARK}"
        formulas.append(made)
    else:
        state.pending += state.src[start : state.pos]


def _table_unless_too_much(
    rule: Callable[[StateBlock, int, int, bool], bool],
) -> Callable[[StateBlock, int, int, bool], bool]:
    def table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        return len(state.tokens) <= MAX_TOKENS and rule(state, first, end, silent)

    return table


def _made_plain(state: StateCore) -> None:
    """Run after all other rules: alignment without style, pictures as links, addresses outside web and mail as text."""
    for token in state.tokens:
        if token.nesting > 0 and token.level >= MAX_NESTED - 1:
            raise TooDeepError
        if token.type in ("th_open", "td_open") and (style := str(token.attrs.get("style", ""))):
            token.attrs = {"align": style.removeprefix("text-align:")}
        if token.children:
            token.children = _inline(token.children, token.content)


def _inline(children: list[Token], source: str) -> list[Token]:
    if any(child.level > MAX_NESTED for child in children):
        return [_text(source)]
    made: list[Token] = []
    open_links: list[str | None] = []
    for child in children:
        if child.type == "link_open":
            address = str(child.attrs.get("href", ""))
            shown_as_it_is = child.markup == "autolink"
            open_links.append(None if _is_linked(address) else "" if shown_as_it_is else address)
            made += [child] if open_links[-1] is None else []
        elif child.type == "link_close" and open_links:
            unlinked = open_links.pop()
            made.append(child if unlinked is None else _text(_told(unlinked)))
        elif child.type == "image":
            made += _picture(child, inside_a_link=bool(open_links))
        else:
            made.append(child)
    return made


def _picture(token: Token, *, inside_a_link: bool) -> list[Token]:
    """Return the picture's text and address: viewing must not fetch anything."""
    words = "".join(" " if child.type == "softbreak" else child.content for child in token.children or ()).strip()
    address = str(token.attrs.get("src", ""))
    if inside_a_link or not _is_linked(address):
        return [_text(words + _told(address))]
    opening, closing = _token("link_open", "a", 1), _token("link_close", "a", -1)
    opening.attrs = {"href": address}
    return [opening, _text(words or cut(address, MAX_OF_AN_ADDRESS)), closing]


def _is_linked(address: str) -> bool:
    return len(address) <= MAX_ADDRESS and _LINKED.match(address) is not None


def _told(address: str) -> str:
    return f" ({cut(address, MAX_OF_AN_ADDRESS)})" if address else ""


def _text(content: str) -> Token:
    made = _token("text", "", 0)
    made.content = content
    return made


def _token(kind: str, name: str, nesting: Any) -> Token:
    from markdown_it.token import Token

    return Token(kind, name, nesting)
