"""``%agent acp``: the agents of others that are known, what is installed of them, and more of them."""

from __future__ import annotations

import shlex

from agentnb.acp.installed import installed
from agentnb.acp.known_agents import KnownAgent, known_agents
from agentnb.errors import SettingsError

HOW_TO_ADD = "Write: %agent acp add NAME COMMAND"


def acp_command(rest: str) -> str:
    """Return what the command says. Raises `SettingsError`."""
    words = shlex.split(rest)
    if not words:
        return "\n".join(_line(name, agent) for name, agent in known_agents().items())
    if words[0] != "add" or len(words) < 3:
        raise SettingsError(f"%agent acp knows no {rest!r}", HOW_TO_ADD)
    _, name, *command = words
    if not name.isidentifier():
        raise SettingsError(f"{name!r} cannot be the name of an agent", "Letters, digits and _ only")
    known_agents()[name] = KnownAgent(command=tuple(command), asks=False)
    return f"{name} is known in this kernel. Run it: %%agent --acp {name}"


def _line(name: str, agent: KnownAgent) -> str:
    """Return the line of an agent: whether it is here, or how to get it."""
    here = installed(agent)
    if here is None:
        return f"{name:<9} not installed: {agent.install or f'there is no {agent.command[0]}'}"
    tried = "" if agent.tried in ("", here.version) else f", tried with {agent.tried}"
    sign_in = f". To sign in: {agent.sign_in}" if agent.sign_in else ""
    return f"{name:<9} {here.version or 'of unknown version'}{tried}{sign_in}"
