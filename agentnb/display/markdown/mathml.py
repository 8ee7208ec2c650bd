"""TeX as MathML: converted by a library, and written by us, with the elements and attributes that are listed here only.

Where a sanitiser drops MathML, as JupyterLab's does in a notebook that is not trusted, the text of the formula stays. It must
not read otherwise then: signs without room, which nobody sees, make ``x^2`` of the text of a power and ``a/b`` of a fraction.
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
"""Elements that may be open at once."""
MAX_GROWTH = 60
"""Maximum length of the MathML as a multiple of the TeX."""
MAX_LENGTH = 3.0
"""Largest length in a formula, in em: nothing may reach out of its place."""
BOXED = "formula-boxed"
"""Our class of a formula with a frame: browsers do not draw MathML's."""

TOKENS = frozenset(["mi", "mn", "mo", "mtext"])
"""The elements that hold text."""
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
"""The attributes of the library's elements that are written as they are."""
ELEMENTS = {*ATTRIBUTES, *TOKENS, *"mrow mspace msqrt mroot msub msup msubsup munderover mtr mtd mphantom".split()}  # noqa: SIM905
"""The library's elements that are written."""

_TRUE_OR_FALSE = re.compile("true|false")
_LENGTH = re.compile(r"(-?\d(?:\.\d{1,3})?)em")
_VALUES: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(("stretchy", "fence", "separator", "movablelimits", "largeop", "accent", "displaystyle"), _TRUE_OR_FALSE),
    **dict.fromkeys(("lspace", "rspace", "minsize", "maxsize"), _LENGTH),
    "form": re.compile("prefix|infix|postfix"),
    "scriptlevel": re.compile("[012]"),
    "linethickness": re.compile("0"),
}
"""The values that an attribute of the library may have."""
_DROPPED = frozenset(["columnspacing", "rowspacing", "columnalign", "mathvariant", "notation"])
"""Attributes that are not written: browsers do not know them, or they become something else."""
_SPACES = {"thin": "0.167em", "medium": "0.222em", "thick": "0.278em"}
_VARIANTS = {"bold-italic": "BOLD ITALIC", "sans-serif-italic": "SANS-SERIF ITALIC"}
_SCRIPTS = {"msub": "_", "msup": "^", "msubsup": "_^", "munder": "_", "mover": "^", "munderover": "_^"}
_CHILDREN = {"mfrac": 2, "mroot": 2} | {name: len(signs) + 1 for name, signs in _SCRIPTS.items()}
_ACCENTS = frozenset(
    "^~`_\u203e\u2032\u2033\u2034\u00b4\u00af\u02d8\u02c7\u02d9\u00a8\u20db\u02da\u23de\u23df\u2015\u2192\u2190"
)
"""Signs above and below that are neither powers nor limits."""
_ROWS = frozenset(["mrow", "mstyle", "mtd"])
_LIMITS = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
_WITH_LIMITS = frozenset(["lim", "max", "min", "sup", "inf", "argmax", "argmin"])
_OPERATORS = frozenset("\N{PLUS-MINUS SIGN}\N{DIVISION SIGN}\N{NOT SIGN}")
_LINES = {"mover": "\u203e", "munder": "_"}
"""Lines above and below: browsers do not stretch the one that the library writes, U+2015."""


class NotShownError(Exception):
    """The formula holds something that is not shown."""


def mathml(tex: str, *, block: bool) -> Html:
    """Return TeX as MathML; raise `NotShownError` or an error of the library if it cannot be shown."""
    from latex2mathml.converter import convert_to_element  # takes 50 ms

    display = "block" if block else "inline"
    root = convert_to_element(tex, display=display)
    for element in root.iter():
        _mend(element, block)
    html = f'<math display="{display}">{"".join(_written(child, 1) for child in root)}</math>'
    if len(html) > MAX_GROWTH * len(tex) + 300:
        raise NotShownError
    return Html(html)


def _mend(element: Element, block: bool) -> None:
    """Change what browsers would draw otherwise than TeX: lines above and below, limits in a formula on its own line, ±."""
    if element.tag in _LINES and len(element) == 2 and element[1].text == "&#x02015;":
        element[1].text = _LINES[element.tag]
    if block and element.tag in _LIMITS and element[0].tag == "mo" and (element[0].text or "") in _WITH_LIMITS:
        element.tag = _LIMITS[element.tag]
    if element.tag == "mi" and unescape(element.text or "") in _OPERATORS:
        element.tag = "mo"


def _written(element: Element, depth: int, before: str = "", after: str = "") -> str:
    """Return the element as HTML, with unseen signs before and after it."""
    boxed = element.tag == "menclose" and element.get("notation") == "box"
    name = "mrow" if boxed else element.tag
    if depth > MAX_DEPTH or name not in ELEMENTS or len(element) != _CHILDREN.get(name, len(element)):
        raise NotShownError
    opening = f"<{name}{_class(boxed)}{_attributes(name, element)}>"
    if name in TOKENS:
        content = escape(_text(element), quote=False)
    else:
        pieces = zip(element, _signs(element, before), strict=True)
        content = "".join(_written(child, depth + 1, *signs) + _blank(element, child) for child, signs in pieces)
    if name == "mtd":
        return f"{opening}{_unseen(before)}{content}</mtd>"
    html = f"{opening}{content}</{name}>"
    return f"<mrow>{_unseen(before)}{html}{_unseen(after)}</mrow>" if name != "mtr" and (before or after) else html


def _blank(element: Element, child: Element) -> str:
    """Return a blank, of which browsers take no notice, after a script, fraction or name: else its text runs into the next."""
    is_sign = child.tag in TOKENS and len(unescape(child.text or "")) < 2
    return "" if is_sign or element.tag not in _ROWS or child.tag in ("mn", "mspace", "mrow") else " "


def _class(boxed: bool) -> str:
    return f' class="{PREFIX}{BOXED}"' if boxed else ""


def _attributes(name: str, element: Element) -> str:
    written = ""
    for key, value in element.items():
        if name == "mtd" and key == "columnalign":
            written += f' class="{PREFIX}cell-{value}"' if value in ("left", "right") else ""
        elif name == "mspace" and key == "width":
            written += f' width="{_length(_named(value))}"'
        elif key in ATTRIBUTES.get(name, ()) and key in _VALUES and _VALUES[key].fullmatch(value):
            written += f' {key}="{_length(value) if _LENGTH.fullmatch(value) else value}"'
        elif key not in _DROPPED:
            raise NotShownError
    return written + (' mathvariant="normal"' if name == "mi" and _is_upright(element) else "")


def _is_upright(element: Element) -> bool:
    """Return whether a single letter is not italic: the library writes one in roman as the number of its character."""
    raw = element.text or ""
    return element.get("mathvariant") == "normal" or (raw.startswith("&#x") and unescape(raw).isascii())


def _named(width: str) -> str:
    named = re.fullmatch("(negative)?(thin|medium|thick)mathspace", width)
    return ("-" if named[1] else "") + _SPACES[named[2]] if named else width


def _length(value: str) -> str:
    match = _LENGTH.fullmatch(value)
    if match is None or abs(float(match[1])) > MAX_LENGTH:
        raise NotShownError
    return value


def _text(element: Element) -> str:
    text = clean(unescape(element.text or ""))
    if "\\" in text:  # a command that the library does not know
        raise NotShownError
    variant = element.get("mathvariant", "normal")
    return text if variant == "normal" or element.tag == "mtext" else "".join(_styled(sign, variant) for sign in text)


def _styled(sign: str, variant: str) -> str:
    """Return the letter or digit in bold, script and the like: browsers know these styles as characters only."""
    style = _VARIANTS.get(variant, variant.upper())
    letter = re.sub("^(LATIN|GREEK) | LETTER", "", unicodedata.name(sign, ""))
    names = (f"MATHEMATICAL {style} {letter}", f"{style} {letter}", f"{style.replace('FRAKTUR', 'BLACK-LETTER')} {letter}")
    for name in names:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return sign


def _unseen(signs: str) -> str:
    """Return signs that take no room and are not drawn."""
    if not signs:
        return ""
    return f'<mpadded width="0" height="0" depth="0"><mphantom><mtext>{escape(signs)}</mtext></mphantom></mpadded>'


def _signs(element: Element, before: str) -> list[tuple[str, str]]:
    """Return for each child what is unseen before and after it, so that the bare text of the element reads as it should.

    ``before``: what is unseen before the element, which a row of a table has in its first cell.
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
    """Return the sign before the child, and brackets around it if it is more than one token."""
    if sign in ("^", "_") and child.tag in TOKENS and _text(child) in _ACCENTS:
        return "", ""
    while child.tag in ("mrow", "mstyle") and len(child) == 1:
        child = child[0]
    return (sign, "") if child.tag in TOKENS else (f"{sign}(", ")")
