"""Model, policy and limits of an agent: its own settings, then those of its extensions, then the limits of its policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agentnb import settings
from agentnb.advice import NameOne
from agentnb.agent.extension import Extension, merged
from agentnb.errors import SettingsError
from agentnb.models.model import Model
from agentnb.policies.limits import LIMIT_SETTINGS, LIMITS, Limits
from agentnb.policies.named import USUAL_POLICY, PolicySet, find_policy

NoLimit: TypeAlias = Literal["none"]
NO_LIMIT: Final[NoLimit] = "none"
"""The value of a limit of an agent that has none, whatever its extensions and its policy say."""


class TakenSettings(NamedTuple):
    """Model, policy and limits of the runs of an agent."""

    model: str | Model
    policy: PolicySet
    limits: Limits


def taken_settings(own: Mapping[str, Any], extensions: Iterable[Extension]) -> TakenSettings:
    """Return model, policy and limits by the settings of an agent and its extensions; the first extension with a setting wins.

    Raises `SettingsError` for an invalid limit or policy.
    """
    added = merged(extensions, "agent_settings")
    policy = find_policy(own["policy"] if own["policy"] is not None else added.get("policy", USUAL_POLICY))
    added = {**_of_policy(policy), **added}
    limits = {name: value for name in LIMIT_SETTINGS if (value := added.get(name)) is not None}
    limits |= {name: own[name] for name in LIMIT_SETTINGS if _is_set(name, own[name]) or name not in limits}
    if limits["on_limit"] is None:
        limits["on_limit"] = "stop"
    found: dict[str, Any] = {
        name: None if value == NO_LIMIT and name in LIMITS and not is_required(name) else value
        for name, value in limits.items()
    }
    more: dict[str, Any] = {"unpriced": own["unpriced"], "limits_of_file": tuple(own["limits_of_file"])}
    return TakenSettings(added.get("model") or own["model"], policy, Limits(**found, **more))


def _of_policy(policy: PolicySet) -> Mapping[str, Any]:
    """Return the limits that a policy gives; raise `SettingsError` for anything else that it would set."""
    given: Any = getattr(policy, "agent_settings", {})  # a policy class may be the person's own
    if not isinstance(given, Mapping) or any(name not in LIMIT_SETTINGS for name in given):
        what = f"agent_settings={given!r} of the policy {policy.name} are not limits by name"
        raise SettingsError(what, NameOne(known=LIMIT_SETTINGS, lead="It sets"))
    return given


def is_required(name: str) -> bool:
    """Return whether every run has this limit."""
    return name in LIMITS and LIMITS[name].is_required


def _is_set(name: str, value: Any) -> bool:
    """Return whether the agent has a value of its own: of a limit that every run has, one that is not the usual."""
    return value is not None and not (is_required(name) and value == settings.max_iterations())
