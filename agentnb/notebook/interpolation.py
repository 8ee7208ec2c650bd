"""Notebook variables in the body of a cell: exactly ``{{ name }}``, with its spaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from agentnb.errors import InterpolationError, near

_KEY = r"""-?\d+|"[^"\n]*"|'[^'\n]*'"""
_FIELD = re.compile(rf"\{{\{{\ ([^\W\d]\w*)((?:\[(?:{_KEY})\])*)\ \}}\}}")
_ITEM = re.compile(rf"\[({_KEY})\]")


def interpolate(text: str, variables: Mapping[str, Any]) -> str:
    """Return the text with each ``{{ name }}`` and ``{{ name["item"][0] }}`` replaced by that variable, as ``str`` shows it.

    No attributes and no calls; everything else (``{x}``, ``{{x}}``, JSON, LaTeX) passes untouched. Inserted text is not
    interpolated again. Raises `InterpolationError` for a missing name or item.
    """
    return _FIELD.sub(lambda match: _value(match, variables), text)


def _value(match: re.Match[str], variables: Mapping[str, Any]) -> str:
    name, items = match.groups()
    if name not in variables:
        close = near(name, [known for known in variables if not known.startswith("_")])
        advice = close if close.startswith("Did") else "Define it first."
        raise InterpolationError(
            f"{match.group()}: there is no variable {name!r}", f"{advice} Or send the text as it is with --raw"
        )
    value = variables[name]
    for item in _ITEM.findall(items):
        try:
            value = value[ast.literal_eval(item)]
        except Exception as error:  # whatever the person's own object raises
            raise InterpolationError(
                f"{match.group()}: {name} has no item [{item}] ({type(error).__name__})", "Or send the text as it is with --raw"
            ) from error
    try:
        return str(value)
    except Exception as error:
        raise InterpolationError(f"{match.group()} cannot be shown as text ({type(error).__name__}: {error})") from error
