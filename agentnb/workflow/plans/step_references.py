"""References to earlier steps in the arguments of a step: ``$step[0].output.rows``, the whole value or none of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from agentnb.core import expressions
from agentnb.core.schema.data_paths import Place, Reference, texts_with_places
from agentnb.errors import SettingsError
from agentnb.workflow.templates.json_in_text import below_output

_REFERENCE = re.compile(r"\$step\[(?P<index>[^\]\s]*)\](?P<path>\S*)")
_PATH = re.compile(r"\.output(?P<rest>(?:\.[^.\s]+)*)")
_DIGITS = 10
"""Of the number of a step, at most: Python reads no number of very many."""
EXAMPLE = "Write $step[N].output, or $step[N].output.NAME for a field of it, where N counts the steps from 0"
_NOTHING = re.compile(r"(?!)")
OF_PLANS = expressions.Spelling(begins=_NOTHING, ends=_NOTHING, hint="", write=str, alone=_REFERENCE)
"""A text is a reference as a whole; among other words there are none."""


def as_reference(value: Any) -> str | None:
    """Return the reference that a value is; None if it is none, as any text with more in it."""
    return value if isinstance(value, str) and _REFERENCE.fullmatch(value) else None


def references_in(value: Any) -> Iterator[tuple[Place, str]]:
    """Yield the references within arguments, each with its place in them."""
    for path, text in texts_with_places(value):
        if as_reference(text) is not None:
            yield path, text


def target_of(reference: str) -> tuple[int, tuple[str, ...]]:
    """Return the number of the step that a reference means, from 0, and the path within its output.

    Raises `SettingsError` if it is written wrongly.
    """
    match = _REFERENCE.fullmatch(reference)
    assert match is not None, "it is a reference"
    index, path = match["index"], _PATH.fullmatch(match["path"])
    if not index.isdecimal() or len(index) > _DIGITS:
        raise SettingsError(f"{reference}: $step[{index}] names no step", EXAMPLE)
    if path is None:
        raise SettingsError(f"{reference} does not read the output of a step", EXAMPLE)
    return int(index), tuple(path["rest"].split(".")[1:])


def filled(value: Any, output_of: Callable[[int], Any]) -> Any:
    """Return arguments with their references replaced, once: a reference within an output stays text.

    ``output_of`` returns the output of a step, or raises `SettingsError`, as this does for a path that the output lacks.
    """

    def output(reference: str) -> Any:
        index, path = target_of(reference)
        return below_output(output_of(index), Reference("$step", (index, "output", *path)), 2)

    return expressions.filled(value, OF_PLANS, output)
