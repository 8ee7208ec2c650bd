"""Forked processes: they have none of the threads of their parent, and what waits for one of these waits for ever."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork(begin_anew: Callable[[], object]) -> None:
    """Call this in every process that is forked from now on, before anything else runs there.

    Whatever agentnb keeps for a whole process, and that lives in threads, event loops, locks or open files, is made anew so.
    """
    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=begin_anew)
