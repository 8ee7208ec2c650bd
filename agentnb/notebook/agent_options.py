"""The agent that a cell or the panel asks for: what was chosen there, and for the rest what the session's defaults say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.core.run import Run
from agentnb.notebook.commands.guidance import find_guidance
from agentnb.notebook.names import find_history, find_model, find_tools
from agentnb.policies.named import find_policy, in_workflow_mode
from agentnb.session.choice import choose_model
from agentnb.session.session import Session


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Names as people type them; what is empty was not chosen. ``settings``: further ones of the agent, by its names."""

    model: str = ""
    tools: Sequence[str] = ()
    guidance: str = ""
    policy: str = ""
    workflow_mode: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def make_agent(
    chosen: AgentOptions, session: Session, variables: Mapping[str, Any], before: Run | None = None
) -> tuple[Agent, str]:
    """The agent, and a line for the person about its model, empty where there is nothing to explain.

    ``before``: the run it goes on with, whose model it has unless another was chosen. `SettingsError` for what cannot be.
    """
    defaults = session.defaults
    name, note = (chosen.model, "") if chosen.model else choose_model(defaults["model"], before)
    policy = find_policy(chosen.policy or defaults["policy"])
    settings = session.agent_settings() | dict(chosen.settings)
    settings["history"] = find_history(settings["history"], variables)
    agent = Agent(
        find_model(name, variables),
        tools=find_tools(chosen.tools, variables),
        guidance=find_guidance(chosen.guidance or defaults["guidance"], session, variables),
        policy=in_workflow_mode(policy) if chosen.workflow_mode else policy,
        **settings,
    )
    return agent, note
