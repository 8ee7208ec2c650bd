"""Saves runs to files: as logs, as self-contained pages, or in the formats of other products."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from agentnb.advice import NameOne
from agentnb.display.card.run_page import page_html
from agentnb.errors import SettingsError, StoreError, suggest_similar
from agentnb.interchange.exports import EXPORTS, export_named
from agentnb.interchange.files import RunSource, iter_traces
from agentnb.store.atomic_files import save_log, write_whole
from agentnb.store.redacting import redacted

PAGE, LOG = "html", "agentnb"
ENDINGS = {
    **{".html": PAGE, ".htm": PAGE, ".parquet": "parquet"},
    **dict.fromkeys(("", ".jsonl", ".ndjson", ".json", ".log", ".txt"), LOG),
}
"""The format for each file extension."""


def save_trace(
    run: RunSource,
    path: str | Path,
    format: str | None = None,  # noqa: A002  # the word that people look for
    *,
    redact: str | re.Pattern[str] | Iterable[str | re.Pattern[str]] = (),
) -> Path:
    """Write a run, or the run in a file, atomically to ``path``; return the path.

    Without ``format``, the extension decides: ``.html`` writes a self-contained page that contains the log, ``.parquet`` a
    Parquet file, and ``.jsonl`` or no extension the run's log (JSON Lines), as the format ``agentnb`` does. `load_trace` reads
    all of these. Other formats are ``sam``, ``openai_chat``, ``anthropic_messages``, ``otel`` and ``openinference``; these and
    ``parquet`` accept several runs.

    ``redact``: regular expressions whose matches in any text are replaced by ``[redacted]``. Known keys are replaced by
    ``[key]``, and text that looks like a key by ``[looks like a key: masked]``.

    Raises `SettingsError` if the format is unknown or a pattern is invalid, and `StoreError` if the file cannot be written.
    """
    path = _expand(path)
    name = format or _format_of(path)
    redacted_runs = (redacted(item, redact) for item in iter_traces(run))
    if name in (PAGE, LOG):
        runs = [*redacted_runs]
        if len(runs) != 1:
            raise SettingsError(
                f"{len(runs):,} runs do not fit into one {name} file", NameOne(known=tuple(EXPORTS), lead="Choose one of")
            )
        if name == LOG:
            return save_log(runs[0], path)
        return write_whole(path, [page_html(runs[0]).encode("utf-8", "replace")])
    return write_whole(path, export_named(name).pieces(redacted_runs))


def _format_of(path: Path) -> str:
    """Return the format for a file name's extension. Raises `SettingsError` if the extension is unknown."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        hint = (
            suggest_similar(ending, [known_ending for known_ending in ENDINGS if known_ending])
            or "End the name with .jsonl, .html or .parquet, or give format="
        )
        raise SettingsError(f"{path.name} does not end in a known format", hint)
    return ENDINGS[ending]


def _expand(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise StoreError(f"The run cannot be saved as {path}: {error}", "Give the full path of the folder") from error
