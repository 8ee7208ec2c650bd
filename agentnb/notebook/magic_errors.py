"""One-line errors for the person: the problem and the next command, without agentnb's traceback."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics
from IPython.core.magic_arguments import parse_argstring

from agentnb.core.redaction import redact_error
from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import RENDERER, AgentnbError, ExpectationFailed, SettingsError, suggest_similar
from agentnb.models.options import mask_text
from agentnb.runtime.workers.foreground import RunInterrupted
from agentnb.session.session import Session
from agentnb.tools.tool_errors import CARRIERS, LIBRARIES, PACKAGE

CLOSED = "the run was stopped and its log closed. Continue with %%agent --continue"
_UNDERSCORED = re.compile(r"(?<!\S)--\w+(?:[-_]\w+)+")
NOT_CLOSED = "the run is stopping and ends when its tool returns control to the event loop. See %agent status"
E = TypeVar("E", bound=BaseException)


class SessionMagics(Magics):
    """Base of magics that use a session."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        super().__init__(shell)
        self.session = session


def one_line_errors(magic: Callable[..., Any]) -> Callable[..., Any]:
    """Show a magic's errors as one line. They are still raised, so that Run All and papermill stop."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return magic(*args, **kwargs)
        except AgentnbError as error:
            redact_error(error)
            raise _quiet(error, f"{type(error).__name__}: {error_in_notebook(error)}") from None
        except RunInterrupted as error:
            raise _quiet(error, f"KeyboardInterrupt: {CLOSED if error.closed else NOT_CLOSED}") from None

    return functools.update_wrapper(wrapper, magic)


def in_one_line(error: E, line: str) -> E:
    """Return the error, prepared so that IPython shows this line instead of a traceback."""
    setattr(error, RENDERER, lambda: [line])
    error.__context__ = None  # an exception group there would make IPython print the whole traceback
    return error


def lines_without_our_frames(shell: Any, error: BaseException) -> list[str]:
    """Return the error's traceback as IPython shows it, without frames from agentnb.

    ``%xmode Verbose`` shows them all.
    """
    shown = shell.InteractiveTB
    if shown.mode == "Verbose":
        lines: list[str] = shown.structured_traceback(type(error), error, error.__traceback__)
        return lines
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    kept = [(link, link.__traceback__, link.__cause__, link.__suppress_context__) for link in chain]
    try:
        for link in chain:
            link.__traceback__ = _users_frames(link.__traceback__)
        for link in chain[:-1]:
            following = next((later for later in chain[chain.index(link) + 1 :] if later.__traceback__ is not None), None)
            link.__cause__ = following  # errors raised and caught within agentnb are not informative
        lines = shown.structured_traceback(type(error), error, error.__traceback__)
    finally:
        for link, frames, cause, suppresses in kept:
            link.__traceback__, link.__cause__, link.__suppress_context__ = frames, cause, suppresses
    return lines


def _users_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback without frames of agentnb or the libraries it calls."""
    kept, is_ours = [], False
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        is_ours = is_ours or file.startswith(PACKAGE)
        if not (is_ours and file.startswith((PACKAGE, *CARRIERS, *LIBRARIES))):
            kept.append(frames)
        frames = frames.tb_next
    traceback: TracebackType | None = None
    for frame in reversed(kept):
        traceback = TracebackType(traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return traceback


def _quiet(error: E, line: str) -> E:
    return error if RENDERER in vars(error) or isinstance(error, ExpectationFailed) else in_one_line(error, line)


def _hyphenate(option: str, options: list[str]) -> str:
    """Return the known option that differs only in its hyphens, such as ``--max-rounds`` for ``--max_rounds``."""
    better = option.replace("_", "-")
    return better if better in options and option not in options else option


def split_words(line: str, *, is_secret: bool = False) -> list[str]:
    """Return the words of a line, as a shell does. Raises `SettingsError`, without the line if it may contain a secret."""
    try:
        return shlex.split(line)
    except ValueError as error:
        place = "in this line" if is_secret else f"in: {line}"
        raise SettingsError(f"{error} {place}", "Check the quotation marks and backslashes") from None


def parse_options(magic: Any, line: str, *, see: str = "") -> Any:
    """Parse the options on a line. Raises `SettingsError` if any are unknown.

    ``see``: where to read about a line magic's options, as it has no text below it.
    """
    options = [option for action in magic.parser._actions for option in action.option_strings]
    line = _UNDERSCORED.sub(lambda match: _hyphenate(match.group(), options), line)
    own = f"%{magic.parser.prog}?"
    try:
        return parse_argstring(magic, line)
    except ValueError as error:  # an unclosed quotation
        raise SettingsError(f"{error} in: {line}", "Check the quotation marks and backslashes") from None
    except UsageError as error:
        sentence = " ".join(mask_text(word) for word in str(error).split(" "))
        problem = sentence[:1].upper() + sentence[1:]
        unrecognized = problem.removeprefix("Unrecognized arguments: ")
        if not see and unrecognized != problem and not unrecognized.startswith("-"):
            as_tool = f"To add it as a tool: -t {unrecognized}. " if "-t" in options and unrecognized.isidentifier() else ""
            raise SettingsError(problem, f"{as_tool}The text goes below the %{magic.parser.prog} line") from None
        wrong = next((word for word in line.split() if word in problem and word.startswith("-")), "")
        suggestion = suggest_similar(wrong, options) if wrong not in options else ""
        raise SettingsError(problem, suggestion or see or f"{own} shows the options") from None
