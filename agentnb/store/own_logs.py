"""Own logs, written by this person's agentnb: recognized by marks made with a secret in the person's own folder.

Each line of a log ends with a mark, computed from the line, the previous mark, and the secret. So a mark vouches for
all lines up to its own: anyone who changes, adds or removes an earlier line cannot compute the last mark.
"""

from __future__ import annotations

import hmac
import secrets
import warnings
from binascii import b2a_base64
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from agentnb import settings
from agentnb.advice import AdvisedWarning, TrustLog
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.wire import MARK, decode_lines
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.personal_files import create_file
from agentnb.store.regular_files import open_regular

SECRET_FILE = "log-secret"
SECRET_BYTES = 32
_FIELD, _END = f',"{MARK}":"'.encode(), b'"}'
"""Text around a mark at the end of its line: a field that no event has, so readers skip it."""
_MARK_BYTES = 12
_MARK_LENGTH = len(b2a_base64(bytes(_MARK_BYTES), newline=False))
_SUFFIX_LENGTH = len(_FIELD) + _MARK_LENGTH + len(_END)
_START = bytes(_MARK_BYTES)


class LogMarks:
    """The marks of one log, up to the point where it has been written or read."""

    __slots__ = ("_keyed", "state")

    def __init__(self, secret: bytes) -> None:
        self._keyed = blake2b(key=secret, digest_size=_MARK_BYTES)
        self.state = _START
        """Mark of the last line written or read, as found or as computed."""

    def add_mark(self, line: bytes) -> tuple[bytes, bytes]:
        """Return the log's next encoded line with its mark, and the `state` that follows once it is written."""
        body = line[:-2]  # without the brace and the line end
        state = self._after(body)
        return b"".join((body, _FIELD, b2a_base64(state, newline=False), _END, b"\n")), state

    def read(self, lines: Iterable[bytes]) -> bool:
        """Read lines of a log, and return whether the last one has a valid mark, which means that none of them was changed."""
        is_marked = False
        for line in lines:
            body, mark = _parts(line)
            self.state = self._after(body)
            is_marked = hmac.compare_digest(mark, b2a_base64(self.state, newline=False))
        return is_marked

    def _after(self, body: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(self.state + body)
        return keyed.digest()


def _parts(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into its text and its mark; the mark may be empty."""
    line = line.removesuffix(b"\n")
    suffix = line[-_SUFFIX_LENGTH:]
    if suffix.startswith(_FIELD) and suffix.endswith(_END):
        return line[:-_SUFFIX_LENGTH], suffix[len(_FIELD) : -len(_END)]
    return line[:-1], b""


def log_marks() -> LogMarks | None:
    """Return the marks of a new log; None, with a single warning, if the person's folder cannot hold the secret."""
    secret = _secret()
    return None if secret is None else LogMarks(secret)


def is_own_log(path: str | Path, events: Iterable[AnyEvent] | None = None) -> bool:
    """Return whether this person's agentnb wrote the complete log.

    ``events``: events read from the log earlier; the log must begin with them.
    """
    marks = log_marks()
    if marks is None:
        return False
    try:
        with open_regular(path) as file:
            lines = file.readlines()
        if events is None:
            return marks.read(lines[: len(decode_lines(lines, str(path)))])  # without a torn line
        expected = [*events]
        lines = lines[: len(expected)]
        return marks.read(lines) and [*Run.from_events(decode_lines(lines, str(path))).events] == expected
    except (OSError, TraceError):
        return False


def is_own(path: str | Path, run: Run) -> bool:
    """Return whether this person's agentnb wrote the log from which a run was loaded."""
    return is_own_log(path, run.events)


@lru_cache(maxsize=1)
def _secret() -> bytes | None:
    path = settings.personal_folder() / SECRET_FILE
    try:
        return _read(path) or _create(path)
    except OSError as error:
        problem = f"agentnb cannot mark your run logs as yours: {path}: {error.strerror or error}. Runs still work"
        advice = TrustLog(True, lead="A run resumed in another process needs your consent")
        warnings.warn(AdvisedWarning(problem, advice), stacklevel=2)
        return None


def _read(path: Path) -> bytes:
    """Return the secret, or empty bytes if it has not been created yet; raises OSError if it cannot be used."""
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        return b""
    if len(secret) != SECRET_BYTES:
        raise OSError(f"it has {len(secret)} bytes instead of {SECRET_BYTES}: delete the file, and agentnb creates a new one")
    if path.stat().st_mode & 0o077:  # copied by a program that does not keep modes
        with suppress(OSError):
            path.chmod(0o600)
    return secret


def _create(path: Path) -> bytes:
    """Create the secret and return it, or return the secret of another process that was faster."""
    create_file(path, secrets.token_bytes(SECRET_BYTES))
    return _read(path)
