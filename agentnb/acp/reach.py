"""Effects of a run's permissions on an agent: rules and modes hold only for agents that ask before they act."""

from __future__ import annotations

import os

from agentnb.acp.foreign_agent import ForeignAgent
from agentnb.acp.installed import find_installed
from agentnb.acp.known_agents import KnownAgent
from agentnb.core.run.approvals import AUTO
from agentnb.errors import SettingsError
from agentnb.policies.permissions.run_permissions import Permissions

RUNS_HERE = os.name == "posix"
"""True if the system supports what the agent's guard and the door need: inherited pipes, process groups and Unix sockets."""


def check_holds(foreign: ForeignAgent, permissions: Permissions) -> tuple[str, bool]:
    """Return a warning about actions taken without asking, or "", and whether to ask the person about the start.

    The person is asked if it is unknown whether the agent asks, unless they chose a mode of the agent or ``auto``.
    Raises `SettingsError` for a mode or rule that the agent would not obey, because it does not ask.
    """
    if not RUNS_HERE:
        raise SettingsError(f"{foreign.name} needs a POSIX system (Linux or macOS)", "On Windows, run the kernel in WSL")
    is_ordered = foreign.mode not in ("", foreign.known.asks_in)
    why = f"it does not ask for permission in its mode {foreign.mode}" if is_ordered else _doubt(foreign.known)
    if not why:
        return "", False
    held = [word for word in permissions.mode.held if word != AUTO]
    held += [rule.text for layer in permissions.layers for rule in layer.rules if rule.verdict != "allow"]
    if held:
        raise SettingsError(f"{', '.join(held)} would have no effect on {foreign.name}: {why}", _how_to_hold(foreign))
    if not is_ordered and not permissions.mode.is_auto:
        return "", True
    return f"{foreign.name} may write and execute without asking: {why}", False


def _doubt(agent: KnownAgent) -> str:
    """Return the reason why it is unknown whether the agent asks before it writes and executes, or "" if that was tested."""
    if not agent.asks:
        return "agentnb does not know whether it asks"
    program = find_installed(agent)
    if program is None or agent.tried in ("", program.version):
        return ""
    return f"it is known to ask in {agent.tried}, but this is {program.version or 'an unknown version'}"


def _how_to_hold(foreign: ForeignAgent) -> str:
    agent = foreign.known
    if foreign.mode not in ("", agent.asks_in):
        return f"Omit --mode: it starts in {agent.asks_in}, where it asks" if agent.asks_in else "Omit --mode"
    if not agent.asks:
        return "Run another agent, or omit these options: agentnb asks you before it starts"
    tried = f"=={agent.tried}" if agent.install.startswith("pip ") else f"@{agent.tried}"
    return f"Install that version: {agent.install.removesuffix('@latest')}{tried}"


def check_cost(foreign: ForeignAgent) -> None:
    """Raise `SettingsError` if the agent does not report its cost, since no budget could then end its run."""
    if foreign.known.cost == "none":
        problem = f"{foreign.name} does not report its cost, so a budget cannot be enforced"
        raise SettingsError(problem, "Limit it with max_seconds or max_tool_calls, or ignore the cost: unpriced=True")
