"""The kernel of the notebook, and access to its shell and namespace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from agentnb.advice import Plain
from agentnb.errors import SettingsError


class Kernel(NamedTuple):
    """The kernel in this process."""

    shell: Any

    @property
    def variables(self) -> dict[str, Any]:
        """The namespace of the person's cells."""
        return self.shell.user_ns  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the namespace, excluding names that are instances of `str` subclasses."""
        return {name: value for name, value in [*self.variables.items()] if type(name) is str}

    @property
    def hidden(self) -> frozenset[str]:
        """Names that IPython added to the namespace."""
        return frozenset(name for name in [*self.shell.user_ns_hidden] if type(name) is str)

    def schedule(self, callback: Callable[[], None]) -> None:
        """Call a function on the event loop of the main thread, between two cells. Thread-safe."""
        self.shell.kernel.io_loop.add_callback(callback)


def find_kernel() -> Kernel | None:
    """Return the kernel of this process, or None in a terminal or a script. Imports nothing."""
    module = sys.modules.get("IPython.core.getipython")
    shell = None if module is None else module.get_ipython()
    return None if getattr(shell, "kernel", None) is None else Kernel(shell)


def the_kernel(tool: str) -> Kernel:
    """Return the kernel of this process. Raises `SettingsError` outside a notebook. ``tool``: the tool's name, for the
    error.
    """
    kernel = find_kernel()
    if kernel is None:
        advice = (Plain("Run the agent in a notebook, or omit the tool"), Plain("The think tool works anywhere"))
        raise SettingsError(f"{tool} works only in a notebook kernel", advice)
    return kernel
