"""An attempt at a step, and the step's place in its run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from agentnb.core.step_retry import ONCE, Retry


class StepTerms(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The kind of a step, its retries and its time limit."""

    kind: str = ""
    """Its kind, as logged."""
    retry: Retry = ONCE
    timeout: float | None = None
    """Maximum seconds of one attempt."""
    instead: tuple[Any, ...] = ()
    """Output that replaces a failure, so that the step counts as completed; may be empty."""


class Place(NamedTuple):
    """The place of a step in its run."""

    path: str
    """The step's id, prefixed with the ids of its enclosing blocks."""
    parent: str = ""
    """Path of the enclosing block."""
    scope: Any = None
    """Values that its templates may read, in a workflow."""


@dataclass(slots=True)
class Attempt:
    """An attempt at a step."""

    place: Place
    limit: asyncio.Timeout | None = None
    """Its time limit, if any; suspended while the person is being asked."""
    run_id: str = ""
    """Id of the nested run that does the work, if there is one."""
    is_new: bool = True
    """True if no process has started it before."""
    is_plain: bool = False
    """True if its output is plain data without other references, so that it need not be copied."""
    sets: Mapping[str, Any] | None = None
    """Variables that its work has set, logged with its end."""
