"""The contexts that a run may shift to, by name and alias."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentnb.advice import AnyAdvice
from agentnb.chat.context_spec import ContextSpec
from agentnb.errors import nearest


class KnownContexts:
    """Contexts by name and by alias; of several with one name, the last."""

    def __init__(self, contexts: Iterable[ContextSpec] = ()) -> None:
        given = tuple(contexts)
        self._by_name = {one.name: one for one in given}
        # One that replaces another keeps its aliases: who writes `global` anew still reaches it as `general`.
        self._names = {word: one.name for one in given for word in one.aliases}
        self._names |= {name: name for name in self._by_name}
        self._folded = {word.casefold(): name for word, name in self._names.items()}

    def __iter__(self) -> Iterator[ContextSpec]:
        return iter(self._by_name.values())

    def with_others(self, others: Iterable[ContextSpec]) -> KnownContexts:
        """Return these contexts and others, which replace contexts of the same names."""
        return KnownContexts((*self._by_name.values(), *others))

    def without(self, others: KnownContexts) -> tuple[ContextSpec, ...]:
        """Return the contexts that the others do not have in the same form."""
        return tuple([one for one in self if others.get(one.name) != one])

    def canonical(self, word: str) -> str:
        """Return the name of the context with this name or alias, also in other case; another word unchanged."""
        return self._names.get(word) or self._folded.get(word.casefold(), word)

    def get(self, word: str) -> ContextSpec | None:
        """Return the context with this name or alias; None without one."""
        return self._by_name.get(self.canonical(word))

    def near(self, word: str) -> tuple[AnyAdvice, ...]:
        """Return advice if the word is similar to a name or an alias."""
        return nearest(word, self._names)
