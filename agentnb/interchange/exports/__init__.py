"""Forms in which other products read runs: one module for each, with a `NAME`, a `TITLE` and `pieces`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agentnb.detect.run import Run
from agentnb.errors import SettingsError, near
from agentnb.interchange.exports import anthropic_messages, openai_chat, openinference, otel, parquet, sam


class Export(Protocol):
    """A module that writes one form."""

    NAME: str
    """The form's name, as in ``save_trace(run, path, format=NAME)``."""
    TITLE: str
    """What it is called in sentences."""

    def pieces(self, runs: Iterable[Run]) -> Iterable[bytes]:
        """Yield the bytes of a file that holds these runs."""


EXPORTS: dict[str, Export] = {form.NAME: form for form in (sam, openai_chat, anthropic_messages, otel, openinference, parquet)}
"""All forms by name."""


def export_named(name: str) -> Export:
    """Return the form of this name; raises `SettingsError` with the most similar ones."""
    if name not in EXPORTS:
        raise SettingsError(f"There is no form {name!r} to save runs in", near(name, EXPORTS))
    return EXPORTS[name]
