"""What is sent to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from agentnb.core.messages import Message
from agentnb.core.tool_spec import ToolSpec
from agentnb.core.view import View

T = TypeVar("T")


class Sent(View[Message]):
    """The messages of one request: a view of the conversation that keeps what was made of each message before.

    Messages behind which another stands never change; so what a provider makes of them (their wire form) is made once in a
    conversation, and a request costs what is new in it.
    """

    __slots__ = ("_kept",)

    def __init__(self, items: list[Message], length: int, last: Message | None, kept: dict[Any, Any]) -> None:
        super().__init__(items, length, last)
        self._kept = kept

    @property
    def lasting(self) -> Message:
        """The last message without what is said in passing."""
        return self._items[len(self) - 1]

    def made(self, form: Any, make: Callable[[Message], T], stop: int) -> list[T]:
        """What ``make`` makes of the first ``stop`` messages, which may be all but the last. ``form`` names it, for keeping."""
        made: list[T] = self._kept.setdefault(form, [])
        items = self._items
        made.extend([make(items[index]) for index in range(len(made), min(stop, len(self) - 1))])
        return made if len(made) == stop else made[:stop]

    def once(self, form: Any, of: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What ``make`` makes ``of`` these, kept under the name ``form`` as long as they stay the same."""
        found: tuple[tuple[Any, ...], T] | None = self._kept.get(form)
        if found is None or found[0] != of:
            found = self._kept[form] = of, make()
        return found[1]


class Request(msgspec.Struct, frozen=True):
    """One call of a model.

    ``messages`` begins with a message of the person, and messages of the assistant and of others alternate strictly.
    It is a view of the list at the time of the call: a request kept for later still shows what was sent then.
    ``settings`` of this one call: ``max_tokens``, ``tool_choice`` (auto, none, required or the name of a tool).
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = {}
