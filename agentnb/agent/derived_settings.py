"""Values derived from the settings of an agent, its extensions and its policy, validated once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from agentnb import settings
from agentnb.advice import NameOne
from agentnb.agent.detection import NAME as DETECTION
from agentnb.agent.detection import detection
from agentnb.agent.extension import (
    AGENT_SETTINGS,
    Extension,
    check_kinds_and_names,
    context_of,
    each,
    extend_bundle,
    merge_part,
)
from agentnb.agent.output import Output
from agentnb.context.history_settings import as_logged, find_history
from agentnb.core.todos import TODO_TOOL
from agentnb.errors import InvalidTool, SettingsError
from agentnb.guidance import GuidanceSet, find_set
from agentnb.guidance.draws import RandomGuidance
from agentnb.models.model import Model
from agentnb.models.registry import check_model, person_chose_destination
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.gates import Gate, OnCopy
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.rule_words import check_confirms, known_rules
from agentnb.policies.policy_sets import USUAL_POLICY, PolicySet, find_policy, rules_of, settings_of
from agentnb.policies.run_limits import LIMIT_SETTINGS, LIMITS, Limits
from agentnb.runtime.questions.answerers import check_approve
from agentnb.runtime.runs.gate_names import name_of_gate
from agentnb.tools.builtin.builtin_names import logged_builtins
from agentnb.tools.read_result import READ_TOOL
from agentnb.tools.todos.board import is_board
from agentnb.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from agentnb.agent.agent_settings import AgentSettings

MODEL_FROM, PERSON = "model_from", "person"
"""Setting of a run that records who chose the destination of the run's model, and the value if the person did."""
_TAKEN = (*AGENT_SETTINGS, "unpriced", "limits_of_file")
"""Settings that extensions and the policy may add to."""
NoLimit: TypeAlias = Literal["none"]
NO_LIMIT: Final[NoLimit] = "none"
"""Limit value that means no limit, whatever the agent's extensions and policy set."""


class TakenSettings(NamedTuple):
    """The model, policy and limits of an agent's runs."""

    model: str | Model
    policy: PolicySet
    limits: Limits


def combine_settings(own: Mapping[str, Any], extensions: Iterable[Extension]) -> TakenSettings:
    """Combine the model, policy and limits of an agent and its extensions; the first extension that has a setting
    wins.

    Raises `SettingsError` for an invalid limit or policy.
    """
    added = merge_part(extensions, "agent_settings")
    policy = find_policy(own["policy"] if own["policy"] is not None else added.get("policy", USUAL_POLICY))
    added = {**_of_policy(policy), **added}
    limits = {name: value for name in LIMIT_SETTINGS if (value := added.get(name)) is not None}
    limits |= {name: own[name] for name in LIMIT_SETTINGS if _is_set(name, own[name]) or name not in limits}
    if limits["on_limit"] is None:
        limits["on_limit"] = "stop"
    resolved: dict[str, Any] = {
        name: None if value == NO_LIMIT and name in LIMITS and not is_required(name) else value
        for name, value in limits.items()
    }
    file_settings: dict[str, Any] = {"unpriced": own["unpriced"], "limits_of_file": tuple(own["limits_of_file"])}
    return TakenSettings(added.get("model") or own["model"], policy, Limits(**resolved, **file_settings))


def _of_policy(policy: PolicySet) -> Mapping[str, Any]:
    """Return the limits set by a policy. Raises `SettingsError` if it sets anything else."""
    policy_limits: Any = getattr(policy, "agent_settings", {})  # a policy class may be the person's own
    if not isinstance(policy_limits, Mapping) or any(name not in LIMIT_SETTINGS for name in policy_limits):
        problem = f"agent_settings={policy_limits!r} of the policy {policy.name} must map limits to values"
        raise SettingsError(problem, NameOne(known=LIMIT_SETTINGS, lead="It sets"))
    return policy_limits


def is_required(name: str) -> bool:
    """True if every run has this limit."""
    return name in LIMITS and LIMITS[name].is_required


def _is_set(name: str, value: Any) -> bool:
    """True if the agent sets a value of its own; for a limit that every run has, a value other than the default."""
    return value is not None and not (is_required(name) and value == settings.max_iterations())


def derive_settings(agent: AgentSettings) -> None:
    """Validate the settings of an agent, and set the values derived from them. Raises `SettingsError` or `InvalidTool`."""
    _check_kinds(agent)
    if agent.acp:
        _set_external(agent)
    elif agent.mode:
        raise SettingsError("mode applies only to external agents", 'Name the agent, too: Agent(acp="NAME", mode="MODE")')
    elif agent.model == "":
        raise SettingsError("An agent needs a model", 'Name it: Agent("provider:model")')
    _set(agent, "extensions", _all_extensions(agent))
    _set(agent, "context", context_of(agent.extensions))
    model, policy, limits = combine_settings({name: getattr(agent, name) for name in _TAKEN}, agent.extensions)
    check_model(model)
    _set(agent, "used_model", model)
    _set(agent, "used_policy", policy)
    _set(agent, "limits", limits)
    _set(agent, "tools", tuple(agent.tools) if settings.tools_enabled() else ())
    _set(agent, "sends", find_history(agent.history))
    of_extensions = each(agent.extensions, "tools") if settings.tools_enabled() else ()
    _set(agent, "toolbox", _in_order(agent, Toolbox((*agent.tools, *of_extensions))))
    _set(agent, "rule_list", RuleList.of(agent.permissions))
    if not agent.toolbox.is_empty:
        _set(agent, "rule_list", known_rules(agent.rule_list, agent.rule_scope))
        if agent.context is not None:
            check_confirms(agent.context.confirms([agent.context.name]), agent.rule_scope)
    _set(agent, "gates", _check_gates(agent))
    _check_names(agent)
    words = agent.guidance.first if isinstance(agent.guidance, RandomGuidance) else find_set(agent.guidance)
    repeatable = [tool.spec.name for tool in agent.toolbox if getattr(tool, "repeatable", False)]
    _set(agent, "output_form", Output.of(agent.output))
    bundle = limits.add_to(rules_of(policy, words, repeatable))
    if isinstance(agent.guidance, RandomGuidance):
        bundle = _with_draws(bundle, agent.guidance, policy.name)
    bundle = extend_bundle(bundle, tuple(agent.extensions))
    if agent.gates:
        bundle = bundle._replace(gates=(*bundle.gates, *map(OnCopy, agent.gates)))
    if agent.output_form is not None:
        bundle = agent.output_form.held(bundle, in_workflow_mode=getattr(policy, "workflow_mode", False))
    _set(agent, "bundle", bundle)
    _set(agent, "settings", _as_logged(agent, words, policy))
    _set(agent, "guidance_texts", words.as_texts)


def _set_external(agent: AgentSettings) -> None:
    """Replace the model with an external agent. Raises `SettingsError` for a setting that cannot affect it."""
    from agentnb.acp.external_agent import SHAPES_REQUESTS, EndWithTurn, ExternalAgent, check_reach

    derived = {"policy": EndWithTurn(), "guidance": "off", "todos": False, "history": "full", "instructions": False}
    values = {field.name: getattr(agent, field.name) for field in fields(agent) if field.init}
    external = ExternalAgent.of(agent.acp, agent.mode)
    if isinstance(agent.model, ExternalAgent):  # a copy: values derived for the original were not set explicitly
        external = replace(external, place=agent.model.place)
        same = [name for name, value in derived.items() if values[name] == value]
        values |= {name: SHAPES_REQUESTS[name] for name in ("model", *same)}
    check_reach(values)
    for name, value in {"model": external, **derived}.items():
        _set(agent, name, value)


def _with_draws(bundle: PolicyBundle, guidance: RandomGuidance, policy: str) -> PolicyBundle:
    """Return the bundle with random draws of guidance sets. Raises `SettingsError` if the policy draws too."""
    if bundle.draw is not None:
        raise SettingsError(f"The policy {policy} draws guidance sets itself", "Omit RandomGuidance, or the policy's draw")
    return bundle._replace(draw=guidance)


def _as_logged(agent: AgentSettings, words: GuidanceSet, policy: PolicySet) -> dict[str, Any]:
    """Return the settings in the form for the log."""
    draws = agent.guidance.as_logged if isinstance(agent.guidance, RandomGuidance) else {}
    return {
        "guidance": {"set": words.name, "version": words.version, **draws},
        "policy": settings_of(policy),
        "todos": agent.keeps_todos,
        "history": as_logged(agent.sends),
        **agent.limits.as_logged(),
        **({} if agent.output_form is None else {"output": agent.output_form.as_logged}),
        **({"gates": [name_of_gate(gate) for gate in agent.gates]} if agent.gates else {}),
        **({"extensions": [extension.as_logged for extension in agent.extensions]} if agent.extensions else {}),
        **logged_builtins(agent.toolbox),
        **({} if agent.context is None else agent.context.as_logged),
        **({MODEL_FROM: PERSON} if person_chose_destination(agent.used_model) else {}),
    }


def _set(agent: AgentSettings, name: str, value: Any) -> None:
    object.__setattr__(agent, name, value)


def _check_kinds(agent: AgentSettings) -> None:
    """Raise `SettingsError` for a value of the wrong type."""
    if isinstance(agent.tools, str) or not isinstance(agent.tools, Iterable):
        raise SettingsError(f"tools={agent.tools!r} is not a list", "Use tools=[my_function]")
    if agent.system is not None and not isinstance(agent.system, str):
        raise SettingsError(f"system={agent.system!r} is not a string")
    if agent.work_dir is not None and not isinstance(agent.work_dir, str | Path):
        raise SettingsError(f"work_dir={agent.work_dir!r} is not a folder", "Use a path, or None for the current folder")
    check_approve(agent.approve)
    if not isinstance(agent.todos, bool) and not is_board(agent.todos):
        raise SettingsError(f"todos={agent.todos!r} is not a todo board", "Use todos=True, or todos=TodoBoard([...])")


def _check_gates(agent: AgentSettings) -> tuple[Gate, ...]:
    """Return the gates. Raises `SettingsError` if one is not callable."""
    gates = tuple(agent.gates) if isinstance(agent.gates, Iterable) else (agent.gates,)
    for gate in gates:
        if not callable(gate):
            raise SettingsError(
                f"gates={gate!r} is not a gate", "A gate is a function of the call and the run: gates=[my_gate]"
            )
    return gates


def _all_extensions(agent: AgentSettings) -> tuple[Extension, ...]:
    """Return the extensions, including the one for the agent's detectors; a copy of an agent already has that one."""
    extensions = check_kinds_and_names(agent.extensions)
    if agent.detect is None or any(extension.name == DETECTION for extension in extensions):
        return extensions
    return (*extensions, detection(agent.detect))


def _in_order(agent: AgentSettings, toolbox: Toolbox) -> Toolbox:
    """Return the tools, beginning with those that the context of the runs puts first."""
    rules = () if agent.context is None else agent.context.first
    if not rules:
        return toolbox
    matches = {tool.spec.name: [rule.is_about(tool.spec.name, tool) for rule in rules] for tool in toolbox}
    specs = sorted(toolbox.specs, key=lambda spec: [not is_first for is_first in matches[spec.name]])
    _set(agent, "first_tools", tuple([spec.name for spec in specs if any(matches[spec.name])]))
    return toolbox.advertising(specs)


def _check_names(agent: AgentSettings) -> None:
    """Raise `InvalidTool` if a tool has the same name as one of agentnb's own tools."""
    if agent.keeps_todos and agent.toolbox.get(TODO_TOOL) is not None:
        raise InvalidTool(f"{TODO_TOOL} is the name of agentnb's own todo tool", "Rename yours, or use Agent(todos=False)")
    if agent.sends.result_characters is not None and agent.toolbox.get(READ_TOOL) is not None:
        raise InvalidTool(
            f"{READ_TOOL} is the name of agentnb's tool for reading long results",
            'Rename yours, or use Agent(history="full")',
        )
