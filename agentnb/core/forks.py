"""Forked processes: none of the parent's threads runs there, so a wait for one of them would never end."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork(begin_anew: Callable[[], object]) -> None:
    """Call a function in every process that is forked from now on, before anything else runs there.

    It makes anew what agentnb keeps for a whole process in threads, event loops, locks or open files.
    """
    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=begin_anew)
