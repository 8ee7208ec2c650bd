"""Waiting for what another thread does: for as long as it takes, with a limit that only a hanging test meets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds after which a test that waits has failed."""


def wait_until(condition: Callable[[], Any]) -> None:
    """Return as soon as the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.001)
