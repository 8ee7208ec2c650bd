"""Export formats, one module each, with `NAME`, `TITLE` and `pieces`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agentnb.detect.run import Run
from agentnb.errors import SettingsError, suggest_names
from agentnb.interchange.exports import (
    anthropic_messages_export,
    openai_chat_export,
    openinference_export,
    otel_export,
    parquet_export,
    sam_export,
)


class Export(Protocol):
    """A module that writes one format."""

    NAME: str
    """The format's name, as in ``save_trace(run, path, format=NAME)``."""
    TITLE: str
    """Name of the format in messages."""

    def pieces(self, runs: Iterable[Run]) -> Iterable[bytes]:
        """Yield the bytes of a file that holds these runs."""


EXPORTS: dict[str, Export] = {
    form.NAME: form
    for form in (sam_export, openai_chat_export, anthropic_messages_export, otel_export, openinference_export, parquet_export)
}
"""All export formats, by name."""


def export_named(name: str) -> Export:
    """Return the format with this name. Raises `SettingsError`, listing the most similar names, if it is unknown."""
    if name not in EXPORTS:
        raise SettingsError(f"There is no export format {name!r}", suggest_names(name, EXPORTS))
    return EXPORTS[name]
