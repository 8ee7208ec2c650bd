"""The gates of the calls that steps make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentnb.agent.extension import each
from agentnb.policies.gates import Gate, OnCopy
from agentnb.policies.gates.calls import CallCount


def gates_of(agent_settings: Mapping[str, Any]) -> Iterator[Gate]:
    """Yield the gates that the settings of all agents of a workflow have: they judge the calls of its steps too.

    Guards against repetition are left out: a workflow goes back, and tries again, on purpose.
    """
    in_run, in_turn = agent_settings.get("max_tool_calls"), agent_settings.get("max_tool_calls_per_turn")
    if in_run is not None or in_turn is not None:
        yield CallCount(in_run, in_turn)
    yield from map(OnCopy, each(agent_settings.get("extensions") or (), "gates"))
    yield from map(OnCopy, agent_settings.get("gates") or ())
