"""Saving runs to files: as logs that can be loaded again, or as pages that can be read anywhere."""

from __future__ import annotations

from pathlib import Path

from agentnb.detect.run import Run
from agentnb.display.page import page_html
from agentnb.errors import StoreError
from agentnb.traces.writing import save_log, write_whole


def save_trace(run: Run, path: str | Path) -> Path:
    """Write the run to ``path``, whole or not at all; return the path.

    A name that ends with ``.html`` gives one self-contained page, any other the run's log (JSON Lines), which
    `load_trace` reads. Raises `StoreError` if it cannot be written.
    """
    try:
        path = Path(path).expanduser()
    except RuntimeError as error:
        raise StoreError(f"The run cannot be saved as {path}: {error}", "Name the folder in full") from error
    if path.suffix.lower() in (".html", ".htm"):
        return write_whole(path, [page_html(run).encode("utf-8", "replace")])
    return save_log(run, path)
