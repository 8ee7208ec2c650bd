"""The request that is sent to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from agentnb.core.messages import Message
from agentnb.core.view import View

T = TypeVar("T")
ToolRole: TypeAlias = Literal["work", "planning", "list"]
"""What a tool is for: work changes or finds out something, planning prepares it, a list holds what is to be done."""
ROLES: tuple[ToolRole, ...] = ("work", "planning", "list")
LISTS = frozenset({"todo_operations", "TodoWrite", "TodoRead", "write_todos", "read_todos", "update_plan"})
"""Names of the todo lists of agentnb and of other products: they hold what is to be done, and are not work."""
PLANNING = frozenset({"think", "sequentialthinking", "exit_plan_mode", "ExitPlanMode"})


@lru_cache(maxsize=1024)
def role_of(name: str) -> ToolRole:
    """Return the role of a tool that does not say it, by its name."""
    return "list" if name in LISTS else "planning" if name in PLANNING else "work"


class Sent(View[Message]):
    """The messages of one request: a view of the conversation that caches what was made of each message before.

    A message never changes once another follows it; so its wire form (what a provider makes of it) is made once in a
    conversation, and a request costs only what is new in it.
    """

    __slots__ = ("_kept", "_lasting", "said_since")

    def __init__(self, items: list[Message], length: int, last: Message | None, kept: dict[Any, Any]) -> None:
        self._items, self._length, self._last = items, length, last  # as `View` does: one is made for each request
        self._kept = kept
        self._lasting: Message | None = None
        self.said_since = 0
        """Number of messages at the end that belong to the reply itself, which was paused and is to be continued."""

    @property
    def lasting(self) -> Message:
        """The last input message, without its ephemeral text and without the paused reply that may follow it."""
        return self._items[len(self) - 1] if self._lasting is None else self._lasting

    def goes_on(self, before: Sent) -> bool:
        """Return whether these begin with the messages of that earlier request, of which only the last may have changed."""
        return self._kept is before._kept and len(before) <= len(self)

    def and_then(self, message: Message) -> Sent:
        """Return these messages, and the cache, with the beginning of a reply added; the conversation does not change."""
        length = len(self)
        kept = {form: forms[: length - 1] if isinstance(forms, list) else forms for form, forms in self._kept.items()}
        more = Sent([*self, message], length + 1, None, kept)
        more._lasting, more.said_since = self.lasting, self.said_since + 1
        return more

    def made(self, form: Any, make: Callable[[Message], T], stop: int) -> list[T]:
        """Return what ``make`` makes of the first ``stop`` messages (at most all but the last), cached under ``form``."""
        results: list[T] = self._kept.setdefault(form, [])
        items = self._items
        results.extend([make(items[index]) for index in range(len(results), min(stop, len(self) - 1))])
        return results if len(results) == stop else results[:stop]

    def once(self, form: Any, of: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return what ``make`` makes from the inputs ``of``, cached under ``form`` as long as they stay the same."""
        entry: tuple[tuple[Any, ...], T] | None = self._kept.get(form)
        if entry is None or entry[0] != of:
            entry = self._kept[form] = of, make()
        return entry[1]


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it: its name, its description, and the JSON Schema (an object) of its arguments."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    effects: tuple[str, ...] = ()
    """The tool's effects on the world, as far as they are known; never sent to a model."""
    role: ToolRole | None = None
    """What it is for; None: known by its name, see `role_of`. Never sent to a model."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request to a model.

    ``messages`` begins with a message of the person, and messages of the assistant and of others alternate strictly.
    It is a view of the list at the time of the call: a request kept for later still shows what was sent then.
    ``settings`` are for this one call: ``max_tokens``, ``tool_choice`` (auto, none, required or the name of a tool),
    ``output_schema`` (the JSON Schema of a text-only reply, for models that can be held to one).
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = {}

    def and_then(self, message: Message) -> Request:
        """Return the request that continues after this message, the beginning of a paused reply."""
        messages = self.messages
        if not isinstance(messages, Sent):
            messages = Sent([*messages], len(messages), None, {})
        return msgspec.structs.replace(self, messages=messages.and_then(message))
