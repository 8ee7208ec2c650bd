"""Content hashes: equal content has the same hash on every machine and in every process."""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from agentnb.agent.agent import Agent
from agentnb.errors import SettingsError
from agentnb.runtime.host.host import host_here
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.agent_tool import AgentTool
from agentnb.tools.builtin.builtin_names import tools_of
from agentnb.tools.mcp.mcp_server import ServerTools, is_word, servers_among
from agentnb.workflow.files.declared_files import tool_names_of_files
from agentnb.workflow.workflow import Workflow

HASH_LETTERS = 16
PLAIN = (str, bytes, int, float, tuple, list, dict, set, frozenset, type(None))
"""Types of values that are hashed by their ``repr``."""
_encoder = msgspec.json.Encoder(order="sorted", enc_hook=repr)


def content_hash(*parts: Any) -> str:
    """Return a hash of plain data; other objects are hashed by their ``repr``."""
    try:
        data = _encoder.encode(parts)
    except (TypeError, UnicodeEncodeError):  # keys that JSON does not have, or half a surrogate pair
        data = repr(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(data).hexdigest()[:HASH_LETTERS]


def changed_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the names that differ between two frozen plans, followed in brackets by names that differ in nested mappings."""
    parts = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = [str(key) for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
            parts.append(f"{name} ({', '.join(inner)})")
        else:
            parts.append(name)
    return ", ".join(parts)


def source_of(value: Any, seen: tuple[int, ...] = ()) -> str:
    """Return the source of a function or tool, or its compiled code if it has no source, including its closure.

    For a tool that is an agent or workflow, return its behaviour and its tools; for anything else, its class, or its value if
    it is plain. ``seen``: the enclosing functions and agents.
    """
    if isinstance(value, AgentTool):
        return f"{value.spec} {_content_of_runnable(value.agent, seen)}"
    if isinstance(value, partial):
        return f"{source_of(value.func, seen)} {[source_of(part, seen) for part in (*value.args, *value.keywords.items())]}"
    function: Any = inspect.unwrap(getattr(value, "function", value))
    if isinstance(function, types.MethodType):
        return f"{type(function.__self__).__qualname__} {source_of(function.__func__, seen)}"
    if not isinstance(function, types.FunctionType):
        kind = type(function)
        return repr(function) if isinstance(function, PLAIN) else f"{kind.__module__}.{kind.__qualname__}"
    if id(function) in seen:
        return function.__qualname__
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = _expand_code(function.__code__)
    inside = (*seen, id(function))
    cells = [cell.cell_contents for cell in function.__closure__ or () if not _is_empty(cell)]
    held = [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return f"{text} {[source_of(part, inside) for part in held]}" if held else text


def content_of_agent(agent: Agent) -> str:
    """Return a hash of an agent's behaviour, excluding the source of its tools."""
    tools = [(tool.spec.name, tool.spec.description, tool.spec.input_schema) for tool in agent.toolbox]
    rules = [agent.rule_list.as_logged] if agent.rule_list else []
    others = (*content_of_servers(agent.toolbox.servers), *rules)
    return content_hash(agent.settings, agent.guidance_texts.texts, agent.model_name, agent.system, tools, *others)


def content_of_workflow(workflow: Workflow) -> str:
    """Return a hash of a workflow's behaviour, excluding the source of its tools."""
    agents = {key: content_of_agent(agent) for key, agent in (workflow.agents or {}).items()}
    return content_hash("workflow", workflow.declared.text, agents, *content_of_servers(servers_of_workflow(workflow)))


def servers_of_workflow(workflow: Workflow) -> tuple[ServerTools, ...]:
    """Return the MCP servers among a workflow's tools, and those named in its files."""
    words = [name for name in tool_names_of_files(workflow.declared) if is_word(name)]
    return servers_among((*workflow.tools, *words))


def content_of_servers(items: Iterable[ServerTools]) -> list[Any]:
    """Return the descriptions and identities of MCP servers, as configured; empty if there are none."""
    servers = host_here().servers or Servers()
    contents = []
    for item in items:
        server = item.server
        with suppress(SettingsError):  # a missing configuration is an error of the first run
            server = servers.resolve([item])[0].server
        contents.append((item.word, "" if server is None else server.identity))
    return [contents] if contents else []


def _content_of_runnable(runnable: Any, seen: tuple[int, ...]) -> str:
    if id(runnable) in seen:
        return "itself"
    inside = (*seen, id(runnable))
    if isinstance(runnable, Agent):
        return f"{content_of_agent(runnable)} {[source_of(tool, inside) for tool in runnable.toolbox]}"
    if isinstance(runnable, Workflow):
        tools = (tool for value in runnable.tools for tool in tools_of(value))
        return f"{content_of_workflow(runnable)} {[source_of(tool, inside) for tool in tools]}"
    return source_of(runnable, inside)


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is None
    except ValueError:  # not filled yet
        return True


def _expand_code(code: types.CodeType) -> str:
    """Return the instructions and constants of code, with inner functions expanded because their addresses vary."""
    constants = [
        _expand_code(constant) if isinstance(constant, types.CodeType) else repr(constant) for constant in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
