"""The limits of an agent, as its settings name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentnb.errors import SettingsError
from agentnb.policies.gates.calls import CallCount
from agentnb.policies.limits import MaxRounds, MaxTokens, MaxToolCalls
from agentnb.policies.rules import PolicyBundle
from agentnb.policies.verdict import Policy

if TYPE_CHECKING:
    from agentnb.agent.agent import Agent

MAX_ROUNDS = 1_000
MAX_AMOUNT = 1e12
COUNTS = ("max_tool_calls", "max_tool_calls_per_turn", "max_tokens")
AMOUNTS = {"max_seconds": "seconds", "budget": "US dollars"}
ON_LIMIT = ("stop", "final_answer", "raise")


def check_limits(agent: Agent) -> None:
    """`SettingsError` for a limit that cannot be one."""
    rounds: object = agent.max_rounds
    if not isinstance(rounds, int) or isinstance(rounds, bool) or not 1 <= rounds <= MAX_ROUNDS:
        raise SettingsError(f"max_rounds={rounds!r} is not a whole number from 1 to {MAX_ROUNDS:,}")
    for name in COUNTS:
        value = getattr(agent, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise SettingsError(f"{name}={value!r} is not a whole number from 1 on", "None is no such limit")
    for name, unit in AMOUNTS.items():
        value = getattr(agent, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value <= MAX_AMOUNT):
            raise SettingsError(f"{name}={value!r} is no number of {unit} above 0", "None is no such limit")
    if agent.on_limit not in ON_LIMIT:
        raise SettingsError(f"on_limit={agent.on_limit!r} is not known", f"It is one of {', '.join(ON_LIMIT)}")


def limits_of(agent: Agent) -> Iterator[Policy]:
    """The policies that end a run at its limits; money and time are counted where the run is."""
    if agent.max_tool_calls is not None or agent.max_tool_calls_per_turn is not None:
        yield MaxToolCalls(agent.max_tool_calls, agent.max_tool_calls_per_turn)
    if agent.max_tokens is not None:
        yield MaxTokens(agent.max_tokens)
    yield MaxRounds(agent.max_rounds)


def limited(rules: PolicyBundle, agent: Agent) -> PolicyBundle:
    """The rules, with the gate that lets no call run above the limit."""
    if agent.max_tool_calls is None and agent.max_tool_calls_per_turn is None:
        return rules
    return rules._replace(gates=(CallCount(agent.max_tool_calls, agent.max_tool_calls_per_turn), *rules.gates))


def limits_as_logged(agent: Agent) -> dict[str, Any]:
    """Those that are set, as plain data."""
    names = (*COUNTS, *AMOUNTS)
    logged = {name: getattr(agent, name) for name in names if getattr(agent, name) is not None}
    if agent.unpriced:
        logged["unpriced"] = True
    return logged if agent.on_limit == "stop" else {**logged, "on_limit": agent.on_limit}
