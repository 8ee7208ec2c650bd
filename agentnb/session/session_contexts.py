"""The contexts of a session: built-in ones, and those written in cells."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.advice import Plain
from agentnb.chat.context_spec import ContextSpec, KnownContexts
from agentnb.chat.context_type import ContextType, builtin_contexts
from agentnb.chat.logged_context import contexts_of_log
from agentnb.chat.turn_context import logged_settings
from agentnb.detect.run import Run
from agentnb.errors import SettingsError

SEE = Plain("%agent contexts lists them")


class ContextChoice(NamedTuple):
    """A cell's choice of context."""

    context: ContextType | None = None
    entity: str = ""
    word: str = ""
    """A word that does not name a context; stored in the log."""
    note: str = ""
    """A line for the person; empty if nothing needs explaining."""


class SessionContexts:
    """Contexts by name."""

    def __init__(self) -> None:
        self.own: dict[str, ContextType] = {}
        """The contexts written in cells."""

    @property
    def known(self) -> KnownContexts:
        """All contexts."""
        return builtin_contexts().with_others(self.own.values())

    def write(self, context: ContextType) -> None:
        """Store a context under its name, replacing an earlier one."""
        self.own[context.name] = context

    def find(self, name: str) -> ContextSpec:
        """Return the context with this name. Raises `SettingsError` listing similar names."""
        context = self.known.get(name)
        if context is None:
            raise SettingsError(f"There is no context {name!r}", (*self.known.near(name), SEE))
        return context

    def choose(self, typed: str, before: Run | None = None) -> ContextChoice:
        """Return the context for a cell: the one ``typed``, as NAME or NAME:ENTITY, or else the context of the run it
        continues.

        An unknown word is stored unchanged. Raises `SettingsError` if it resembles a known name.
        """
        if not typed:
            return ContextChoice() if before is None else self._of(before)
        name, _, entity = typed.partition(":")
        context = self.known.get(name)
        if isinstance(context, ContextType):
            return ContextChoice(context, entity)
        if near := self.known.near(name):
            raise SettingsError(f"There is no context {name!r}", (*near, SEE))
        note = f"{typed!r} is not a context: it is only stored as run.context_type. {SEE.text}"
        return ContextChoice(word=typed, note=note)

    def _of(self, before: Run) -> ContextChoice:
        """Return the context of a run after its shifts."""
        if logged_settings(before) is None:
            return ContextChoice()
        context = contexts_of_log(before).with_others(self.own.values()).get(before.context_type)
        if isinstance(context, ContextType):
            return ContextChoice(context, before.entity)
        note = f"The conversation's context {before.context_type!r} is not available here; it continues without a context"
        return ContextChoice(word=before.context_type, note=note)
