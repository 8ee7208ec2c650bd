"""The request to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from agentnb.core.messages import Message
from agentnb.core.view import View

T = TypeVar("T")
ToolRole: TypeAlias = Literal["work", "planning", "list"]
"""Role of a tool: work changes or finds something, planning prepares work, and a list holds the tasks."""
ROLES: tuple[ToolRole, ...] = ("work", "planning", "list")
LISTS = frozenset({"todo_operations", "TodoWrite", "TodoRead", "write_todos", "read_todos", "update_plan"})
"""Names of todo list tools, in agentnb and other products; they do not count as work."""
PLANNING = frozenset({"think", "sequentialthinking", "exit_plan_mode", "ExitPlanMode"})


@lru_cache(maxsize=1024)
def role_of(name: str) -> ToolRole:
    """Return the role that the name suggests, for a tool without a declared role."""
    return "list" if name in LISTS else "planning" if name in PLANNING else "work"


class Sent(View[Message]):
    """The messages of a request: a view of the conversation that caches the converted form of each message.

    A message never changes once another follows it, so its wire form (as converted for a provider) is created once per
    conversation, and a request costs only its new messages.
    """

    __slots__ = ("_kept", "_lasting", "said_since")

    def __init__(self, items: list[Message], length: int, last: Message | None, kept: dict[Any, Any]) -> None:
        self._items, self._length, self._last = items, length, last  # as in `View`: one is created for each request
        self._kept = kept
        self._lasting: Message | None = None
        self.said_since = 0
        """Number of messages at the end that belong to a paused reply to be continued."""

    @property
    def lasting(self) -> Message:
        """The last input message, without its ephemeral text and the paused reply that may follow it."""
        return self._items[len(self) - 1] if self._lasting is None else self._lasting

    def extends(self, before: Sent) -> bool:
        """True if these messages begin with those of the earlier request; only the last of its messages may differ."""
        return self._kept is before._kept and len(before) <= len(self)

    def and_then(self, message: Message) -> Sent:
        """Return these messages and the cache with the beginning of a reply added. The conversation is unchanged."""
        length = len(self)
        kept = {form: forms[: length - 1] if isinstance(forms, list) else forms for form, forms in self._kept.items()}
        extended = Sent([*self, message], length + 1, None, kept)
        extended._lasting, extended.said_since = self.lasting, self.said_since + 1
        return extended

    def map_messages(self, form: Any, make: Callable[[Message], T], stop: int) -> list[T]:
        """Apply ``make`` to the first ``stop`` messages (at most all but the last), cached under ``form``."""
        results: list[T] = self._kept.setdefault(form, [])
        items = self._items
        results.extend([make(items[index]) for index in range(len(results), min(stop, len(self) - 1))])
        return results if len(results) == stop else results[:stop]

    def once(self, form: Any, of: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return the result of ``make``, cached under ``form`` until the inputs ``of`` change."""
        entry: tuple[tuple[Any, ...], T] | None = self._kept.get(form)
        if entry is None or entry[0] != of:
            entry = self._kept[form] = of, make()
        return entry[1]


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as visible to the model: its name, its description, and the JSON Schema (an object) of its arguments."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    effects: tuple[str, ...] = ()
    """The tool's known effects on the world; never sent to a model."""
    role: ToolRole | None = None
    """The tool's role; None: derived from its name, see `role_of`. Never sent to a model."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request to a model.

    ``messages`` begins with a message from the person, and the assistant's messages alternate strictly with those of others.
    The list is a view as of the time of the call, so a stored request still shows the messages sent then. ``settings`` apply
    to this call only: ``max_tokens``, ``tool_choice`` (auto, none, required or the name of a tool), ``output_schema`` (the
    JSON Schema of a text-only reply, for models that support it).
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = {}

    def and_then(self, message: Message) -> Request:
        """Return the request that continues after this message, which is the beginning of a paused reply."""
        messages = self.messages
        if not isinstance(messages, Sent):
            messages = Sent([*messages], len(messages), None, {})
        return msgspec.structs.replace(self, messages=messages.and_then(message))
