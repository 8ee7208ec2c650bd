"""Questions that an MCP server asks during a call, brought to the person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.core.messages import encodable, visible
from agentnb.errors import Declined, NotAnswered
from agentnb.tools.mcp.connection import root_of
from agentnb.tools.tool import ToolContext

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t

MAX_INPUTS = 10
"""Times that a server may ask for input in one call."""


class CallQuestions:
    """The questions of one call. On the event loop of the connections."""

    def __init__(self, context: ToolContext, server: str, work_dir: Path) -> None:
        self._context = context
        self._server = server
        self._work_dir = work_dir
        self.error: NotAnswered | None = None
        """Why a question could not be asked at all."""
        self.has_asked = False

    async def completed(self, client: Client, tool: str, arguments: dict[str, Any], progress: Any) -> t.CallToolResult:
        """Call the tool, answer what the server asks for, and return the result. Raises the client's errors."""
        from mcp.types import CallToolResult

        responses, state = None, None
        for _ in range(MAX_INPUTS + 1):
            result = await client.session.call_tool(
                tool,
                arguments,
                progress_callback=progress,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
            if isinstance(result, CallToolResult):
                return result
            state = result.request_state
            responses = {key: await self._response(asked) for key, asked in (result.input_requests or {}).items()}
        raise RuntimeError(f"it asked for input more than {MAX_INPUTS} times")

    async def elicit(self, params: Any) -> t.ElicitResult:
        """Ask the person what the server asks."""
        from mcp.types import ElicitResult

        self.has_asked = True
        try:
            answer = await self._context.ask(visible(encodable(params.message)), dict(params.requested_schema))
        except Declined:
            return ElicitResult(action="decline")
        except NotAnswered as error:
            self.error = error
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content=dict(answer) if isinstance(answer, Mapping) else None)

    async def _response(self, asked: Any) -> Any:
        from mcp.types import ListRootsResult

        if asked.method == "elicitation/create":
            return await self.elicit(asked.params)
        if asked.method == "roots/list":
            return ListRootsResult(roots=[root_of(self._work_dir)])
        raise RuntimeError("it asked for a model's reply, which agentnb does not give to servers")
