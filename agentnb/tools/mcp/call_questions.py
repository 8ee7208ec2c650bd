"""Questions of an MCP server during a call, forwarded to the person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from agentnb.core.messages import Text, visible
from agentnb.core.questions import INPUT_REQUIRED
from agentnb.core.schema.secret_fields import secret_fields
from agentnb.errors import Declined, NotAnswered, QuestionCancelled, SettingsError
from agentnb.tools.defaults import MAX_QUESTIONS
from agentnb.tools.tool import ToolContext, ToolOutcome

if TYPE_CHECKING:
    from mcp import types as t

MAX_MESSAGE_CHARACTERS = 2_000


class CallQuestions:
    """Questions asked during a call. Used on the event loop of the connections."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self.asked = 0
        """Number of questions so far."""
        self.unanswered: NotAnswered | None = None
        """Error for a question that no person could answer."""
        self.refused: list[str] = []
        """Reasons for refusing questions."""

    async def elicit(self, params: Any) -> t.ElicitResult:
        """Forward a question from the server to the person, and return their action: accept, decline or cancel."""
        from mcp.types import ElicitResult

        if len(self.refused) > MAX_QUESTIONS:
            raise RuntimeError("it keeps asking for input")
        self.asked += 1
        try:
            self._check(params)
            return ElicitResult(action="accept", content=await self._answer(params))
        except Declined as error:
            return ElicitResult(action="cancel" if isinstance(error, QuestionCancelled) else "decline")
        except NotAnswered as error:
            self.unanswered = error
            return ElicitResult(action="cancel")
        except SettingsError as error:  # including an invalid schema or address
            self.refused.append(str(error))
            return ElicitResult(action="decline")

    def add_note(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome with a note about refused questions. Raises `NotAnswered` if no person could answer."""
        if self.unanswered is not None and not outcome.ok:
            raise self.unanswered
        note = f"(agentnb refused a question from the server: {visible('; '.join(self.refused))})"
        return replace(outcome, parts=(*outcome.parts, Text(note))) if self.refused else outcome

    async def _answer(self, params: Any) -> dict[str, Any] | None:
        message = visible(params.message)[:MAX_MESSAGE_CHARACTERS].strip() or INPUT_REQUIRED
        if params.mode == "url":
            await self._context.ask_url(message, params.url)
            return None
        answer = await self._context.ask(message, dict(params.requested_schema))
        return dict(answer) if isinstance(answer, Mapping) else None

    def _check(self, params: Any) -> None:
        """Raise `SettingsError` if the question is to be refused."""
        if self.asked > MAX_QUESTIONS:
            raise SettingsError(f"it asked more than {MAX_QUESTIONS} questions in one call")
        if params.mode != "url" and (fields := secret_fields(dict(params.requested_schema))):
            raise SettingsError(f"it asked for what looks like a password or key: {', '.join(fields)}")
