"""Files of the person's own: lists of decisions that agentnb remembers, a line each, in `settings.personal_folder`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
    try:
        replace_file(settings.personal_folder() / file, "".join(f"{line}\n" for line in lines).encode())
    except OSError:
        return False
    return True


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that only the person may read, whole at once: no reader sees half of it. Raises OSError."""
    with _written(path, data) as written:
        written.replace(path)


def create_file(path: Path, data: bytes) -> None:
    """Write a file like `replace_file`, but never over another one: a process that was quicker wins. Raises OSError."""
    with _written(path, data) as written:
        try:
            os.link(written, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not path.exists():
                written.replace(path)


@contextmanager
def _written(path: Path, data: bytes) -> Iterator[Path]:
    """Hold a file beside the path with this content, which is gone in the end unless it was moved."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # only its owner may read it
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
