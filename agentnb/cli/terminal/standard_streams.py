"""Standard output and standard error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentnb.advice import AdvisedWarning
from agentnb.cli.command import Outcome
from agentnb.cli.shell_commands import SHELL
from agentnb.core.redaction import redact
from agentnb.display.texts.labels import clean
from agentnb.errors import StoreError


def write(text: str) -> None:
    """Write text to standard output as UTF-8; in a terminal, control characters are removed."""
    out = sys.stdout
    if out is None:  # closed before the program began
        raise StoreError("There is no standard output", "Write to a file: -o FILE")
    if out.isatty():
        text = clean(text)  # no text of a model or tool may control the terminal
        out.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text stream
    elif hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", errors="replace")
    out.write(text)
    out.flush()


def complain(text: str) -> None:
    """Write one line to standard error: an error, or a note to the user."""
    tell(f"agentnb: {' '.join(text.split())}")


def tell(text: str, end: str = "\n") -> None:
    """Write lines to standard error, with known keys redacted and control characters removed."""
    out = sys.stderr
    if out is None:  # it was closed before the program began
        return
    if hasattr(out, "reconfigure") and not out.isatty():
        out.reconfigure(encoding="utf-8", errors="backslashreplace")
    out.write(f"{clean(redact(text))}{end}")
    out.flush()


def write_outcome(outcome: str | Outcome) -> int:
    """Write the outcome of a command, and return its exit code."""
    result = outcome if isinstance(outcome, Outcome) else Outcome(outcome)
    for put, text in ((write, result.text), (tell, result.told), (complain, result.last), (tell, result.command)):
        if text:
            put(text)
    return result.code


def forget_standard_output() -> None:
    """Discard output to a closed pipe at exit; otherwise Python would report an error."""
    with suppress(OSError, ValueError, AttributeError):  # not a file, or closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Write warnings to standard error in the form of errors, without the source line."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: complain(
            message.text_for(SHELL) if isinstance(message, AdvisedWarning) else str(message)
        )
        yield
