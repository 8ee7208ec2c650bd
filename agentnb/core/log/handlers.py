"""Event handlers: functions looked up by event kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

from agentnb.core.log.event import Event

F = TypeVar("F", bound=Callable[..., Any])


class Handlers(dict[type[Event], Callable[[Any, Any], Any]]):
    """Functions by kind of event. As a decorator, registers a function for the kinds in its ``event`` annotation."""

    def __call__(self, function: F) -> F:
        """Register a function."""
        kinds = get_type_hints(function)["event"]
        self.update(dict.fromkeys(get_args(kinds) or (kinds,), function))
        return function
