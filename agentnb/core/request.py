"""What is sent to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from agentnb.core.messages import Message
from agentnb.core.view import View

T = TypeVar("T")


class Sent(View[Message]):
    """The messages of one request: a view of the conversation that keeps what was made of each message before.

    Messages behind which another stands never change; so what a provider makes of them (their wire form) is made once in a
    conversation, and a request costs what is new in it.
    """

    __slots__ = ("_kept", "_lasting", "said_since")

    def __init__(self, items: list[Message], length: int, last: Message | None, kept: dict[Any, Any]) -> None:
        super().__init__(items, length, last)
        self._kept = kept
        self._lasting: Message | None = None
        self.said_since = 0
        """How many messages at the end are of the reply itself, which was paused and is to go on."""

    @property
    def lasting(self) -> Message:
        """The message to which the reply is, the last but for what was said of it, without what is said in passing."""
        return self._items[len(self) - 1] if self._lasting is None else self._lasting

    def goes_on(self, before: Sent) -> bool:
        """Whether these are the messages of that earlier request, of which only the last may have changed, and later ones."""
        return self._kept is before._kept and len(before) <= len(self)

    def and_then(self, message: Message) -> Sent:
        """These messages with the beginning of the reply to them, and with what was made of them; the conversation stays."""
        length = len(self)
        kept = {form: made[: length - 1] if isinstance(made, list) else made for form, made in self._kept.items()}
        more = Sent([*self, message], length + 1, None, kept)
        more._lasting, more.said_since = self.lasting, self.said_since + 1
        return more

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


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Name, description and JSON Schema (an object) of a tool's arguments, as the model sees them."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    effects: tuple[str, ...] = ()
    """What the tool does to the world, as far as that is known; no model is sent it."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One call of a model.

    ``messages`` begins with a message of the person, and messages of the assistant and of others alternate strictly.
    It is a view of the list at the time of the call: a request kept for later still shows what was sent then.
    ``settings`` of this one call: ``max_tokens``, ``tool_choice`` (auto, none, required or the name of a tool).
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = {}

    def and_then(self, message: Message) -> Request:
        """The request to go on after this message, the beginning of a reply that was paused."""
        messages = self.messages
        if not isinstance(messages, Sent):
            messages = Sent([*messages], len(messages), None, {})
        return msgspec.structs.replace(self, messages=messages.and_then(message))
