"""Handlers of events: functions that are found by the kind of an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

from agentnb.core.log.event import Event

F = TypeVar("F", bound=Callable[..., Any])


class Handlers(dict[type[Event], Callable[[Any, Any], Any]]):
    """Functions by kind of event. As a decorator, it adds a function for the kinds in the annotation of its ``event``."""

    def __call__(self, function: F) -> F:
        """Add a function."""
        kinds = get_type_hints(function)["event"]
        self.update(dict.fromkeys(get_args(kinds) or (kinds,), function))
        return function
