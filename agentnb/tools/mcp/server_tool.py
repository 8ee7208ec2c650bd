"""One tool of an MCP server, as a tool of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import Text, visible
from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolRole, ToolSpec
from agentnb.core.schema.accepted_schema import with_real_names
from agentnb.core.schema.json_schema import UnusableSchema, schema_errors, usable_schema
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.core.schema.whole_numbers import with_leaves
from agentnb.tools.mcp.connections.catalogue import CONNECTION_CLOSED
from agentnb.tools.mcp.connections.live_server import LiveServer, leaves, reason
from agentnb.tools.mcp.questions import CallQuestions
from agentnb.tools.mcp.results import outcome_of
from agentnb.tools.mcp.server import digest
from agentnb.tools.signature import refused_arguments
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t

MAX_DESCRIPTION_CHARACTERS = 4_000
MAX_SCHEMA_BYTES = 50_000
DIED = "The server ended during the call. It is not known whether it did its work: look before you call again."


Changed: TypeAlias = Literal["server", "tool"]


class ToolChange(NamedTuple):
    """What has changed of a tool and its server since they were first seen, as `ToolOrigin` has it."""

    changed: tuple[Changed, ...] = ()
    target_before: str = ""
    diff: str = ""

    def and_of(self, other: ToolChange) -> ToolChange:
        """Return both changes as one."""
        changed = tuple(dict.fromkeys([*self.changed, *other.changed]))
        return ToolChange(changed, self.target_before or other.target_before, self.diff or other.diff)


NO_CHANGE = ToolChange()


class MCPTool:
    """A tool of a server. It asks by default, whatever the server says of it."""

    effects: frozenset[Effect] = frozenset({"execute"})
    blocking = False
    role: ToolRole | None = None

    def __init__(self, live: LiveServer, tool: t.Tool, name: str) -> None:
        """``name``: its name for models."""
        self.live = live
        self._output_schema = tool.output_schema
        self.tool_name: str = tool.name
        """The tool as the server names it."""
        self.title: str = visible(tool.title or "")[:MAX_DESCRIPTION_CHARACTERS]
        description = visible(tool.description or tool.title or "")[:MAX_DESCRIPTION_CHARACTERS]
        self.spec = ToolSpec(name, description, _object_schema(tool.input_schema), effects=tuple(sorted(self.effects)))
        hints = tool.annotations
        self.parallel_safe = bool(hints and hints.read_only_hint)
        self.may_repeat = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
        """Whether the server says that the same call may be made twice."""
        self.identity: str = digest([self.tool_name, description, self.spec.input_schema])
        """The digest of the tool as the server describes it, to which permissions belong."""
        self.change_since_seen: Callable[[], ToolChange] = lambda: NO_CHANGE
        """Returns what has changed of it and its server since they were first seen."""

    @property
    def origin(self) -> ToolOrigin:
        """The server and the tool, with what has changed."""
        server = self.live.server
        name, target = visible(self.tool_name), visible(server.target)
        about = self.spec.description
        return ToolOrigin(server.name, target, name, server.identity, self.identity, about, *self.change_since_seen())

    @property
    def server_identity(self) -> str:
        """The digest of the server as configured."""
        return self.live.server.identity

    @property
    def asker_name(self) -> str:
        """Who asks the questions of its calls."""
        return f"MCP server {self.live.server.name}"

    @property
    def timeout(self) -> float | None:
        """Seconds after which a call is abandoned."""
        return self.live.server.timeout

    @property
    def max_seconds(self) -> float:
        """Seconds that a call with progress may take."""
        return self.live.server.max_seconds

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Call the tool at its server, which is told when the call is given up."""
        if not isinstance(arguments, Mapping):
            return refused_arguments(self.spec.name, arguments, self.spec.input_schema)
        arguments = with_real_names(self.spec.input_schema, arguments)
        questions = CallQuestions(context, self.live.server)

        async def progress(done: float, total: float | None, message: str | None) -> None:
            context.progress(done, total, visible(message or ""))

        async def call(client: Client) -> ToolOutcome:
            return await self._made(client, dict(arguments), questions, progress)

        for attempt in range(2):
            try:
                return await self.live.request(call, questions)
            except Exception as error:
                raised = next(iter(leaves(error)), error)
                if questions.unanswered is not None:
                    raise questions.unanswered from error
                if attempt == 0 and questions.has_asked and self.may_repeat and self._is_end(raised):
                    continue  # the question died with the server, and is asked again
                return self._failed(raised)
        raise AssertionError("the second attempt has returned")

    def refusal(self, arguments: Any) -> ToolOutcome | None:
        """Return the error result for arguments that its schema forbids in every reading; None for others.

        Many servers take a text such as ``"5"`` for a number.
        """
        schema = self.spec.input_schema
        arguments = with_real_names(schema, arguments)
        try:
            wrong = [tuple(map(str, one.where)) for one in schema_errors(schema, arguments) if one.keyword == "type"]
            read = with_leaves(arguments, lambda leaf, place: _read(leaf) if place in wrong else leaf)
            fits = not schema_errors(schema, read)
        except UnusableSchema:  # only the server knows what it takes
            return None
        return None if fits else refused_arguments(self.spec.name, arguments, schema)

    async def _made(self, client: Client, arguments: dict[str, Any], questions: CallQuestions, progress: Any) -> ToolOutcome:
        """Make the request of a call. On the event loop of the connections."""
        result = await questions.completed(client, self.tool_name, arguments, progress)
        return _noted(outcome_of(result, self._output_schema), questions)

    def _failed(self, error: BaseException) -> ToolOutcome:
        if self._is_end(error):
            return failure("server_ended", DIED)
        return failure("tool_error", f"The MCP server {self.live.server.name} failed: {self.live.refusal or reason(error)}")

    def _is_end(self, error: BaseException) -> bool:
        """Return whether the connection ended. That to a program then is closed, and any code is a word of the program."""
        is_closed = self.live.server.is_remote and getattr(error, "code", None) == CONNECTION_CLOSED
        return isinstance(error, ConnectionError) or is_closed


def problem_of(tool: t.Tool) -> str:
    """Return why a tool cannot be offered to a model; empty if it can."""
    if is_too_deep(tool.input_schema):
        return f"its schema is nested deeper than {MAX_DEPTH} levels"
    try:
        size = len(msgspec.json.encode(tool.input_schema))
        if size > MAX_SCHEMA_BYTES:
            return f"its schema has {size:,} bytes"
        usable_schema(tool.input_schema)
    except UnusableSchema as error:
        return str(error)
    except (TypeError, ValueError, RecursionError):
        return "its schema cannot be sent"
    return ""


def _read(text: Any) -> Any:
    """Return what a text is as JSON; anything else as it is."""
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(text) if isinstance(text, str) else text
    return text


def _noted(outcome: ToolOutcome, questions: CallQuestions) -> ToolOutcome:
    """Return the outcome with the questions of the server that were not asked. Raises `NotAnswered` without anybody to ask."""
    if questions.unanswered is not None and not outcome.ok:
        raise questions.unanswered
    if not questions.refused:
        return outcome
    note = f"(agentnb refused a question of the server: {visible('; '.join(questions.refused))})"
    return replace(outcome, parts=(*outcome.parts, Text(note)))


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments as it is sent; providers want an object with properties."""
    found = usable_schema(schema)
    return {**found, "type": "object", "properties": found.get("properties") or {}}
