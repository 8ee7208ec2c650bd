"""The models, tools and guidance sets to choose from for a run, by the names that people type."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from agentnb.display.texts.labels import first_line
from agentnb.errors import SettingsError
from agentnb.guidance import BUILT_IN, GuidanceSet
from agentnb.models.registry import can_be_made, is_model, is_usual_or_allowed
from agentnb.models.registry import names as model_names
from agentnb.notebook.variable_names import is_kind, names_of, tool_names
from agentnb.session.choice import choose_model
from agentnb.session.session import Session
from agentnb.tools.agent_tool import AgentTool, offer_of
from agentnb.tools.builtin.builtin_names import GROUPS
from agentnb.tools.mcp.mcp_server import PREFIX, MCPServer

MAX_USED = 5
"""Maximum recently used models; these are offered first."""


def available_choices(session: Session, variables: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
    """Return the names to choose from, and the default of each field. ``used``: models of the most recent runs."""
    snapshot = dict(variables)  # a running cell may add variables
    return {
        "models": models_to_offer(session, snapshot, used),
        "model": _without_choice(session),
        "tools": _tools_to_offer(session, snapshot),
        "guidance": guidance_to_offer(session, snapshot),
        "default_guidance": session.defaults["guidance"],
    }


def _tools_to_offer(session: Session, variables: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return tools in variables, groups of built-in tools, and configured MCP servers."""
    own = [{"name": name, "about": _about(variables[name])} for name in tool_names(variables)]
    used_names = {tool["name"] for tool in own}
    built_in = [group for group in GROUPS.values() if group.word not in used_names]
    groups = [{"name": group.word, "about": f"built in: {', '.join(group.tool_names)}"} for group in built_in]
    servers = session.servers.configuration.known.values()
    return [*own, *groups, *[{"name": f"{PREFIX}{server.name}", "about": _about(server)} for server in servers]]


def models_to_offer(session: Session, variables: Mapping[str, Any], used: Iterable[str]) -> list[str]:
    """Return recently used models, the default model, variables that hold a model, and the simulated models.

    Anyone may have written a log, and choosing a model counts as naming it. A model from a log is therefore offered only if its
    address is the usual one or is allowed.
    """
    last = [name for name in dict.fromkeys(used) if can_be_made(name) and is_usual_or_allowed(name)][:MAX_USED]
    own = names_of(variables, is_model)
    return list(dict.fromkeys([*last, *filter(None, [session.defaults["model"]]), *own, *model_names()]))


def guidance_to_offer(session: Session, variables: Mapping[str, Any]) -> list[str]:
    """Return the guidance sets: built-in ones, those written in cells, and those in variables."""
    own = names_of(variables, is_kind(GuidanceSet))
    return list(dict.fromkeys([*BUILT_IN, *session.sets, *own]))


def _without_choice(session: Session) -> str:
    """Return the default model; empty if a model must be named."""
    try:
        return choose_model(session.defaults["model"])[0]
    except SettingsError:
        return ""


def _about(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "a list: " + first_line(", ".join(map(_name_of, value)), 160)
    if isinstance(value, MCPServer):
        return f"the tools of an MCP server: {first_line(value.target, 160)}"
    offer = offer_of(value)
    described = value.spec.description if isinstance(value, AgentTool) else "" if offer is None else offer.description
    doc = described or inspect.getdoc(value) or ""
    return first_line(doc.partition("\n")[0], 200)


def _name_of(value: Any) -> str:
    offer = offer_of(value)
    if offer is not None:
        return offer.name
    return value.spec.name if isinstance(value, AgentTool) else getattr(value, "__name__", type(value).__name__)
