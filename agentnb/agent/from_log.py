"""Reconstruction of an agent from the log of a run."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from agentnb.acp.external_agent import PROVIDER
from agentnb.advice import GiveTools, SetModel, WriteGuidance
from agentnb.agent.agent import Agent
from agentnb.agent.derived_settings import MODEL_FROM, NO_LIMIT, PERSON
from agentnb.agent.extension import check_extensions
from agentnb.agent.output import Output
from agentnb.context.history_settings import as_sent_then
from agentnb.core.log.events import RunRecovered
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, UnknownTool
from agentnb.guidance import BUILT_IN, GuidanceSet
from agentnb.guidance.draws import RandomGuidance
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.model import Model
from agentnb.models.registry import can_be_made
from agentnb.policies.gates import Gate
from agentnb.policies.policy_sets import NAMED, OWN_POLICY, PolicySet, policy_as_logged
from agentnb.policies.run_limits import LIMITS, OF_FILE, Limits
from agentnb.runtime.budget import OWN
from agentnb.runtime.runs.gate_names import check_gates, missing_subject
from agentnb.tools.builtin.builtin_names import LOGGED, builtins_again, tools_of
from agentnb.tools.mcp.logged import servers_of_log
from agentnb.tools.mcp.mcp_server import ServerTools, servers_among
from agentnb.tools.tool import Tool

NO_POLICY_YET, NO_GUIDANCE_YET = {"name": "minimal"}, {"set": "off"}
"""Settings of runs from the first versions, which had neither a policy nor guidance."""
WITH_GUIDANCE_TEXTS = 5
"""First schema version of logs that contain the texts of the guidance set."""


def agent_of(
    run: Run,
    *,
    tools: Iterable[Any] = (),
    gates: Iterable[Gate] = (),
    model: str | Model | None = None,
    **instead: Any,
) -> Agent:
    """Recreate the agent of a run from its log. ``instead``: settings that replace the run's.

    Raises `UnknownTool` if a tool of the run is missing, and `SettingsError` if one of its gates is, or if its model,
    policy or guidance cannot be recreated from the log.
    """
    if run.kind != "agent":
        raise SettingsError(f"Run {run.id} is a {run.kind}, not an agent's run", "Pass what made it: recover(run, agent=...)")
    all_tools, all_gates = with_builtins(run, tools), tuple(gates)
    _check_tools(run, all_tools)
    check_gates(run, all_gates)
    check_extensions(run, instead.get("extensions", ()))
    if model is None:
        provider, _, foreign = run.model.partition(":")
        if provider == PROVIDER:
            advice = f"Pass it again in its former mode: recover(run, agent=Agent(acp={foreign!r}))"
            raise SettingsError(f"Run {run.id} used {run.model}, an external agent", advice)
        if not can_be_made(run.model):
            problem = f"Run {run.id} used {run.model}, a Python object"
            raise SettingsError(problem, SetModel(again=True, lead="Pass it again"))
        model = logged_model(run)
    logged = run.settings
    settings: dict[str, Any] = {
        "todos": bool(logged.get("todos", any(tool.name == TODO_TOOL for tool in run.tools))),
        "history": as_sent_then(logged.get("history")),
        "policy": instead["policy"] if "policy" in instead else logged_policy(run),
        "guidance": instead["guidance"] if "guidance" in instead else RandomGuidance.from_log(logged) or logged_guidance(run),
        "output": Output.from_log(logged),
        **limits_again(logged),
        **instead,
        OF_FILE: limits_of_file(run, instead),
    }
    return Agent(model, tools=all_tools, gates=all_gates, name=run.agent, **settings)


def limits_again(logged: dict[str, Any]) -> dict[str, Any]:
    """Return the limits in a log's settings. A limit that is missing there is not taken from the policy either."""
    unlimited = {name: NO_LIMIT for name, limit in LIMITS.items() if not limit.is_required}
    logged_limits = {name: value for name, value in Limits.from_log(logged).items() if name != OF_FILE}
    return {**unlimited, "on_limit": "stop", **logged_limits}


def logged_model(run: Run, name: str = "") -> str:
    """Return the model's name as logged: a `FileModelName`, unless the person's own log says that they named the
    model.

    ``name``: the name in the settings of a workflow, whose run has no model of its own.
    """
    by_person = is_trusted(run) and run.settings.get(MODEL_FROM) == PERSON
    return name or run.model if by_person else FileModelName(name or run.model)


def limits_of_file(run: Run, replaced: Container[str] = ()) -> list[str]:
    """Return the names of the logged limits that the person did not set, except those ``replaced``."""
    logged = (
        run.settings.get(OF_FILE) or () if is_trusted(run) else [name for name in (OWN, "unpriced") if name in run.settings]
    )
    return [name for name in logged if name not in replaced]


def is_trusted(run: Run) -> bool:
    """True if this person's agentnb wrote the log from the first event on, so that its record of their input is
    reliable.

    A log from elsewhere remains untrusted when resumed here, even if the person accepted its answers.
    """
    return run.gives_consent and not any(isinstance(event, RunRecovered) and event.consent for event in run.events)


def with_builtins(run: Run, given: Iterable[Any]) -> tuple[Tool | ServerTools, ...]:
    """Return the tools of these items, and the run's remaining built-in tools, recreated from its log.

    MCP server tools come last: those of the items, and those that the run names. A log never starts a command: only
    configured servers are used.
    """
    given = tuple(given)
    tools = tuple([tool for value in given for tool in tools_of(value)])
    names_in_order = run.own_tools if run.kind == "agent" else [*(run.settings.get(LOGGED) or ())]
    names = [tool.spec.name for tool in tools]
    available = (*tools, *builtins_again(run.settings, names_in_order, is_trusted=is_trusted(run), given=names))
    order = {
        name: index for index, name in enumerate(names_in_order)
    }  # as in the requests: another order would lose prompt caches
    return (*sorted(available, key=lambda tool: order.get(tool.spec.name, len(order))), *_servers(run, given))


def _servers(run: Run, given: Iterable[Any]) -> list[ServerTools]:
    items = servers_among(given)
    names = {item.name for item in items}
    logged = [server for name, server in servers_of_log(run.settings).items() if name not in names]
    return [*items, *(item for server in logged for item in server.items)]


def has_guidance_texts(run: Run) -> bool:
    """True if the log contains the texts of the run's guidance set, which logs of older versions lack."""
    return run.opening.schema >= WITH_GUIDANCE_TEXTS and "guidance" in run.opening.settings


def _check_tools(run: Run, given: Iterable[Tool | ServerTools]) -> None:
    names = {tool.spec.name for tool in given if not isinstance(tool, ServerTools)}
    if missing := [name for name in run.own_tools if name not in names]:
        had, them = missing_subject(run, "tool", missing)
        raise UnknownTool(
            f"{had}, which you did not pass",
            GiveTools(tuple(missing), resumes=True, lead=f"Define and name {them}"),
        )


def logged_policy(run: Run) -> PolicySet:
    """Return the policy of a run from its log. Raises `SettingsError` for a custom policy."""
    logged = run.settings.get("policy", NO_POLICY_YET)
    name = logged.get("name") if isinstance(logged, dict) else logged
    if not isinstance(name, str) or name not in NAMED or OWN_POLICY in logged:
        raise SettingsError(f"Run {run.id} had its own policy, {name}", "Pass it: recover(run, agent=Agent(...))")
    return policy_as_logged(logged)


def logged_guidance(run: Run) -> str | GuidanceSet:
    """Return the guidance set with which a run began, from its log. Raises `SettingsError` if the log lacks its texts."""
    logged = run.settings.get("guidance", NO_GUIDANCE_YET)
    name = logged.get("set") if isinstance(logged, dict) else logged
    if has_guidance_texts(run):
        return GuidanceSet.as_logged(str(name), run.opening.guidance)
    if not isinstance(name, str) or name not in BUILT_IN:
        problem = f"Run {run.id} had the guidance set {name}, which is not available here"
        raise SettingsError(problem, WriteGuidance(str(name), resumes=True, lead="Write it again"))
    return str(name)
