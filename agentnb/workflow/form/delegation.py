"""The agents of a workflow that give tasks to others."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from agentnb.errors import SettingsError
from agentnb.workflow.form.spec import AgentSpec


class DelegationCircle(SettingsError):
    """An agent whose sub-agents lead back to it; ``agent`` is its name."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"it gives tasks to itself ({' -> '.join(names)})", "Take one of them out of sub_agents")
        self.agent = names[0]


def delegation_order(agents: Mapping[str, AgentSpec]) -> list[str]:
    """Return the names of the agents, each after its sub-agents. Raises `DelegationCircle`."""
    try:
        return [*TopologicalSorter({name: one.sub_agents for name, one in agents.items()}).static_order()]
    except CycleError as error:
        raise DelegationCircle(error.args[1][::-1]) from None
