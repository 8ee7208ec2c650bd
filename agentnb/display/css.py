"""Styles of a run: the rules in ``styles/``, as a style sheet where that is allowed, otherwise inlined in each element.

The plain files contain only rules for single classes (``.agentnb-x { ... }``), so that both look the same: an untrusted
notebook, or a third-party page, keeps inline styles but drops style sheets. ``live.css`` has rules that need more (hovering,
focus, narrow windows), and is used only in a style sheet.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from agentnb.display.markup import Html

STYLES = Path(__file__).parent / "styles"
LIVE = "live.css"
NO_FORMULAS = "mathjax_ignore tex2jax_ignore"
"""Classes that make old and new versions of MathJax ignore content."""

_RULE = re.compile(r"\.(agentnb-[\w-]+)\s*\{([^{}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_VARIABLE = re.compile(r"var\(--[\w-]+,\s*((?:[^()]|\([^()]*\))*)\)")
_CLASS = re.compile(r'(<\w+ )(class="(agentnb-[\w -]+)")(?! style=)')
"""Matches classes in elements that have no inlined style yet."""


@cache
def rules() -> dict[str, str]:
    """Return the declarations of each class, in the order of the files."""
    bodies: dict[str, str] = {}
    for path in sorted(STYLES.glob("*.css")):
        if path.name != LIVE:
            for name, body in _RULE.findall(_COMMENT.sub("", path.read_text("utf-8"))):
                bodies[name] = bodies.get(name, "") + _declarations(body)
    return bodies


@cache
def style_sheet() -> str:
    """Return all rules, for places that allow a style sheet."""
    plain = "\n".join(f".{name}{{{body}}}" for name, body in rules().items())
    return plain + "\n" + (STYLES / LIVE).read_text("utf-8")


def wrap_output(html: str) -> Html:
    """Return the HTML as a notebook output that survives saving: with inline styles, and with no formulas except our own.

    JupyterLab would otherwise typeset text between dollar signs: prices would become formulas, and a formula may contain links
    that run code. Our own formulas are already MathML.
    """
    return Html(f'<div class="{NO_FORMULAS}">{inline_css(html)}</div>')


def inline_css(html: str) -> Html:
    """Return the HTML with each element's class rules inlined.

    Each declaration that uses a theme variable is preceded by its plain value, because JupyterLab, in an untrusted notebook,
    drops values that it cannot check, such as ``var()`` and ``overflow-wrap: anywhere``.
    """
    return Html(_CLASS.sub(lambda found: found.group(1) + _with_style(found.group(2), found.group(3)), html))


@cache
def _with_style(attribute: str, classes: str) -> str:
    style = "".join(inline_style(name) for name in classes.split())
    return f'{attribute} style="{style}"' if style else attribute


def inline_style(name: str) -> str:
    """Return the rules of a class as the style of an element."""
    return _with_plain_first(rules().get(name, ""))


def _with_plain_first(body: str) -> str:
    declarations = [declaration for declaration in body.split(";") if declaration]
    return "".join(
        f"{declaration};" if _plain(declaration) == declaration else f"{_plain(declaration)};{declaration};"
        for declaration in declarations
    )


def _plain(declaration: str) -> str:
    allowed = declaration.replace("overflow-wrap:anywhere", "overflow-wrap:break-word")
    return _VARIABLE.sub(r"\1", allowed)


def _declarations(body: str) -> str:
    declarations = [" ".join(declaration.split()) for declaration in body.split(";")]
    return "".join(f"{declaration.replace(': ', ':', 1)};" for declaration in declarations if declaration)
