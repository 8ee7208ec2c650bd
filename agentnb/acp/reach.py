"""What the permissions of a run reach of an agent: whether it asks before it acts decides what they can hold."""

from __future__ import annotations

import os

from agentnb.acp.foreign_agent import ForeignAgent
from agentnb.core.run.approvals import ASK, AUTO
from agentnb.errors import SettingsError
from agentnb.policies.permissions.permissions import Permissions

RUNS_HERE = os.name == "posix"
"""Whether this system has what the guard of an agent and the door need: inherited pipes, process groups, Unix sockets."""


def asks(foreign: ForeignAgent) -> bool:
    """Return whether the agent asks before it writes and executes, in the mode that a run starts it in."""
    return foreign.known.asks and foreign.mode in ("", foreign.known.asks_in)


def check_holds(foreign: ForeignAgent, permissions: Permissions) -> str:
    """Return a warning for the person about what they are not asked; empty if the agent asks.

    Raises `SettingsError` if the run has a mode or a rule that the agent would not keep, as it asks nobody.
    """
    if not RUNS_HERE:
        raise SettingsError(f"{foreign.name} needs a POSIX system (Linux or macOS)", "On Windows, run the kernel in WSL")
    if asks(foreign):
        return ""
    mode = f"its mode {foreign.mode}" if foreign.mode else "a mode that agentnb does not know"
    held = [word for word in permissions.mode.held if word != AUTO]
    held += [rule.text for layer in permissions.layers for rule in layer.rules if rule.verdict != "allow"]
    usual = f"start it in {foreign.known.asks_in}, where it asks" if foreign.known.asks_in else "run another agent"
    if held:
        raise SettingsError(
            f"{foreign.name} asks nobody in {mode}: {', '.join(held)} would not hold", f"Leave --mode out: {usual}"
        )
    if not foreign.mode and not permissions.mode.is_auto:
        what = f"Whether {foreign.name} asks before it writes and executes is not known"
        raise SettingsError(what, f"Let it do what it likes with approve={AUTO}; {ASK} cannot hold here")
    return f"{foreign.name} asks nobody in {mode}: it writes and executes without a question"


def check_cost(foreign: ForeignAgent) -> None:
    """Raise `SettingsError` if the agent does not say what it costs, so that no budget can end its run."""
    if foreign.known.cost == "none":
        what = f"{foreign.name} does not say what it costs, so a budget cannot be enforced"
        raise SettingsError(what, "Limit it with max_seconds or max_tool_calls, or let it count as nothing: unpriced=True")
