"""The agent for a cell or the panel: the options chosen there, and the session's defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.agent.extension import Extension
from agentnb.detect.run import Run
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.notebook.commands.guidance import find_guidance
from agentnb.notebook.names import find_gates, find_history, find_model, find_output, find_tools
from agentnb.policies.named import find_policy, in_workflow_mode
from agentnb.session.choice import choose_model
from agentnb.session.session import Session


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Names as typed; an empty one was not chosen. ``settings``: further settings of the `Agent`, by parameter name."""

    model: str = ""
    tools: Sequence[str] = ()
    guidance: str = ""
    policy: str = ""
    workflow_mode: bool = False
    output: str = ""
    gates: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    extensions: Sequence[Extension] = ()


def make_agent(
    chosen: AgentOptions, session: Session, variables: Mapping[str, Any], before: Run | None = None
) -> tuple[Agent, str]:
    """Return the agent, and a line to the person about its model (empty if nothing needs explaining).

    ``before``: the run to continue, whose model is used unless another was chosen. Raises `SettingsError` for invalid options.
    """
    defaults = session.defaults
    name, note = (chosen.model, ()) if chosen.model else choose_model(defaults["model"], before)
    policy = find_policy(chosen.policy or defaults["policy"])
    settings = session.agent_settings() | dict(chosen.settings)
    settings["history"] = find_history(settings["history"], variables)
    agent = Agent(
        find_model(name, variables),
        tools=find_tools(chosen.tools, variables, session.tool_groups()),
        guidance=find_guidance(chosen.guidance or defaults["guidance"], session, variables),
        policy=in_workflow_mode(policy) if chosen.workflow_mode else policy,
        gates=find_gates(chosen.gates, variables),
        output=find_output(chosen.output, variables) if chosen.output else None,
        extensions=chosen.extensions,
        **settings,
    )
    return agent, in_notebook(note)
