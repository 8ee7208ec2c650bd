"""The contexts of a session: those that agentnb brings along, and those that cells wrote."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.advice import Plain
from agentnb.chat.context_spec import ContextSpec, KnownContexts
from agentnb.chat.context_type import ContextType, shipped
from agentnb.chat.logged_context import contexts_of_log
from agentnb.chat.turn_context import logged_settings
from agentnb.detect.run import Run
from agentnb.errors import SettingsError

SEE = Plain("%agent contexts lists them")


class ContextChoice(NamedTuple):
    """The context that a cell chose."""

    context: ContextType | None = None
    entity: str = ""
    word: str = ""
    """A word that names no context, which the log keeps."""
    note: str = ""
    """A line to the person; empty if nothing needs explaining."""


class SessionContexts:
    """Contexts by name."""

    def __init__(self) -> None:
        self.own: dict[str, ContextType] = {}
        """The contexts that cells wrote."""

    @property
    def known(self) -> KnownContexts:
        """All contexts."""
        return shipped().with_others(self.own.values())

    def write(self, context: ContextType) -> None:
        """Keep a context under its name, in place of one that had it."""
        self.own[context.name] = context

    def find(self, name: str) -> ContextSpec:
        """Return the context of this name; raise `SettingsError` with similar names."""
        context = self.known.get(name)
        if context is None:
            raise SettingsError(f"There is no context {name!r}", (*self.known.near(name), SEE))
        return context

    def choose(self, typed: str, before: Run | None = None) -> ContextChoice:
        """Return the context of a cell: the one that was ``typed``, as NAME or NAME:ENTITY, else that of the run it continues.

        A word that names none is kept as a word, unless it nearly names one: then `SettingsError` is raised.
        """
        if not typed:
            return ContextChoice() if before is None else self._of(before)
        name, _, entity = typed.partition(":")
        context = self.known.get(name)
        if isinstance(context, ContextType):
            return ContextChoice(context, entity)
        if near := self.known.near(name):
            raise SettingsError(f"There is no context {name!r}", (*near, SEE))
        note = f"{typed!r} names no context: it is kept as run.context_type, and changes nothing else. {SEE.text}"
        return ContextChoice(word=typed, note=note)

    def _of(self, before: Run) -> ContextChoice:
        """Return the context of a run, to which it may have shifted."""
        if logged_settings(before) is None:
            return ContextChoice()
        context = contexts_of_log(before).with_others(self.own.values()).get(before.context_type)
        if isinstance(context, ContextType):
            return ContextChoice(context, before.entity)
        note = f"The conversation was in the context {before.context_type!r}, which is not here: it goes on without one"
        return ContextChoice(word=before.context_type, note=note)
