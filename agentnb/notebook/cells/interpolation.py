"""Inserts notebook variables into a cell's body: exactly ``{{ name }}``, with the spaces."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping
from typing import Any

from agentnb.advice import Plain, as_advice
from agentnb.errors import InterpolationError, suggest_similar

_KEY = r"""-?\d+|"[^"\n]*"|'[^'\n]*'"""
_FIELD = re.compile(rf"\{{\{{\ ([^\W\d]\w*)((?:\[(?:{_KEY})\])*)\ \}}\}}")
_ITEM = re.compile(rf"\[({_KEY})\]")
_LIKE_A_FIELD = re.compile(r"\{\{[^\S\n]*([^\W\d]\w*)([^{}\n]*)\}\}")
"""Double braces whose content begins with a name."""
MAX_NAMED = 3
"""Maximum near misses named on one line."""


def interpolate(text: str, variables: Mapping[str, Any]) -> str:
    """Replace each ``{{ name }}`` and ``{{ name["item"][0] }}`` in the text with ``str`` of the variable or item.

    Attributes and calls are not supported. Anything else (``{x}``, ``{{x}}``, JSON, LaTeX) is left unchanged. Inserted text is
    not interpolated again. Raises `InterpolationError` if a name or item is missing.
    """
    return _FIELD.sub(lambda match: _value(match, variables), text)


def near_misses(text: str, variables: Mapping[str, Any]) -> str:
    """Return a note on text that looks like ``{{ name }}`` with an existing variable but is sent unchanged, or "".

    Double braces around other names are not mistakes: other systems' templates use them.
    """
    matches = {match.group(): match for match in _LIKE_A_FIELD.finditer(text) if _is_near_miss(match, variables)}
    if not matches:
        return ""
    listed = ", ".join([*matches][:MAX_NAMED]) + (f" and {len(matches) - MAX_NAMED} more" if len(matches) > MAX_NAMED else "")
    name, items = next(iter(matches.values())).groups()
    better = f"{{{{ {name}{items.strip()} }}}}"
    if _FIELD.fullmatch(better):
        return f"{listed}: sent as typed. To insert the variable, write {better}, with one space inside the braces"
    rule = f'only {{{{ {name} }}}} and items such as {{{{ {name}["key"] }}}} are replaced'
    return f"{listed}: sent as typed, {rule}. Assign the value to a variable first"


def _is_near_miss(match: re.Match[str], variables: Mapping[str, Any]) -> bool:
    return match[1] in variables and not match[1].startswith("_") and not _FIELD.fullmatch(match.group())


def _value(match: re.Match[str], variables: Mapping[str, Any]) -> str:
    name, items = match.groups()
    if name not in variables:
        candidates = [variable for variable in variables if not variable.startswith("_") and not hasattr(builtins, variable)]
        suggestions = suggest_similar(name, candidates)  # IPython adds functions such as open to the variables
        raise InterpolationError(
            f"{match.group()}: the variable {name!r} is not defined",
            (*(suggestions or as_advice("Define it first")), Plain("Or send the text as it is: --raw")),
        )
    value = variables[name]
    for item in _ITEM.findall(items):
        try:
            value = value[ast.literal_eval(item)]
        except Exception as error:  # any exception of the person's own object
            raise InterpolationError(
                f"{match.group()}: {name} has no item [{item}] ({type(error).__name__})", "Or send the text as it is: --raw"
            ) from error
    try:
        return str(value)
    except Exception as error:
        raise InterpolationError(f"{match.group()} cannot be shown as text ({type(error).__name__}: {error})") from error
