"""The person's own files: lists of remembered decisions, one per line, in `settings.personal_folder`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentnb import settings


def read_lines(file: str) -> list[str]:
    """Return the non-blank lines of a file; empty if it is missing or unreadable."""
    try:
        text = (settings.personal_folder() / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def write_lines(file: str, lines: Iterable[str]) -> bool:
    """Replace a file's content with these lines, readable only by the person. Returns False if it cannot be written."""
    try:
        replace_file(settings.personal_folder() / file, "".join(f"{line}\n" for line in lines).encode())
    except OSError:
        return False
    return True


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically, readable only by the person. Raises OSError."""
    with _temporary_file(path, data) as written:
        written.replace(path)


def create_file(path: Path, data: bytes) -> None:
    """Create a file like `replace_file`, unless it exists: the first process to write it wins. Raises OSError."""
    with _temporary_file(path, data) as written:
        try:
            os.link(written, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not path.exists():
                written.replace(path)


@contextmanager
def _temporary_file(path: Path, data: bytes) -> Iterator[Path]:
    """Provide a temporary file with this content beside the path, and delete it afterwards unless it was moved."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # only its owner may read it
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
