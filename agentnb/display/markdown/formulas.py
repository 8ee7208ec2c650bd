"""Formulas in the text of a model: which text between dollar signs or brackets is one, and its TeX as MathML.

Browsers draw MathML themselves, so no script of a page ever reads the TeX. Only commands that are known to be harmless are
converted: no definition of a command, no link, no colour, no class, no length that a model chooses.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentnb.display.markdown.mathml import NotShownError, mathml
from agentnb.display.markup import NOTHING, Html

DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
"""The delimiters of formulas in text."""
MAX_TEX = 1_000
"""Characters of a formula that is typeset; a longer one is shown as its TeX."""
MAX_BRACES = 30
"""Braces, brackets of ``\\left`` and environments that are open at once in a formula that is typeset."""

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
    # Without the numbers that the library would give to equations.
    **dict.fromkeys(("split", "align", "align*", "aligned", "alignedat", "equation", "equation*", "gathered"), "split"),
}
"""The environments that are converted, and what the converter calls them."""
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
"""The commands that are converted, besides symbols such as ``\\alpha``."""


def is_formula(text: str, opening: str, before: str = "", after: str = "") -> bool:
    """Return whether text between delimiters is a formula, rather than prices, names of variables or escaped brackets.

    ``before`` and ``after``: the characters beside the delimiters. The rule for ``$`` is that of pandoc (no blank inside the
    delimiters, no digit after them, one line), and stricter: no word of prose, no price.
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
    """Return a formula as MathML, on a line of its own if ``block``; empty if it cannot be shown, is too long or too deep."""
    tex = tex.strip()
    if len(tex) > MAX_TEX or "%" in tex.replace("\\%", "") or not _is_shallow(tex):
        return NOTHING
    try:
        return mathml(_known(tex), block=block)
    except NotShownError:
        return NOTHING
    except Exception:  # TeX that the library cannot convert stays readable as it is
        return NOTHING


def _is_shallow(tex: str) -> bool:
    depth = deepest = 0
    for mark in re.findall(r"\\.|[{}]|\\left|\\right", tex.replace("\\left", "{").replace("\\right", "}")):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        deepest = max(deepest, depth)
    return deepest <= MAX_BRACES


def _known(tex: str) -> str:
    """Return the TeX with the environments that the converter knows; raise `NotShownError` if it holds an unknown command."""
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
