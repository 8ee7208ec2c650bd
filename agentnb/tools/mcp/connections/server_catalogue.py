"""The tools, resources and prompts of an MCP server, and the facts about its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import visible
from agentnb.tools.mcp.connections.lenient_results import unwrap

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t

MAX_PAGES = 100
"""Maximum number of pages to read per list, so that an endless list does not hang a run."""
METHOD_NOT_FOUND = -32601
CONNECTION_CLOSED = -32000
"""Client error code for a closed connection. Servers also use it for their own errors."""
CLOSED = "Connection closed"
"""Client error message of a closed connection."""
REFUSED = -32401
"""Error code passed to the client for an HTTP status that refuses access."""
SESSION_TERMINATED = -32600
"""Client error code for a request in a session that the server does not know."""
MAX_INSTRUCTIONS_CHARACTERS = 20_000


class ServerFacts(NamedTuple):
    """Facts about a server, obtained when its connection starts."""

    since: datetime
    protocol: str
    """Negotiated protocol version."""
    software: str
    """Name and version reported by the server."""
    instructions: str
    """Instructions from the server, shown only to the person, never to a model."""


class Catalogue(NamedTuple):
    """Resources and prompts of a server."""

    resources: tuple[t.Resource, ...] = ()
    templates: tuple[t.ResourceTemplate, ...] = ()
    prompts: tuple[t.Prompt, ...] = ()

    @property
    def has_resources(self) -> bool:
        """True if the server has resources or templates."""
        return bool(self.resources or self.templates)


def facts_of(client: Client) -> ServerFacts:
    """Return the facts about a new connection."""
    software = client.server_info
    named = "" if software is None else f"{software.title or software.name} {software.version}"
    instructions = visible(client.instructions or "").strip()[:MAX_INSTRUCTIONS_CHARACTERS]
    return ServerFacts(datetime.now(UTC), str(client.protocol_version), visible(named).strip(), instructions)


async def tools_of(client: Client) -> tuple[t.Tool, ...]:
    """List the tools. Raises the client's errors. A server without tool support has no tools."""
    from mcp import MCPError

    try:
        listed = await _pages(client.list_tools, "tools", MAX_PAGES)
        schemas = ("input_schema", "output_schema")
        return tuple([tool.model_copy(update={key: unwrap(getattr(tool, key)) for key in schemas}) for tool in listed])
    except MCPError as error:
        if _is_closed(error) or (error.code != METHOD_NOT_FOUND and client.server_capabilities.tools is not None):
            raise
        return ()


async def catalogue_of(client: Client, most_pages: int = MAX_PAGES) -> Catalogue:
    """List the first pages of resources and prompts. A list that the server fails to return is empty."""
    from mcp import MCPError
    from pydantic import ValidationError

    can = client.server_capabilities

    async def list_all(ask: Callable[..., Awaitable[Any]], name: str, there: object) -> tuple[Any, ...]:
        try:
            return await _pages(ask, name, most_pages) if there is not None else ()
        except (MCPError, ValidationError) as error:
            if _is_closed(error):
                raise
            return ()

    return Catalogue(
        *await asyncio.gather(
            list_all(client.list_resources, "resources", can.resources),
            list_all(client.list_resource_templates, "resource_templates", can.resources),
            list_all(client.list_prompts, "prompts", can.prompts),
        )
    )


def _is_closed(error: Any) -> bool:
    return (getattr(error, "code", None), str(error)) == (CONNECTION_CLOSED, CLOSED)


async def _pages(ask: Callable[..., Awaitable[Any]], name: str, most: int) -> tuple[Any, ...]:
    items: list[Any] = []
    cursor = None
    for _ in range(most):
        page = await ask(cursor=cursor, cache_mode="refresh")
        items += getattr(page, name)
        cursor = page.next_cursor
        if not cursor:
            break
    return tuple(items)
