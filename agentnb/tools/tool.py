"""The one thing the loop knows of a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from agentnb.core.display_data import Table
from agentnb.core.messages import Image, Text, ToolResult, encodable
from agentnb.core.questions import QuestionKind
from agentnb.core.request import ToolSpec
from agentnb.errors import NobodyToAsk

Effect: TypeAlias = Literal["read", "write", "execute", "network"]
"""What a tool does to the world."""

CallSync: TypeAlias = Callable[[Callable[[], Any], bool], Awaitable[Any]]
"""Runs a blocking function where it should run: on the person's own thread, or, if the second argument says that it is
safe beside others, in a thread of a pool."""


class Asker(Protocol):
    """Brings the questions of a call to the person, and their answers back."""

    async def ask(self, message: str, schema: dict[str, Any] | None, kind: QuestionKind) -> Any:
        """Ask and wait."""

    def ask_sync(self, message: str, schema: dict[str, Any] | None, kind: QuestionKind) -> Any:
        """Ask and block the calling thread."""


class ToolContext(msgspec.Struct, frozen=True):
    """Where and for whom a tool runs. A function tool with a parameter of this type gets it."""

    run_id: str
    call_id: str
    work_dir: Path
    call_sync: CallSync
    asker: Asker | None = None

    async def ask(self, message: str, schema: dict[str, Any] | None = None, kind: QuestionKind = "elicitation") -> Any:
        """Ask the person and wait for the answer; while it is waited for, the time limit of the call stands still.

        ``schema`` is the JSON Schema of the answer, by default that of a text: ``{"enum": ["red", "blue"]}``,
        ``{"type": "boolean"}``. Raises `Declined` if the person does not want to answer and `NobodyToAsk` if there is nobody;
        what of these a tool does not catch is told to the model. A tool that asks is best marked ``blocking=True``.
        """
        return await self._person().ask(message, schema, kind)

    def ask_sync(self, message: str, schema: dict[str, Any] | None = None, kind: QuestionKind = "elicitation") -> Any:
        """As `ask`, for plain functions: it blocks the thread they run on, until there is an answer or the run is stopped."""
        return self._person().ask_sync(message, schema, kind)

    def _person(self) -> Asker:
        if self.asker is None:
            raise NobodyToAsk("There is nobody to ask", "Decide yourself and say what you assumed")
        return self.asker


class ToolOutcome(msgspec.Struct, frozen=True):
    """What came of a call: either a value or, with ``ok=False``, an error the model can read.

    ``parts`` is the value (or error) as the model sees it; ``error_code`` names the kind of error; ``display`` is the value as
    a table for the person, where it is one.
    """

    ok: bool
    parts: tuple[Text | Image, ...]
    value: Any = None
    error_code: str | None = None
    display: Table | None = None

    @property
    def text(self) -> str:
        """Its words."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def as_result(self, call_id: str, name: str) -> ToolResult:
        """As the answer to a call."""
        parts = tuple([Text(encodable(part.text)) if isinstance(part, Text) else part for part in self.parts])
        return ToolResult(call_id, name, parts, not self.ok, self.error_code)


def failure(error_code: str, text: str) -> ToolOutcome:
    """An outcome that tells the model what went wrong and what to try."""
    return ToolOutcome(False, (Text(text),), error_code=error_code)


class Tool(Protocol):
    """Something a model may ask for."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input schema."""

    @property
    def effects(self) -> frozenset[Effect] | None:
        """What it does to the world; None when nobody has said."""

    @property
    def parallel_safe(self) -> bool:
        """Whether it may run beside other calls."""

    @property
    def blocking(self) -> bool:
        """Whether it waits for the person: such calls come first, one by one."""

    @property
    def timeout(self) -> float | None:
        """Seconds after which a call is given up; None for never."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Do it. What it raises becomes an error result; it need not catch anything."""
