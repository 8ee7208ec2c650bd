"""A tool of an MCP server, as a tool of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.advice import PYTHON, in_words
from agentnb.core.messages import visible
from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolRole, ToolSpec
from agentnb.core.schema.accepted_schema import with_real_names
from agentnb.core.schema.json_schema import UnusableSchema, schema_errors, usable_schema
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.core.schema.whole_numbers import with_leaves
from agentnb.errors import NotAnswered, ServerFailed, SettingsError
from agentnb.tools.mcp.call_questions import CallQuestions
from agentnb.tools.mcp.call_results import outcome_of
from agentnb.tools.mcp.connections.lenient_results import unwrap
from agentnb.tools.mcp.connections.live_server import LiveServer, leaves
from agentnb.tools.mcp.connections.server_catalogue import CONNECTION_CLOSED, Catalogue
from agentnb.tools.mcp.mcp_server import ServerTools, digest
from agentnb.tools.mcp.wire_names import wire_name, wire_names
from agentnb.tools.signature import refused_arguments
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t

MAX_DESCRIPTION_CHARACTERS = 4_000
MAX_SCHEMA_BYTES = 50_000
DIED = "The server exited during the call. The call may have taken effect: check before you call again."


Answer: TypeAlias = Callable[["Client", Mapping[str, Any], Catalogue], Awaitable[ToolOutcome]]
"""Function that answers a call in place of the server's tool, using the arguments and the server's catalogue."""
Changed: TypeAlias = Literal["server", "tool"]
Changes: TypeAlias = dict[Changed, str]
"""Changes since the first use: for the server, its previous target; for the tool, a diff."""


class MCPTool:
    """A tool of a server. Asks by default, regardless of the server's annotations."""

    effects: frozenset[Effect] = frozenset({"execute"})
    blocking = False
    role: ToolRole | None = None

    def __init__(self, live: LiveServer, tool: t.Tool, name: str, answer: Answer | None = None) -> None:
        """``name``: tool name for models; ``answer``: replaces the call to the server, for tools added by agentnb.

        Raises `UnusableSchema` with the reason if the tool cannot be offered to a model.
        """
        self.live = live
        self.asker_name = f"MCP server {live.server.name}"
        self.timeout, self.max_seconds = live.server.timeout, live.server.max_seconds
        self._output_schema, self._answer = tool.output_schema, answer
        self.tool_name: str = tool.name
        """Name of the tool on the server."""
        self.title: str = visible(tool.title or "")[:MAX_DESCRIPTION_CHARACTERS]
        description = visible(tool.description or "")[:MAX_DESCRIPTION_CHARACTERS] or self.title
        schema, self.unchecked = _object_schema(tool.input_schema)
        self.spec = ToolSpec(name, description, schema, effects=tuple(sorted(self.effects)))
        hints = tool.annotations
        self.parallel_safe = bool(hints and hints.read_only_hint)
        self.may_repeat = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
        """True if the server declares that a call can be repeated."""
        self.identity: str = digest([self.tool_name, description, self.spec.input_schema])
        """Digest of the tool's definition. Permissions are bound to it."""
        self.changes: Callable[[], Changes] = dict
        """Returns the changes to the tool and its server since their first use."""

    @property
    def origin(self) -> ToolOrigin:
        """Server and tool, with their changes."""
        server, name = self.live.server, visible(self.tool_name)
        name = name if name == self.tool_name else f"{name} ({self.spec.name})"  # must not match rules about another tool
        changed, identities = self.changes(), (server.identity, self.identity)
        before = changed.get("server", ""), changed.get("tool", "")
        return ToolOrigin(
            server.name, visible(server.target), name, *identities, self.spec.description, tuple(changed), *before
        )

    def is_of(self, item: ServerTools) -> bool:
        """True if an item for the tool's server includes the tool: by its name on the server, by its name for models, or as one
        of all the server's tools.
        """
        return item.tool in ("", self.tool_name, self.spec.name, wire_name(item.name, self.tool_name))

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Call the tool on its server. A cancelled call is reported to the server."""
        if not isinstance(arguments, Mapping):
            return refused_arguments(self.spec.name, arguments, self.spec.input_schema)
        if self._answer is not None and (refused := self.refusal(arguments)) is not None:
            return refused
        arguments = with_real_names(self.spec.input_schema, arguments)
        questions = CallQuestions(context)

        async def report(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, visible(message or ""))

        async def call(client: Client) -> ToolOutcome:
            if self._answer is not None:
                return await self._answer(client, arguments, self.live.catalogue)
            result = await client.call_tool(self.tool_name, dict(arguments), progress_callback=report)
            return questions.add_note(outcome_of(unwrap(result.structured_content), self._output_schema))

        for attempt in range(2):
            try:
                return await self.live.request(call, questions.elicit)
            except Exception as error:
                raised = next(iter(leaves(error)), error)
                if questions.unanswered is not None:
                    raise questions.unanswered from error
                if attempt == 0 and questions.asked and self.may_repeat and self._is_end(raised):
                    continue  # the question was lost with the server: ask again
                if attempt == 0 and await self._log_in(raised, context):
                    continue  # the server refused the call unread
                return self._failure(raised)
        raise AssertionError("the second attempt has returned")

    def refusal(self, arguments: Any) -> ToolOutcome | None:
        """Return the error result for arguments that violate the schema in every interpretation, otherwise None.

        Many servers accept a string such as ``"5"`` for a number.
        """
        schema = self.spec.input_schema
        arguments = with_real_names(schema, arguments)
        try:
            wrong = [tuple(map(str, error.where)) for error in schema_errors(schema, arguments) if error.keyword == "type"]
            read = with_leaves(arguments, lambda leaf, place: _read(leaf) if place in wrong else leaf)
            fits = not schema_errors(schema, read)
        except UnusableSchema:  # only the server can check the arguments
            return None
        return None if fits else refused_arguments(self.spec.name, arguments, schema)

    async def _log_in(self, error: BaseException, context: ToolContext) -> bool:
        """Let the person log in if the server refused a call. Returns False if the person is absent or does not log in."""
        refusal = self.live.refusal(error)
        if refusal is None or not refusal.takes_login or context.asker is None:
            return False
        try:
            context.asker.check_person()
            await self.live.log_in(refusal.scope, context.ask_url)
        except (NotAnswered, ServerFailed, SettingsError):
            return False
        return True

    def _failure(self, error: BaseException) -> ToolOutcome:
        if self._is_end(error):
            return failure("server_ended", DIED)
        name, refusal = self.live.server.name, self.live.refusal(error)
        advice = "" if refusal is None else f"Only the user can do that. {in_words(refusal.advice(name), PYTHON)}"
        return failure("tool_error", f"The MCP server {name} failed: {self.live.why(error)}", advice)

    def _is_end(self, error: BaseException) -> bool:
        """True if the connection ended. For a program that is always a `ConnectionError`: any error code is the program's
        own.
        """
        is_closed = self.live.server.is_remote and getattr(error, "code", None) == CONNECTION_CLOSED
        return isinstance(error, ConnectionError) or is_closed


class ListedTools(NamedTuple):
    """Tools of a server."""

    usable: tuple[MCPTool, ...]
    left_out: dict[str, str]
    """Reasons for not offering tools to a model, by tool name."""


def tools_of_server(
    live: LiveServer, tools: Iterable[t.Tool], names: Mapping[tuple[str, str], str] | None = None
) -> ListedTools:
    """Return the tools of a server. ``names``: names for models, across all servers of a run."""
    listed, usable, left_out = list(tools), dict[str, MCPTool](), dict(live.set_aside)
    server, named = live.server.name, names or names_of(live, listed)
    for tool in listed:
        name = named[server, tool.name]
        try:
            if usable.setdefault(name, MCPTool(live, tool, name)).tool_name != tool.name:
                left_out[tool.name] = f"{usable[name].tool_name!r} has the same name after conversion"
        except UnusableSchema as error:
            left_out[tool.name] = str(error)
    return ListedTools(tuple(usable.values()), left_out)


def names_of(live: LiveServer, tools: Iterable[t.Tool]) -> dict[tuple[str, str], str]:
    """Return a server's tool names as models see them, including those of tools set aside, by server and tool."""
    return wire_names([(live.server.name, name) for name in (*[tool.name for tool in tools], *live.set_aside)])


def _read(text: Any) -> Any:
    """Parse a string as JSON; return other values unchanged."""
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(text) if isinstance(text, str) else text
    return text


def _object_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the input schema to send, and the paths in it that are not validated. Raises `UnusableSchema`.

    Providers require an object with properties.
    """
    if is_too_deep(schema):
        raise UnusableSchema(f"its schema is nested deeper than {MAX_DEPTH} levels")
    try:
        if (size := len(msgspec.json.encode(schema))) > MAX_SCHEMA_BYTES:
            raise UnusableSchema(f"its schema is {size:,} bytes long")
        usable, left_out = usable_schema(schema)
    except UnusableSchema:
        raise
    except (TypeError, ValueError, RecursionError):
        raise UnusableSchema("its schema cannot be sent") from None
    return {**usable, "type": "object", "properties": usable.get("properties") or {}}, left_out
