"""Agents for cells and the panel: the options chosen there, with the session's defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentnb.acp.external_agent import PROVIDER, beyond_reach, check_reach, is_external
from agentnb.advice import AnyAdvice, Plain
from agentnb.agent.agent import Agent
from agentnb.agent.derived_settings import NO_LIMIT
from agentnb.agent.extension import Extension
from agentnb.agent.from_log import is_trusted
from agentnb.chat.context_type import ContextType
from agentnb.detect.run import Run
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.errors import SettingsError
from agentnb.notebook.commands.guidance_command import find_guidance
from agentnb.notebook.variable_names import find_gates, find_history, find_model, find_output, find_tools
from agentnb.policies.policy_sets import find_policy, in_workflow_mode
from agentnb.policies.run_limits import LIMIT_SETTINGS, LIMITS
from agentnb.session.choice import choose_model
from agentnb.session.session import Session
from agentnb.session.session_contexts import ContextChoice


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options as typed; those not chosen are empty. ``settings``: other `Agent` settings, by parameter name."""

    model: str = ""
    tools: Sequence[str] = ()
    guidance: str = ""
    policy: str = ""
    workflow_mode: bool = False
    output: str = ""
    gates: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    extensions: Sequence[Extension] = ()
    context: ContextChoice = field(default_factory=ContextChoice)
    acp: str = ""
    mode: str = ""


def make_agent(
    chosen: AgentOptions, session: Session, variables: Mapping[str, Any], before: Run | None = None
) -> tuple[Agent, str]:
    """Return the agent, and a note to the person about its model (empty if there is nothing to explain).

    ``before``: the run to continue; its model or external agent is used unless another is chosen. Raises `SettingsError` if an
    option is invalid.
    """
    if before is not None and is_external(before) and not (chosen.acp or chosen.model):
        if not is_trusted(before):  # a log from elsewhere starts no program
            problem = f"The run to continue used {before.model}, and its log is not yours"
            raise SettingsError(problem, "Name the agent: --acp NAME, or a model: -m MODEL")
        chosen = replace(chosen, acp=before.model.removeprefix(f"{PROVIDER}:"))
    if chosen.acp:
        return _external_agent(chosen, session, variables)
    if chosen.mode:
        raise SettingsError("--mode needs an external agent", "Name the agent: --acp NAME --mode MODE")
    defaults, context = session.defaults, chosen.context.context
    name, note = (chosen.model, ()) if chosen.model else _model(session, context, before)
    settings = session.agent_settings() | _without_limits(chosen.settings)
    settings["history"] = find_history(settings["history"], variables)
    agent = Agent(
        find_model(name, variables),
        tools=find_tools(chosen.tools, variables, session.tool_groups()),
        guidance=find_guidance(chosen.guidance or defaults["guidance"], session, variables),
        policy=_policy(chosen, defaults["policy"]),
        gates=find_gates(chosen.gates, variables),
        output=find_output(chosen.output, variables) if chosen.output else None,
        extensions=chosen.extensions,
        **settings,
    )
    if context is not None:
        extension = context.extension(chosen.context.entity, session.contexts.own.values())
        # The cell has already chosen: by its option, or by the last context of the run that it continues.
        agent = replace(agent, extensions=(*agent.extensions, replace(extension, continuing=None)))
    return agent, in_notebook(note)


def _external_agent(chosen: AgentOptions, session: Session, variables: Mapping[str, Any]) -> tuple[Agent, str]:
    """Return an external agent, and a note about the session's default limits that cannot be applied to it.

    An option that cannot be applied is refused only if it was chosen explicitly.
    """
    refused = {"workflow_mode": chosen.workflow_mode, "extensions": chosen.extensions, "context": chosen.context.context}
    settings = {name: value for name, value in session.agent_settings().items() if name in (*LIMIT_SETTINGS, "unpriced")}
    dropped = [name for name in beyond_reach(settings) if settings.pop(name) is not None and name not in chosen.settings]
    defaults: dict[str, Any] = {"policy": chosen.policy or None, "guidance": chosen.guidance or "matrix"}
    check_reach({"acp": chosen.acp, **{name: value or None for name, value in refused.items()}}, dict.fromkeys(refused))
    agent = Agent(
        chosen.model,
        **defaults,
        acp=chosen.acp,
        mode=chosen.mode,
        tools=find_tools(chosen.tools, variables, session.tool_groups()),
        gates=find_gates(chosen.gates, variables),
        output=chosen.output or None,
        **settings | _without_limits(chosen.settings),
    )
    names = ", ".join(dropped).replace("_", "-")
    return agent, f"These defaults do not apply to {agent.model_name}: {names}" if names else ""


def _policy(chosen: AgentOptions, usual: str) -> Any:
    """Return the policy, or None if the context provides one. ``usual``: the session's default policy."""
    policy = chosen.policy or (None if chosen.context.context is not None else usual)
    return in_workflow_mode(find_policy(policy or usual)) if chosen.workflow_mode else policy


def _model(session: Session, context: ContextType | None, before: Run | None) -> tuple[str, tuple[AnyAdvice, ...]]:
    """Return the model for the context's profile, or the session's model, with a note to the person."""
    if context is not None and session.defaults[context.profile]:
        return session.defaults[context.profile], ()
    name, note = choose_model(session.defaults["model"], before)
    if context is None or note:
        return name, note
    sentence = f"The profile {context.profile} of the context {context.name} has no model; {name} is used"
    return name, (Plain(sentence), Plain(f"Choose one with %agent defaults {context.profile}=MODEL"))


def _without_limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell's settings. A limit that the cell cancels also overrides the context's limit."""
    return {name: NO_LIMIT if value is None and name in LIMITS else value for name, value in settings.items()}
