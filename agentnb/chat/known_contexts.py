"""The contexts that a run may shift to, and the words that name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentnb.advice import AnyAdvice
from agentnb.chat.context_spec import ContextSpec
from agentnb.errors import nearest


class KnownContexts:
    """Contexts by name and by alias; of several with one name, the last."""

    def __init__(self, contexts: Iterable[ContextSpec] = ()) -> None:
        self._by_name = {one.name: one for one in contexts}
        self._names = {word: one.name for one in self._by_name.values() for word in (*one.aliases, one.name)}
        self._names |= {name: name for name in self._by_name}
        self._folded = {word.casefold(): name for word, name in self._names.items()}

    def __iter__(self) -> Iterator[ContextSpec]:
        return iter(self._by_name.values())

    def with_others(self, others: Iterable[ContextSpec]) -> KnownContexts:
        """Return these contexts and others, which replace those of their names."""
        return KnownContexts((*self._by_name.values(), *others))

    def canonical(self, word: str) -> str:
        """Return the name of the context that a word names, also in other case; a word that names none as it is."""
        return self._names.get(word) or self._folded.get(word.casefold(), word)

    def get(self, word: str) -> ContextSpec | None:
        """Return the context that a word names; None if it names none."""
        return self._by_name.get(self.canonical(word))

    def near(self, word: str) -> tuple[AnyAdvice, ...]:
        """Return advice if the word is nearly one that names a context."""
        return nearest(word, self._names)
