"""Questions of a run in the terminal: written to standard error, answered on standard input."""

from __future__ import annotations

import os
import select
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from agentnb.cli.terminal.dialogue import dialogue
from agentnb.cli.terminal.run_progress import Progress
from agentnb.cli.terminal.standard_streams import tell
from agentnb.core.log.events import AnyEvent, Delta, QuestionAnswered, QuestionAsked
from agentnb.core.questions import WaitingOnUser
from agentnb.errors import SettingsError
from agentnb.runtime.host.live_run import LiveRun

PATIENCE = 1.0
"""Seconds for the thread to finish once its run has ended."""


def is_at_terminal() -> bool:
    """True if the user can be asked: standard input and standard error are terminals."""
    streams = (sys.stdin, sys.stderr)
    return os.name == "posix" and all(stream is not None and stream.isatty() for stream in streams)


def ask(question: str) -> str:
    """Write a question and return the typed line."""
    tell(question, end="")
    return sys.stdin.readline()


def ask_question(question: WaitingOnUser) -> Any:
    """Ask a question until the answer is valid, and return it; raises `SettingsError` if the user leaves it open."""
    talk = dialogue(question)
    words = next(talk)
    try:
        while line := ask(words):
            words = talk.send(line)
    except StopIteration as done:
        return done.value
    tell("")
    raise SettingsError("The question was left open", "Give the answer: agentnb answer ID ANSWER")


class NotAsked(Exception):
    """The question was closed while its answer was being typed."""


class Lines:
    """Reader of typed lines that another thread can wake."""

    # Does not use `sys.stdin`: a thread that waits in it cannot be woken, and Python cannot exit.

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._wakes, self._wake = os.pipe()
        self._typed = b""

    def read(self) -> str:
        """Return the next line. Raises EOFError at the end of input (Ctrl-D), and `NotAsked` when woken."""
        while b"\n" not in self._typed:
            ready, _, _ = select.select([self._fd, self._wakes], [], [])
            if self._wakes in ready:
                raise NotAsked
            data = b""
            with suppress(OSError):  # the terminal is gone
                data = os.read(self._fd, 65_536)
            if not data:
                self._typed = b""
                raise EOFError
            self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace")

    def forget(self) -> None:
        """Discard input typed before the question was asked, and pending wake-ups."""
        import termios  # not on every system

        self._typed = b""
        with suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)
        while select.select([self._wakes], [], [], 0)[0]:
            os.read(self._wakes, 1)

    def wake(self) -> None:
        """Stop waiting for a line. Thread-safe."""
        os.write(self._wake, b"x")

    def close(self) -> None:
        """Close the pipe once no thread is reading."""
        os.close(self._wakes)
        os.close(self._wake)


class TerminalQuestions:
    """Watcher of a run that asks its questions one by one. Like `Progress`, call `close` when the run has ended."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.nested = progress.nested
        """Returns the watcher for a nested run, whose questions this watcher asks itself."""
        self._lines = Lines(sys.stdin.fileno())
        self._questions: SimpleQueue[WaitingOnUser | None] = SimpleQueue()
        self._live: Future[LiveRun] = Future()
        self._lock = threading.Lock()
        self._closed: set[str] = set()
        self._is_over = False
        self._current = ""
        """Id of the current question."""
        self._thread = threading.Thread(target=self._ask_all, name="agentnb-questions", daemon=True)

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Process an event of the run."""
        self._progress(item)
        if isinstance(item, QuestionAsked):
            self._questions.put(item.question)
        elif isinstance(item, QuestionAnswered):
            self._close(item.question_id)

    def begin(self, live: LiveRun) -> None:
        """Start asking the questions of this run."""
        self._live.set_result(live)
        self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        with self._lock:
            self._is_over = True
        self._questions.put(None)
        self._lines.wake()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        if not self._thread.is_alive():
            self._lines.close()

    def _close(self, question_id: str) -> None:
        with self._lock:
            self._closed.add(question_id)
            if question_id == self._current:
                self._lines.wake()

    def _ask_all(self) -> None:
        live = self._live.result()
        try:
            while (question := self._questions.get()) is not None:
                self._lines.forget()
                with self._lock:
                    self._current = "" if self._is_over or question.id in self._closed else question.id
                if self._current:
                    self._ask(live, question)
        except EOFError:
            tell("")
        finally:
            if not self._is_over:
                with suppress(SettingsError):  # it has just ended
                    live.leave()

    def _ask(self, live: LiveRun, question: WaitingOnUser) -> None:
        """Ask one question. Raises EOFError if the user leaves it open."""
        self._progress.pause()
        try:
            talk = dialogue(question)
            words = next(talk)
            while True:
                tell(words, end="")
                words = talk.send(self._lines.read())
        except StopIteration as done:
            with suppress(SettingsError):  # it was withdrawn
                live.answer(done.value, question.id)
        except NotAsked:
            tell("\nThis question was closed.")
        finally:
            self._progress.resume()
