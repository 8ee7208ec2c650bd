"""Files of the person's own: lists of decisions that agentnb remembers, a line each, in `settings.personal_folder`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agentnb import settings


def read_lines(file: str) -> list[str]:
    """Return the lines of a file, without blank ones; none if it is missing or cannot be read."""
    try:
        text = (settings.personal_folder() / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def write_lines(file: str, lines: Iterable[str]) -> bool:
    """Replace the lines of a file, which only the person may read; return False if that cannot be written."""
    path = settings.personal_folder() / file
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The file is replaced whole, so that no reader sees half of it; `mkstemp` makes it readable for the person only.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{file}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                opened.write("".join(f"{line}\n" for line in lines))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True
