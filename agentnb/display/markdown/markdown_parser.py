"""The Markdown parser for models' text. It limits its work and the size and depth of its output, and fetches nothing.

Supported formulas become MathML, and other TeX remains text. Pictures become links. Headings become bold paragraphs, which
keeps them out of the notebook's table of contents. Addresses other than web and mail become text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from agentnb.display.markdown.mathml import NotShownError, mathml
from agentnb.display.markup import NOTHING, Html
from agentnb.display.texts.labels import cut

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
"""The delimiters of formulas within text."""
MAX_TEX = 1_000
"""Maximum characters of a formula that is typeset; longer ones are shown as TeX."""
MAX_BRACES = 30
"""Maximum nesting of braces, ``\\left`` brackets and environments in a formula that is typeset."""

_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([^}]*)\}")
_WORDS = re.compile(r"\\(?:text\w*|mathrm|mbox|operatorname\*?)\s*\{[^}]*\}|\\(?:begin|end)\s*\{[^}]*\}|\\[A-Za-z]+")
_PROSE = re.compile(r"[^\W\d_]{2,}[,;:.]?\s+[^\W\d_]{2,}")
_SIGNS = re.compile(r"[\\^_=+\-*/<>|'!(){}\[\],\n]|[^\x00-\x7f]")
_OPERATOR = re.compile(r"[\\^_=+\-*/<>]")
_SHORT_NAME = re.compile(r"[A-Za-z]\w?")
_PRICE_UNIT = re.compile(r"[^\W\d_]{3,}")

ENVIRONMENTS = {
    **{
        name: name
        for name in ("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix", "smallmatrix", "cases", "array")
    },
    # Avoids the equation numbers that the library would add.
    **dict.fromkeys(("split", "align", "align*", "aligned", "alignedat", "equation", "equation*", "gathered"), "split"),
}
"""Supported environments, with the names that the converter uses."""
COMMANDS = frozenset(
    """
    frac dfrac tfrac cfrac binom dbinom tbinom sqrt left right middle begin end text textbf textit textrm textnormal mbox
    mathrm mathbf mathbb mathcal mathfrak mathit mathsf mathtt mathscr boldsymbol bm operatorname boxed
    hat widehat bar vec dot ddot dddot tilde widetilde check breve acute grave mathring overline underline overbrace underbrace
    overrightarrow overleftarrow overset underset stackrel xrightarrow xleftarrow substack limits nolimits not
    arccos arcsin arctan cos cosh cot coth csc deg dim exp hom ker ln lg log sec sin sinh tan tanh
    lim sup inf max min argmax argmin det gcd liminf limsup Pr mod pmod bmod
    quad qquad displaystyle textstyle dots ldots cdots big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr
    phantom prime
    """.split()  # noqa: SIM905
) | frozenset(",:;!>{}|%_#& \\")
"""Supported commands, in addition to symbols such as ``\\alpha``."""


def is_formula(text: str, opening: str, before: str = "", after: str = "") -> bool:
    """True if text between delimiters is a formula rather than, say, prices, variable names or escaped brackets.

    ``before`` and ``after``: the adjacent characters. The rule for ``$`` is pandoc's (no blank just inside the delimiters, no
    digit after them, a single line), but also excludes prose and prices.
    """
    if not text.strip() or "$" in text or "`" in text or text.endswith("\\"):
        return False
    if before.isalnum() or (opening == "$" and (text != text.strip() or "\n" in text or after.isalnum() or before == "$")):
        return False
    plain = _WORDS.sub(" ", text)
    if _PROSE.search(plain):
        return False
    stripped = text.strip()
    if not _SIGNS.search(stripped):
        return opening not in ("\\[", "$$") and _SHORT_NAME.fullmatch(stripped) is not None
    is_price = stripped[0].isdigit() and (_PRICE_UNIT.search(plain) or not _OPERATOR.search(stripped))
    return opening != "$" or not is_price


@lru_cache(maxsize=512)
def formula_html(tex: str, *, block: bool) -> Html:
    """Return a formula as MathML, on its own line if ``block``; empty if it is unsupported, too long or too deeply nested."""
    tex = tex.strip()
    if len(tex) > MAX_TEX or "%" in tex.replace("\\%", "") or not _is_shallow(tex):
        return NOTHING
    try:
        return mathml(_supported_tex(tex), block=block)
    except Exception:  # `NotShownError`, or the library's: unsupported TeX stays readable as written
        return NOTHING


def _is_shallow(tex: str) -> bool:
    depth = deepest = 0
    for mark in re.findall(r"\\.|[{}]|\\left|\\right", tex.replace("\\left", "{").replace("\\right", "}")):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        deepest = max(deepest, depth)
    return deepest <= MAX_BRACES


def _supported_tex(tex: str) -> str:
    """Return the TeX using the converter's environments. Raises `NotShownError` for an unknown command."""
    from latex2mathml.symbols_parser import SYMBOLS  # takes 50 ms

    environments = [name for _, name in _ENVIRONMENT.findall(tex)]
    if any(name not in ENVIRONMENTS for name in environments) or ("&" in tex.replace("\\&", "") and not environments):
        raise NotShownError
    for name in _COMMAND.findall(tex):
        if name not in COMMANDS and f"\\{name}" not in SYMBOLS:
            raise NotShownError
    if not environments and "\\\\" in tex:
        raise NotShownError
    return _ENVIRONMENT.sub(lambda found: f"\\{found[1]}{{{ENVIRONMENTS[found[2]]}}}", tex)


MAX_NESTED = 60
"""Maximum levels of quotes, lists and emphasis; anything deeper is shown as written."""
MAX_ADDRESS = 1_000
"""Maximum characters of an address that becomes a link; longer ones remain text."""
MAX_OF_AN_ADDRESS = 200
"""Maximum characters shown of an address that is not a link."""
MAX_LOOKED_AT = 5_000_000
"""Maximum characters scanned for unmatched brackets in a text, as each bracket scans all the text after it."""
MAX_TOKENS = 50_000
"""Maximum tokens before a table, because tables add cells that are missing from their rows."""
MAX_MATH = 2_000
"""Maximum characters between a formula's delimiters."""
MARK = "\ue000"
"""Encloses the number of a formula until the text is sanitised. In texts that already contain it, formulas are not typeset."""
MAX_FORMULAS = 500
"""Maximum formulas typeset per text; the rest remain TeX."""

_LINKED = re.compile(r"https?://|mailto:", re.IGNORECASE)


class TooDeepError(Exception):
    """The text is nested too deeply."""


@cache
def parser() -> MarkdownIt:
    """Return the cached parser for CommonMark, tables and strikethrough; HTML in the text remains text."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import table
    from markdown_it.rules_inline import image, link

    markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTED}).enable(["table", "strikethrough"])
    markdown.inline.ruler.at("link", _bound_rule(link))
    markdown.inline.ruler.at("image", _bound_rule(image))
    markdown.inline.ruler.before("escape", "math", _math)
    markdown.block.ruler.at("table", _table_unless_too_much(table), {"alt": ["paragraph", "reference"]})
    markdown.core.ruler.push("agentnb", _simplify)
    markdown.add_render_rule("heading_open", lambda *_: "<p><strong>")
    markdown.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    return markdown


def top_blocks(text: str) -> list[tuple[str, int, int]]:
    """Return the type, first line and end line (exclusive) of each top-level block."""
    tokens: list[Token] = []
    markdown = parser()
    markdown.block.parse(text, markdown, {}, tokens)
    return [(token.type, *token.map) for token in tokens if token.level == 0 and token.map and token.nesting >= 0]  # type: ignore[misc]


def _bound_rule(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Wrap the rule for a bracket so that it gives up once the text's brackets have scanned too much in total."""

    def bounded(state: StateInline, silent: bool) -> bool:
        if state.env.get("looked_at", 0) > MAX_LOOKED_AT:
            return False
        start = state.pos
        matched = rule(state, silent)
        looked_at = (state.pos if matched else state.posMax) - start
        state.env["looked_at"] = state.env.get("looked_at", 0) + looked_at  # nested brackets have changed it
        return matched

    return bounded


def _math(state: StateInline, silent: bool) -> bool:
    """Typeset a formula, or keep its TeX as written, since its underscores and backslashes are not Markdown."""
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
    """True if text between two dollar signs may be TeX, so it must not be parsed as Markdown."""
    return text == text.strip() and "`" not in text and not next_character.isdigit()


def _add_formula(state: StateInline, text: str, opening: str, before: str, start: int) -> None:
    """Add a placeholder to the tokens, and the formula itself to the text's formulas. If it cannot be typeset, add its TeX."""
    formulas, html = state.env.get("formulas"), ""
    after = state.src[state.pos : state.pos + 1]
    if formulas is not None and len(formulas) < MAX_FORMULAS and is_formula(text, opening, before, after):
        html = formula_html(text, block=opening in ("$$", "\\["))
    if formulas is not None and html:
        state.pending += f"{MARK}{len(formulas)}{MARK}"
        formulas.append(html)
    else:
        state.pending += state.src[start : state.pos]


def _table_unless_too_much(
    rule: Callable[[StateBlock, int, int, bool], bool],
) -> Callable[[StateBlock, int, int, bool], bool]:
    def table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        return len(state.tokens) <= MAX_TOKENS and rule(state, first, end, silent)

    return table


def _simplify(state: StateCore) -> None:
    """Apply after all other rules: make alignment styleless, pictures links, and addresses other than web and mail text."""
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
    tokens: list[Token] = []
    open_links: list[str | None] = []
    for child in children:
        if child.type == "link_open":
            address = str(child.attrs.get("href", ""))
            shown_as_it_is = child.markup == "autolink"
            open_links.append(None if _is_linked(address) else "" if shown_as_it_is else address)
            tokens += [child] if open_links[-1] is None else []
        elif child.type == "link_close" and open_links:
            unlinked = open_links.pop()
            tokens.append(child if unlinked is None else _text(_address_words(unlinked)))
        elif child.type == "image":
            tokens += _picture(child, inside_a_link=bool(open_links))
        else:
            tokens.append(child)
    return tokens


def _picture(token: Token, *, inside_a_link: bool) -> list[Token]:
    """Return the picture's text and address, because viewing must not fetch anything."""
    words = "".join(" " if child.type == "softbreak" else child.content for child in token.children or ()).strip()
    address = str(token.attrs.get("src", ""))
    if inside_a_link or not _is_linked(address):
        return [_text(words + _address_words(address))]
    opening, closing = _token("link_open", "a", 1), _token("link_close", "a", -1)
    opening.attrs = {"href": address}
    return [opening, _text(words or cut(address, MAX_OF_AN_ADDRESS)), closing]


def _is_linked(address: str) -> bool:
    return len(address) <= MAX_ADDRESS and _LINKED.match(address) is not None


def _address_words(address: str) -> str:
    return f" ({cut(address, MAX_OF_AN_ADDRESS)})" if address else ""


def _text(content: str) -> Token:
    token = _token("text", "", 0)
    token.content = content
    return token


def _token(kind: str, name: str, nesting: Any) -> Token:
    from markdown_it.token import Token

    return Token(kind, name, nesting)
