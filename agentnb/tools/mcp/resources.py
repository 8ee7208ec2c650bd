"""Resources and prompts of an MCP server as tools of a run, for listing and reading them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import ResultParts, Text, visible
from agentnb.tools.mcp.call_results import one_line, outcome_of_parts, parts_of, resource_part, text_of
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.connections.server_catalogue import Catalogue, catalogue_of
from agentnb.tools.mcp.mcp_server import digest
from agentnb.tools.mcp.server_tool import Answer, MCPTool
from agentnb.tools.mcp.wire_names import wire_name
from agentnb.tools.tool import ToolOutcome, failure

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t

MAX_LINES = 200
"""Maximum number of resources or prompts listed at once."""


class _Kind(NamedTuple):
    """A tool for resources or prompts."""

    name: str
    """Tool name; ``mcp`` is inserted if a tool of the server already has that name."""
    description: str
    answer: Answer
    properties: dict[str, Any]
    required: tuple[str, ...] = ()


def resource_tools(live: LiveServer, names: set[str]) -> list[MCPTool]:
    """Return the tools for the resources and prompts of a server, with the same permissions as its own tools.

    ``names``: names of all server tools, which take precedence: a conflicting tool gets its alternative name, or is left out.
    The new names are added.
    """
    from mcp import types as t

    kinds = [*(_OF_RESOURCES if live.catalogue.has_resources else ()), *(_OF_PROMPTS if live.catalogue.prompts else ())]
    own, tools = {tool.name for tool in live.tools}, list[MCPTool]()
    for kind in kinds:
        wires = {name: wire_name(live.server.name, name) for name in (kind.name, kind.name.replace("_", "_mcp_"))}
        name = next((name for name, wire in wires.items() if name not in own and wire not in names), None)
        if name is None:
            continue
        described = t.Tool(
            name=name,
            description=kind.description.format(server=live.server.name),
            input_schema={"type": "object", "properties": kind.properties, "required": list(kind.required)},
            annotations=t.ToolAnnotations(read_only_hint=True),
        )
        tools.append(MCPTool(live, described, wires[name], kind.answer))
        tools[-1].identity = digest(["resources and prompts", kind.name])
        names.add(wires[name])
    return tools


async def _list_resources(client: Client, arguments: Mapping[str, Any], known: Catalogue) -> ToolOutcome:
    catalogue = await catalogue_of(client)
    lines = [_line(item.uri, item, item.mime_type) for item in catalogue.resources]
    lines += [_line(item.uri_template, item, item.mime_type, "template") for item in catalogue.templates]
    return _list_outcome(lines, arguments, "resources")


async def _list_prompts(client: Client, arguments: Mapping[str, Any], known: Catalogue) -> ToolOutcome:
    catalogue = await catalogue_of(client)
    lines = [_line(f"{prompt.name}({prompt_arguments(prompt)})", prompt, None) for prompt in catalogue.prompts]
    return _list_outcome(lines, arguments, "prompts")


async def _read_resource(client: Client, arguments: Mapping[str, Any], known: Catalogue) -> ToolOutcome:
    return outcome_of_parts(contents_parts((await client.read_resource(arguments["uri"], cache_mode="refresh")).contents))


async def _get_prompt(client: Client, arguments: Mapping[str, Any], known: Catalogue) -> ToolOutcome:
    values = arguments.get("arguments") or {}
    if not isinstance(values, Mapping):
        return failure("invalid_arguments", "arguments must be an object.")
    if missing := missing_arguments(known, arguments["name"], values):
        return failure("invalid_arguments", f"The prompt needs {', '.join(missing)} in arguments.")
    result = await client.get_prompt(arguments["name"], {str(name): str(value) for name, value in values.items()})
    return outcome_of_parts(prompt_parts(result.messages))


_FILTER = {"filter": {"type": "string", "description": "Words that every line must contain"}}
_URI = {"uri": {"type": "string", "description": "Its URI as listed, or a URI template with its values filled in"}}
_PROMPT = {
    "name": {"type": "string", "description": "Its name as listed"},
    "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
}
_RESOURCES = "List the resources of the MCP server {server}: text, files or records, with their URIs and URI templates."
_PROMPTS = "List the prompts of the MCP server {server} with their arguments."
_OF_RESOURCES = (
    _Kind("list_resources", _RESOURCES, _list_resources, _FILTER),
    _Kind("read_resource", "Read a resource of the MCP server {server}.", _read_resource, _URI, ("uri",)),
)
_OF_PROMPTS = (
    _Kind("list_prompts", _PROMPTS, _list_prompts, _FILTER),
    _Kind("get_prompt", "Get a prompt of the MCP server {server} as text.", _get_prompt, _PROMPT, ("name",)),
)


def contents_parts(contents: Iterable[Any]) -> ResultParts:
    """Return the contents of a resource as text and pictures, each labelled with its URI if there are several."""
    return _label_parts([(content.uri, (resource_part(content.model_dump(by_alias=True)),)) for content in contents])


def prompt_parts(messages: Iterable[t.PromptMessage]) -> ResultParts:
    """Return the messages of a prompt as text and pictures, each labelled with its role if there are several."""
    return _label_parts([(message.role, parts_of([message.content.model_dump(by_alias=True)])) for message in messages])


def _label_parts(each: list[tuple[Any, ResultParts]]) -> ResultParts:
    """Return the parts, each item preceded by its label; a single item gets none."""
    if len(each) == 1:
        return each[0][1]
    return tuple([part for label, parts in each for part in (Text(f"{one_line(label)}:"), *parts)])


class Contents(NamedTuple):
    """Contents of a resource, for display to a person."""

    value: str | bytes
    mime_type: str


def contents_of(contents: Iterable[Any]) -> list[Contents]:
    """Return the contents of a resource: text as a model reads it, other contents as bytes.

    Raises ValueError for invalid base64.
    """
    result = []
    for content in contents:
        text = getattr(content, "text", None)
        value = b64decode(content.blob, validate=True) if text is None else visible(text)
        result.append(Contents(value, one_line(content.mime_type or "")))
    return result


def prompt_text(messages: Iterable[t.PromptMessage]) -> str:
    """Return the messages of a prompt as one text, without pictures."""
    return text_of(prompt_parts(messages))


def prompt_arguments(prompt: t.Prompt) -> str:
    """Return the arguments of a prompt, such as ``subject, tone?``; ``?`` marks optional ones."""
    return ", ".join(f"{one_line(argument.name)}{'' if argument.required else '?'}" for argument in prompt.arguments or ())


def missing_arguments(known: Catalogue, prompt: str, given: Iterable[str]) -> list[str]:
    """Return the missing required arguments of a prompt, since servers report these poorly."""
    named = [
        argument
        for candidate in known.prompts
        if candidate.name == prompt
        for argument in candidate.arguments or ()
        if argument.required
    ]
    return [one_line(argument.name) for argument in named if argument.name not in given]


def _line(named: str, item: Any, kind: str | None, *more: str) -> str:
    """Format a resource or prompt as a line: identifier, details and description."""
    title = item.title if item.title and item.title != named else item.name if item.name not in named else ""
    details = ", ".join(one_line(text) for text in (*more, kind, title) if text)
    described = one_line((item.description or "").strip().partition("\n")[0])
    return one_line(f"{named}{f' ({details})' if details else ''}{f': {described}' if described else ''}")


def _list_outcome(lines: list[str], arguments: Mapping[str, Any], noun: str) -> ToolOutcome:
    words = str(arguments.get("filter") or "").casefold().split()
    fitting = [line for line in lines if all(word in line.casefold() for word in words)]
    shown = fitting[:MAX_LINES]
    if len(fitting) > len(shown):
        shown.append(f"({len(fitting) - len(shown):,} more: pass words to filter them)")
    if not fitting:
        shown = [f"(none of the {len(lines):,} {noun} contains these words)" if words and lines else f"(no {noun})"]
    return ToolOutcome(True, (Text("\n".join(shown)),), fitting)
