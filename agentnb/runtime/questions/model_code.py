"""Code written by a model and run by one of its calls. The code may not make decisions that are reserved for the person.

This is a courtesy among honest code, not a sandbox: code in this process can reach into its memory.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import count
from types import CodeType, FrameType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from agentnb.errors import SettingsError

T = TypeVar("T")

_numbers = count(1)
FILENAME = "<run_python "
"""Prefix of the source names of such code."""


class ModelCode:
    """The code of one call. Its functions and threads belong to it until the outermost run has ended."""

    def __init__(self, call: Any) -> None:
        """``call``: the elicitor of the call that runs it."""
        self.call = call
        self.filename = f"{FILENAME}{next(_numbers)}>"
        """Source name in tracebacks, which identifies its functions."""
        self.is_running = False
        self.is_over = False
        """True once the outermost run has ended."""
        _of_file[self.filename] = self
        _has_run.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Attribute this thread's work in the block, and the threads it starts, to this code."""
        before = _current.set(self)
        _running.append(self)
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False
            _running.remove(self)
            _current.reset(before)


_current: ContextVar[ModelCode | None] = ContextVar("model_code", default=None)
_running: list[ModelCode] = []
BETWEEN_CELLS = "code"
"""Recorded as the giver of grants while none of the person's cells is running and nothing has been clicked."""
running_cells: list[Any] = [None]
"""The person's running cells, or None before the first has ended and outside a notebook."""
_is_click: ContextVar[bool] = ContextVar("is_click", default=False)
_has_run = threading.Event()
"""Set once a model's code has run in this process."""
_of_file: WeakValueDictionary[str, ModelCode] = WeakValueDictionary()
"""Code of live runs, by file name; strong references are held by their elicitations."""


def model_code() -> ModelCode | None:
    """Return the model's code that is calling, in any thread, or None for other callers."""
    code = _current.get()
    if code is None and _of_file:
        on_stack = (code for caller in _callers() if (code := _of_file.get(caller.co_filename)) is not None)
        code = next(on_stack, None) or _of_unknown_thread()  # the code may have left its context
    return None if code is None or code.is_over else code


def _callers() -> Iterator[CodeType]:
    """Yield the code objects of the call stack, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _is_left_behind() -> bool:
    """Return whether a function of a model's code is on the call stack; its run may have ended."""
    return any(caller.co_filename.startswith(FILENAME) for caller in _callers())


def _is_in_hook() -> bool:
    """Return whether an IPython hook is on the call stack, since a model's code may have registered it under any name."""
    events, shell = (sys.modules.get(f"IPython.core.{name}") for name in ("events", "interactiveshell"))
    if events is None or shell is None or not _has_run.is_set():
        return False
    hooks = {events.EventManager.trigger.__code__, shell.InteractiveShell.transform_cell.__code__}
    return not hooks.isdisjoint(_callers())


def _of_unknown_thread() -> ModelCode | None:
    """Return the running code, if this thread was started without the `threading` module."""
    if threading.get_ident() in threading._active and type(threading.current_thread()).__name__ != "_DummyThread":  # type: ignore[attr-defined]
        return None
    return _running[-1] if _running else None


@contextmanager
def _bind(variable: ContextVar[T], value: T) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def as_code(code: ModelCode | None) -> AbstractContextManager[None]:
    """Attribute this thread to the code that started it."""
    return _bind(_current, code)


def leave_code() -> None:
    """Detach this context from the code that called it, since a tool is the person's code."""
    _current.set(None)


def click() -> AbstractContextManager[None]:
    """Attribute actions in this block to the person, whether or not a cell is running."""
    return _bind(_is_click, True)


def giver() -> str:
    """Return `BETWEEN_CELLS` if none of the person's cells is running and nothing has been clicked; otherwise, an empty
    string.
    """
    return "" if running_cells or _is_click.get() else BETWEEN_CELLS


def check_person(act: str, *, is_lasting: bool = False) -> None:
    """Raise `SettingsError` if a model's code performs an act reserved for the person. ``act``: for example
    "Answering a question".

    ``is_lasting``: whether the act also affects later runs. If so, the act is refused even to remnants of the code, such as a
    timer or a function, after its run has ended.
    """
    is_left = is_lasting and (_current.get() is not None or _is_left_behind() or _is_in_hook())
    if is_left or model_code() is not None:
        raise SettingsError(
            f"{act} is reserved for the person: code run by a model cannot do it", "Say in your reply what you need"
        )
