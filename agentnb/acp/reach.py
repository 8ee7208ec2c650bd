"""Effects of a run's permissions on an agent: rules and modes hold only for agents that ask before they act."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from agentnb.acp.external_agent import ExternalAgent
from agentnb.acp.installed import find_installed
from agentnb.acp.known_agents import KnownAgent
from agentnb.core.run.approvals import AUTO, NEVER, READ_ONLY
from agentnb.errors import SettingsError
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.tools.subject import flag_of
from agentnb.tools.tool import Effect, Tool

RUNS_HERE = os.name == "posix"
"""True if the system supports what the agent's guard and the door need: inherited pipes, process groups and Unix sockets."""

NOUNS: Mapping[Effect, str] = {"read": "reads", "write": "writes", "execute": "commands", "network": "network access"}
"""Effects, as a person reads them."""
UNHELD = "No mode or sandbox of it is known that would hold them; in an experiment, agentnb runs it inside bubblewrap"


def denied_effects(permissions: Permissions, tools: Mapping[str, Tool]) -> dict[str, frozenset[Effect]]:
    """Return the effects that each mode, rule and list of flags denies, by its text. ``tools``: the agent's, by name.

    They are empty for rules about other tools, such as notebook functions, which agentnb runs itself.
    """
    modes = {word: frozenset(NOUNS) - {"read"} for word in permissions.mode.held if word in (READ_ONLY, NEVER)}
    denied: dict[str, frozenset[Effect]] = {**modes}
    for layer in permissions.layers:
        for rule in layer.rules:
            if rule.verdict == "deny":
                denied[rule.text] = _effects(tool for name, tool in tools.items() if rule.holds_for(name, tool))
        if layer.flags is not None:
            forbidden = [tool for tool in tools.values() if flag_of(tool) not in (None, *layer.flags)]
            denied[f"permissions={sorted(layer.flags)}"] = _effects(forbidden)
    return denied


def _effects(tools: Iterable[Tool]) -> frozenset[Effect]:
    return frozenset[Effect]().union(*[getattr(tool, "effects", None) or () for tool in tools])


def check_holds(external: ExternalAgent, permissions: Permissions, denied: Mapping[str, frozenset[Effect]]) -> tuple[str, bool]:
    """Return a warning about actions taken without asking, or "", and whether to ask the person about the start.

    The person is asked if it is unknown whether the agent asks, unless they chose a mode of the agent or ``auto``.
    ``denied``: see `denied_effects`. Raises `SettingsError` for a mode or rule that the agent would not obey, because it does
    not ask.
    """
    if not RUNS_HERE:
        raise SettingsError(f"{external.name} needs a POSIX system (Linux or macOS)", "On Windows, run the kernel in WSL")
    is_ordered = external.mode not in ("", external.known.asks_in)
    why = f"it does not ask for permission in its mode {external.mode}" if is_ordered else _doubt(external.known)
    if not why:
        _check_denied(external, denied)
        return _warn_of_auto(external) if permissions.mode.is_auto and external.place is None else "", False
    held = [word for word in permissions.mode.held if word != AUTO]
    held += [rule.text for layer in permissions.layers for rule in layer.rules if rule.verdict != "allow"]
    held += [text for text, effects in denied.items() if effects and text not in held]
    if held:
        raise SettingsError(f"{', '.join(held)} would have no effect on {external.name}: {why}", _how_to_hold(external))
    if not is_ordered and not permissions.mode.is_auto:
        return "", True
    return f"{external.name} may write and execute without asking: {why}", False


def _check_denied(external: ExternalAgent, denied: Mapping[str, frozenset[Effect]]) -> None:
    """Raise `SettingsError` if an effect is denied that the agent does not always ask about."""
    agent = external.known
    for text, effects in denied.items():
        if unasked := effects.difference(agent.asks_about):
            mode = f" in its mode {agent.asks_in}" if agent.asks_in else ""
            problem = f"{text} would not hold for {external.name}, which does not always ask about {_nouns(unasked)}{mode}"
            raise SettingsError(problem, agent.sandbox or UNHELD)


def _warn_of_auto(external: ExternalAgent) -> str:
    asked = external.known.asks_about
    approved, unasked = _nouns(asked), _nouns(set(NOUNS).difference(asked))
    reasons = [approved and f"auto approves {approved}", unasked and f"it does not always ask about {unasked}"]
    return f"You are not asked about calls of {external.name}: {'; '.join(filter(None, reasons))}"


def _nouns(effects: Iterable[Effect]) -> str:
    return ", ".join([NOUNS[effect] for effect in NOUNS if effect in effects])


def _doubt(agent: KnownAgent) -> str:
    """Return the reason why it is unknown whether the agent asks before it writes and executes, or "" if that was tested."""
    if not agent.asks:
        return "agentnb does not know whether it asks"
    program = find_installed(agent)
    if program is None or agent.tried in ("", program.version):
        return ""
    return f"it is known to ask in {agent.tried}, but this is {program.version or 'an unknown version'}"


def _how_to_hold(external: ExternalAgent) -> str:
    agent = external.known
    if external.mode not in ("", agent.asks_in):
        return f"Omit --mode: it starts in {agent.asks_in}, where it asks" if agent.asks_in else "Omit --mode"
    if not agent.asks:
        return "Run another agent, or omit these options: agentnb asks you before it starts"
    tried = f"=={agent.tried}" if agent.install.startswith("pip ") else f"@{agent.tried}"
    return f"Install that version: {agent.install.removesuffix('@latest')}{tried}"


def check_cost(external: ExternalAgent) -> None:
    """Raise `SettingsError` if the agent does not report its cost, since no budget could then end its run."""
    if external.known.cost == "none":
        problem = f"{external.name} does not report its cost, so a budget cannot be enforced"
        raise SettingsError(problem, "Limit it with max_seconds or max_tool_calls, or ignore the cost: unpriced=True")
