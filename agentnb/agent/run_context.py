"""The context of a run, as an agent knows it: what a conversation is about decides what it may do, and how careful it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from agentnb.policies.permissions.rules import Rule


class RunContext(Protocol):
    """The context of an agent's runs. An `Extension` has one."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def entity(self) -> str:
        """Id of the thing that it is about; empty without one."""

    @property
    def profile(self) -> str:
        """The kind of model that it deserves: speed, balanced or quality."""

    @property
    def as_logged(self) -> dict[str, Any]:
        """Its settings for the log of a run: the profile, and whether text about the entity was loaded."""

    @property
    def loads(self) -> bool:
        """Whether the text about the entity is loaded by a function of the person, which may take long."""

    @property
    def first(self) -> tuple[Rule, ...]:
        """The tools that are listed first."""

    def prompt(self, tools: Sequence[str]) -> str:
        """Return its part of the system prompt. ``tools``: the names of those that are listed first.

        Raises `SettingsError` if the text about the entity cannot be loaded.
        """

    def confirms(self, contexts: Sequence[str]) -> Iterable[Rule]:
        """Return the calls about which the person is asked each time in any of these contexts."""

    def canonical(self, name: str) -> str:
        """Return the name of the context that has this name or goes by it; a name of none as it is."""
