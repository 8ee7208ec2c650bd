"""The kernel of the notebook: where its shell is found, and what the tools read there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from agentnb.advice import Plain
from agentnb.errors import SettingsError


class Kernel(NamedTuple):
    """The kernel that this process is."""

    shell: Any

    @property
    def variables(self) -> dict[str, Any]:
        """The namespace of the person's cells."""
        return self.shell.user_ns  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the namespace, without names that are texts of a class of their own."""
        return {name: value for name, value in [*self.variables.items()] if type(name) is str}

    @property
    def hidden(self) -> frozenset[str]:
        """Names in the namespace that IPython put there."""
        return frozenset(name for name in [*self.shell.user_ns_hidden] if type(name) is str)

    def schedule(self, callback: Callable[[], None]) -> None:
        """Have the event loop of the main thread call a function, between two cells. Thread-safe."""
        self.shell.kernel.io_loop.add_callback(callback)


def find_kernel() -> Kernel | None:
    """Return the kernel of this process; None in a terminal or a script. Loads nothing."""
    module = sys.modules.get("IPython.core.getipython")
    shell = None if module is None else module.get_ipython()
    return None if getattr(shell, "kernel", None) is None else Kernel(shell)


def the_kernel(tool: str) -> Kernel:
    """Return the kernel of this process; raise `SettingsError` if there is none. ``tool``: what needs it."""
    kernel = find_kernel()
    if kernel is None:
        advice = (Plain("Run the agent in a notebook, or leave the tool out"), Plain("think works anywhere"))
        raise SettingsError(f"{tool} works in a notebook only, and this process has no kernel of one", advice)
    return kernel
