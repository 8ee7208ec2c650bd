"""References to earlier steps in arguments, such as ``$step[0].output.rows``; a reference must be the entire value."""

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
"""Maximum digits of a step number, since Python refuses to parse very long numbers."""
EXAMPLE = "Write $step[N].output, or $step[N].output.NAME for one of its fields; N counts steps from 0"
_NOTHING = re.compile(r"(?!)")
OF_PLANS = expressions.Spelling(begins=_NOTHING, ends=_NOTHING, hint="", write=str, alone=_REFERENCE)
"""Notation used in plans: a reference is the entire text, never just part of it."""


def as_reference(value: Any) -> str | None:
    """Return the value if it is exactly a reference, otherwise None."""
    return value if isinstance(value, str) and _REFERENCE.fullmatch(value) else None


def references_in(value: Any) -> Iterator[tuple[Place, str]]:
    """Yield the references in arguments, each with its position."""
    for path, text in texts_with_places(value):
        if as_reference(text) is not None:
            yield path, text


def target_of(reference: str) -> tuple[int, tuple[str, ...]]:
    """Return the step index, from 0, and the path within its output.

    Raises `SettingsError` for an invalid reference.
    """
    match = _REFERENCE.fullmatch(reference)
    assert match is not None, "it is a reference"
    index, path = match["index"], _PATH.fullmatch(match["path"])
    if not index.isdecimal() or len(index) > _DIGITS:
        raise SettingsError(f"{reference}: there is no step {index}", EXAMPLE)
    if path is None:
        raise SettingsError(f"{reference} does not read the output of a step", EXAMPLE)
    return int(index), tuple(path["rest"].split(".")[1:])


def fill_references(value: Any, output_of: Callable[[int], Any]) -> Any:
    """Replace the references in arguments in a single pass; references within an output remain text.

    ``output_of`` returns the output of a step, or raises `SettingsError`, which is also raised for a path that the
    output lacks.
    """

    def output(reference: str) -> Any:
        index, path = target_of(reference)
        return below_output(output_of(index), Reference("$step", (index, "output", *path)), 2)

    return expressions.fill_in(value, OF_PLANS, output)
