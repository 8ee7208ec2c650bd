"""Handlers of events."""

from __future__ import annotations

from agentnb.core.log import events as e
from agentnb.core.log.handlers import Handlers


def test_handler_is_registered_for_each_kind_in_its_annotation() -> None:
    handles = Handlers()

    @handles
    def end_call(run: object, event: e.ToolFinished | e.CallBlocked) -> None:
        """End a call."""

    @handles
    def warn(run: object, event: e.Warned) -> None:
        """Warn."""

    assert handles == {e.ToolFinished: end_call, e.CallBlocked: end_call, e.Warned: warn}
