"""One attempt at a step, and the place of the step in its run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from agentnb.core.step_retry import ONCE, Retry


class StepTerms(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The kind of a step, and when it is tried again or given up."""

    kind: str = ""
    """The word for it in the log."""
    retry: Retry = ONCE
    timeout: float | None = None
    """Seconds that one attempt may take."""
    instead: tuple[Any, ...] = ()
    """The output with which it counts as completed when it has failed, if there is one."""


class Place(NamedTuple):
    """The place of a step in its run."""

    path: str
    """The step's id, after those of the blocks around it."""
    parent: str = ""
    """The path of the block around it."""
    scope: Any = None
    """The values that its templates may read, in a workflow."""


@dataclass(slots=True)
class Attempt:
    """One attempt at a step."""

    place: Place
    limit: asyncio.Timeout | None = None
    """Its time limit, if it has one, which stands still while the person is asked."""
    run_id: str = ""
    """Id of the nested run that does the work, if one does."""
    is_new: bool = True
    """Whether no process has begun it."""
    is_plain: bool = False
    """Whether its output is plain data that nobody else holds, and need not be copied."""
    sets: Mapping[str, Any] | None = None
    """The variables that its work has set, which are logged with its end."""
