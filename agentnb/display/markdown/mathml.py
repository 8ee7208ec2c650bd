"""Converts TeX to MathML with a library, and serializes only allowlisted elements and attributes.

Some sanitisers drop MathML, as JupyterLab's does in untrusted notebooks. The formula's text remains and must keep its meaning,
so invisible signs of zero width turn the text of a power into ``x^2`` and that of a fraction into ``a/b``.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape, unescape
from typing import TYPE_CHECKING

from agentnb.display.markup import PREFIX, Html
from agentnb.display.texts.labels import clean

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_DEPTH = 80
"""Maximum nesting of elements."""
MAX_GROWTH = 60
"""Maximum length of the MathML as a multiple of the TeX."""
MAX_LENGTH = 3.0
"""Maximum length within a formula, in em, so that nothing extends beyond its area."""
BOXED = "formula-boxed"
"""Our class for a framed formula, as browsers do not draw MathML's frame."""

TOKENS = frozenset(["mi", "mn", "mo", "mtext"])
"""Elements that contain text."""
ATTRIBUTES = {
    "mo": {
        "stretchy",
        "fence",
        "separator",
        "movablelimits",
        "largeop",
        "accent",
        "lspace",
        "rspace",
        "minsize",
        "maxsize",
        "form",
    },
    "mover": {"accent"},
    "munder": {"accent"},
    "mfrac": {"linethickness"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"displaystyle"},
}
"""Attributes copied from the elements that the library returns."""
ELEMENTS = {*ATTRIBUTES, *TOKENS, *"mrow mspace msqrt mroot msub msup msubsup munderover mtr mtd mphantom".split()}  # noqa: SIM905
"""The library's elements that are allowed."""

_TRUE_OR_FALSE = re.compile("true|false")
_LENGTH = re.compile(r"(-?\d(?:\.\d{1,3})?)em")
_VALUES: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("stretchy", "fence", "separator", "movablelimits", "largeop", "accent", "displaystyle"), _TRUE_OR_FALSE),
    **dict.fromkeys(("lspace", "rspace", "minsize", "maxsize"), _LENGTH),
    "form": re.compile("prefix|infix|postfix"),
    "scriptlevel": re.compile("[012]"),
    "linethickness": re.compile("0"),
}
"""Values allowed for the library's attributes."""
_DROPPED = frozenset(["columnspacing", "rowspacing", "columnalign", "mathvariant", "notation"])
"""Attributes that are omitted, as browsers do not support them or we express them by other means."""
_SPACES = {"thin": "0.167em", "medium": "0.222em", "thick": "0.278em"}
_VARIANTS = {"bold-italic": "BOLD ITALIC", "sans-serif-italic": "SANS-SERIF ITALIC"}
_SCRIPTS = {"msub": "_", "msup": "^", "msubsup": "_^", "munder": "_", "mover": "^", "munderover": "_^"}
_CHILDREN = {"mfrac": 2, "mroot": 2} | {name: len(signs) + 1 for name, signs in _SCRIPTS.items()}
_ACCENTS = frozenset(
    "^~`_\u203e\u2032\u2033\u2034\u00b4\u00af\u02d8\u02c7\u02d9\u00a8\u20db\u02da\u23de\u23df\u2015\u2192\u2190"
)
"""Signs above and below that are not powers or limits."""
_ROWS = frozenset(["mrow", "mstyle", "mtd"])
_LIMITS = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
_WITH_LIMITS = frozenset(["lim", "max", "min", "sup", "inf", "argmax", "argmin"])
_OPERATORS = frozenset("\N{PLUS-MINUS SIGN}\N{DIVISION SIGN}\N{NOT SIGN}")
_LINES = {"mover": "\u203e", "munder": "_"}
"""Lines above and below, replacing the library's U+2015, which browsers do not stretch."""


class NotShownError(Exception):
    """The formula contains something unsupported."""


def mathml(tex: str, *, block: bool) -> Html:
    """Return TeX as MathML. If it is unsupported, raises `NotShownError` or an error from the library."""
    from latex2mathml.converter import convert_to_element  # takes 50 ms

    display = "block" if block else "inline"
    root = convert_to_element(tex, display=display)
    for element in root.iter():
        _adjust(element, block)
    html = f'<math display="{display}">{"".join(_serialize(child, 1) for child in root)}</math>'
    if len(html) > MAX_GROWTH * len(tex) + 300:
        raise NotShownError
    return Html(html)


def _adjust(element: Element, block: bool) -> None:
    """Adjust what browsers draw differently from TeX: lines above and below, limits in display formulas, and ±."""
    if element.tag in _LINES and len(element) == 2 and element[1].text == "&#x02015;":
        element[1].text = _LINES[element.tag]
    if block and element.tag in _LIMITS and element[0].tag == "mo" and (element[0].text or "") in _WITH_LIMITS:
        element.tag = _LIMITS[element.tag]
    if element.tag == "mi" and unescape(element.text or "") in _OPERATORS:
        element.tag = "mo"


def _serialize(element: Element, depth: int, before: str = "", after: str = "") -> str:
    """Return the element as HTML, with invisible signs before and after."""
    boxed = element.tag == "menclose" and element.get("notation") == "box"
    name = "mrow" if boxed else element.tag
    if depth > MAX_DEPTH or name not in ELEMENTS or len(element) != _CHILDREN.get(name, len(element)):
        raise NotShownError
    css_class = f' class="{PREFIX}{BOXED}"' if boxed else ""
    opening = f"<{name}{css_class}{_attributes(name, element)}>"
    if name in TOKENS:
        content = escape(_text(element), quote=False)
    else:
        pieces = zip(element, _signs(element, before), strict=True)
        content = "".join(_serialize(child, depth + 1, *signs) + _blank(element, child) for child, signs in pieces)
    if name == "mtd":
        return f"{opening}{_hide(before)}{content}</mtd>"
    html = f"{opening}{content}</{name}>"
    return f"<mrow>{_hide(before)}{html}{_hide(after)}</mrow>" if name != "mtr" and (before or after) else html


def _blank(element: Element, child: Element) -> str:
    """Return a blank that separates the text of a script, fraction or name from what follows; browsers ignore it."""
    is_sign = child.tag in TOKENS and len(unescape(child.text or "")) < 2
    return "" if is_sign or element.tag not in _ROWS or child.tag in ("mn", "mspace", "mrow") else " "


def _attributes(name: str, element: Element) -> str:
    written = ""
    for key, value in element.items():
        if name == "mtd" and key == "columnalign":
            written += f' class="{PREFIX}cell-{value}"' if value in ("left", "right") else ""
        elif name == "mspace" and key == "width":
            written += f' width="{_length(_resolve_space(value))}"'
        elif key in ATTRIBUTES.get(name, ()) and key in _VALUES and _VALUES[key].fullmatch(value):
            written += f' {key}="{_length(value) if _LENGTH.fullmatch(value) else value}"'
        elif key not in _DROPPED:
            raise NotShownError
    return written + (' mathvariant="normal"' if name == "mi" and _is_upright(element) else "")


def _is_upright(element: Element) -> bool:
    """True if a single letter is not italic; the library writes a roman letter as a character reference."""
    raw = element.text or ""
    return element.get("mathvariant") == "normal" or (raw.startswith("&#x") and unescape(raw).isascii())


def _resolve_space(width: str) -> str:
    match = re.fullmatch("(negative)?(thin|medium|thick)mathspace", width)
    return ("-" if match[1] else "") + _SPACES[match[2]] if match else width


def _length(value: str) -> str:
    match = _LENGTH.fullmatch(value)
    if match is None or abs(float(match[1])) > MAX_LENGTH:
        raise NotShownError
    return value


def _text(element: Element) -> str:
    text = clean(unescape(element.text or ""))
    if "\\" in text:  # a command unknown to the library
        raise NotShownError
    variant = element.get("mathvariant", "normal")
    return text if variant == "normal" or element.tag == "mtext" else "".join(_style(sign, variant) for sign in text)


def _style(sign: str, variant: str) -> str:
    """Return the letter or digit in bold, script and the like; browsers support these styles only as special characters."""
    style = _VARIANTS.get(variant, variant.upper())
    letter = re.sub("^(LATIN|GREEK) | LETTER", "", unicodedata.name(sign, ""))
    names = (f"MATHEMATICAL {style} {letter}", f"{style} {letter}", f"{style.replace('FRAKTUR', 'BLACK-LETTER')} {letter}")
    for name in names:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return sign


def _hide(signs: str) -> str:
    """Return the signs as zero-width text that is not drawn."""
    if not signs:
        return ""
    return f'<mpadded width="0" height="0" depth="0"><mphantom><mtext>{escape(signs)}</mtext></mphantom></mpadded>'


def _signs(element: Element, before: str) -> list[tuple[str, str]]:
    """Return the invisible signs before and after each child, so that the element's bare text reads correctly.

    ``before``: invisible signs that precede the element; a table row puts them into its first cell.
    """
    children = list(element)
    signs = [("", "")] * len(children)
    scripts = _SCRIPTS.get(element.tag, "")
    if scripts:
        signs[1:] = [_around(child, sign) for sign, child in zip(scripts, children[1:], strict=True)]
    elif element.tag == "mfrac":
        signs = [_around(children[0]), _around(children[1], "/" if element.get("linethickness") is None else " over ")]
    elif element.tag == "mroot":
        signs = [("(", ")"), ("^(1/", ")")]
    elif element.tag == "msqrt" and len(children) == 1:
        signs = [_around(children[0], "√")]
    elif element.tag == "mtable":
        signs[1:] = [("; ", "")] * len(children[1:])
    elif element.tag == "mtr":
        signs = [(" " if child.get("columnalign") == "left" else ", ", "") for child in children]
        signs[:1] = [(before, "")] * len(children[:1])
    return signs


def _around(child: Element, sign: str = "") -> tuple[str, str]:
    """Return the invisible text before and after the child: the sign, and brackets if the child has several tokens."""
    if sign in ("^", "_") and child.tag in TOKENS and _text(child) in _ACCENTS:
        return "", ""
    while child.tag in ("mrow", "mstyle") and len(child) == 1:
        child = child[0]
    return (sign, "") if child.tag in TOKENS else (f"{sign}(", ")")
