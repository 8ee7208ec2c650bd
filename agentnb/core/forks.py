"""Forked processes: the parent's threads do not run in them, so waiting for one would never end."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork(begin_anew: Callable[[], object]) -> None:
    """Call a function in every process forked from now on, before anything else runs there.

    The function recreates agentnb's process-wide threads, event loops, locks and open files.
    """
    if hasattr(os, "register_at_fork"):  # Windows does not fork
        os.register_at_fork(after_in_child=begin_anew)
