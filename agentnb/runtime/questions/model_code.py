"""Code that a model wrote and one of its calls runs: what only the person decides is refused in it.

That is a courtesy among honest code, no wall: code in this process can reach into its memory.
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
"""How the names of the sources of such code begin."""


class ModelCode:
    """The code of one call. Its functions, and the threads that it starts, belong to it until the outermost run has ended."""

    def __init__(self, call: Any) -> None:
        """``call``: the elicitor of the call that runs it."""
        self.call = call
        self.filename = f"{FILENAME}{next(_numbers)}>"
        """The name of its source in tracebacks, by which its functions are known."""
        self.is_running = False
        self.is_over = False
        """Whether the outermost run around it has ended."""
        _of_file[self.filename] = self
        _has_run.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let what this thread does in the block, and the threads that it starts meanwhile, belong to this code."""
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
"""Who gives a grant while no cell of the person runs and nothing was clicked."""
running_cells: list[Any] = [None]
"""The cells of the person that run; None before the first has ended, and outside a notebook."""
_is_click: ContextVar[bool] = ContextVar("is_click", default=False)
_has_run = threading.Event()
"""Set once the code of a model has run in this process."""
_of_file: WeakValueDictionary[str, ModelCode] = WeakValueDictionary()
"""The code of live runs, by its file name: their elicitations hold it."""


def model_code() -> ModelCode | None:
    """Return the code of a model that calls this, in whatever thread; None for anything else."""
    code = _current.get()
    if code is None and _of_file:
        code = _on_stack() or _of_unknown_thread()  # a context can be left
    return None if code is None or code.is_over else code


def _callers() -> Iterator[CodeType]:
    """Yield the code of the functions that are calling, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _on_stack() -> ModelCode | None:
    """Return the code of a model of which a function is calling."""
    return next((code for caller in _callers() if (code := _of_file.get(caller.co_filename)) is not None), None)


def _is_left_behind() -> bool:
    """Return whether a function of the code of a model is calling, whose run may have ended."""
    return any(caller.co_filename.startswith(FILENAME) for caller in _callers())


def _is_in_hook() -> bool:
    """Return whether a hook of IPython is calling, which may be one that the code of a model has registered by any name."""
    events, shell = (sys.modules.get(f"IPython.core.{name}") for name in ("events", "interactiveshell"))
    if events is None or shell is None or not _has_run.is_set():
        return False
    hooks = {events.EventManager.trigger.__code__, shell.InteractiveShell.transform_cell.__code__}
    return not hooks.isdisjoint(_callers())


def _of_unknown_thread() -> ModelCode | None:
    """Return the code that runs, if this thread was started behind Python's back."""
    if threading.get_ident() in threading._active and type(threading.current_thread()).__name__ != "_DummyThread":  # type: ignore[attr-defined]
        return None
    return _running[-1] if _running else None


@contextmanager
def _bound(variable: ContextVar[T], value: T) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def as_code(code: ModelCode | None) -> AbstractContextManager[None]:
    """Let this thread, which the code has started, belong to it."""
    return _bound(_current, code)


def leave_code() -> None:
    """Let what follows in this context no longer belong to the code that caused it: a tool that it called."""
    _current.set(None)


def click() -> AbstractContextManager[None]:
    """Let what is done in the block be the person's, whether or not a cell runs."""
    return _bound(_is_click, True)


def giver() -> str:
    """Return `BETWEEN_CELLS` if no cell of the person runs and nothing was clicked, else an empty string."""
    return "" if running_cells or _is_click.get() else BETWEEN_CELLS


def check_person(act: str, *, is_lasting: bool = False) -> None:
    """Raise `SettingsError` if the code of a model does what only the person may. ``act``: such as "Answering a question".

    ``is_lasting``: whether the act holds for later runs too. Then what the code left behind, such as a timer or a function,
    is refused also when its run has ended.
    """
    is_left = is_lasting and (_current.get() is not None or _is_left_behind() or _is_in_hook())
    if is_left or model_code() is not None:
        raise SettingsError(
            f"{act} is up to the person: code that a model runs cannot do it", "Say in the reply what is needed"
        )
