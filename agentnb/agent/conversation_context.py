"""The context of a conversation, as an agent sees it: its part of the system prompt, its profile, and the calls it confirms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from agentnb.policies.permissions.rules import Rule


class ConversationContext(Protocol):
    """The context of an agent's conversations. An `Extension` has one."""

    @property
    def name(self) -> str:
        """The name of the context."""

    @property
    def entity(self) -> str:
        """Id of the thing that the conversation is about; empty without one."""

    @property
    def profile(self) -> str:
        """The kind of its model: speed, balanced or quality."""

    @property
    def as_logged(self) -> dict[str, Any]:
        """Settings for the log of a run: the profile, and whether text about the entity was loaded."""

    @property
    def loads(self) -> bool:
        """Whether the text about the entity is loaded by a function of the person, which may take long."""

    @property
    def first(self) -> tuple[Rule, ...]:
        """The tools that are listed first."""

    def prompt(self, tools: Sequence[str]) -> str:
        """Return the section of the system prompt. ``tools``: the names of the tools that are listed first.

        Raises `SettingsError` if the text about the entity cannot be loaded.
        """

    def confirms(self, contexts: Sequence[str]) -> Iterable[Rule]:
        """Return the calls about which the person is asked each time in any of these contexts."""

    def canonical(self, name: str) -> str:
        """Return the name of the context with this name or alias; another word unchanged."""
