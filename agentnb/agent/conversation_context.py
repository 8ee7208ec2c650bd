"""The context of an agent's conversation: a section of the system prompt, a model profile, and the calls to confirm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from agentnb.policies.permissions.permission_rules import Rule


class ConversationContext(Protocol):
    """The context of an agent's conversations, supplied by an `Extension`."""

    @property
    def name(self) -> str:
        """The name of the context."""

    @property
    def entity(self) -> str:
        """Id of the conversation's entity, or empty if it has none."""

    @property
    def profile(self) -> str:
        """The profile of the context's model: speed, balanced or quality."""

    @property
    def as_logged(self) -> dict[str, Any]:
        """Settings for the log of a run: the profile, and whether text about the entity was loaded."""

    @property
    def loads(self) -> bool:
        """True if a function supplied by the person loads the text about the entity; this may take a while."""

    @property
    def first(self) -> tuple[Rule, ...]:
        """The tools to put first."""

    def prompt(self, tools: Sequence[str]) -> str:
        """Return the section of the system prompt. ``tools``: the names of the tools to put first.

        Raises `SettingsError` if the text about the entity cannot be loaded.
        """

    def confirms(self, contexts: Sequence[str]) -> Iterable[Rule]:
        """Return the calls that the person must confirm every time in any of these contexts."""

    def canonical(self, name: str) -> str:
        """Return the name of the context with this name or alias; return any other word unchanged."""
