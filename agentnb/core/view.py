"""A read-only view of a growing list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class View(Sequence[T], Generic[T]):
    """Read-only access to a list without copying it.

    Without ``length``, it grows with the list; with a length, it shows the list as of that length (the underlying list is only
    ever appended to). A slice is an ordinary tuple. ``last`` replaces the last item, for this view only.
    """

    __slots__ = ("_items", "_last", "_length")

    def __init__(self, items: Sequence[T], length: int | None = None, last: T | None = None) -> None:
        self._items = items
        self._length = length
        self._last = last

    def __len__(self) -> int:
        return len(self._items) if self._length is None else self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if self._length is None:
            return tuple(self._items[index]) if isinstance(index, slice) else self._items[index]
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        index %= self._length
        return self._items[index] if self._last is None or index < self._length - 1 else self._last

    def __iter__(self) -> Iterator[T]:
        if self._length is None:
            return iter(self._items)
        if self._last is None:
            return islice(self._items, self._length)
        return chain(islice(self._items, self._length - 1), (self._last,))

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, View | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it may grow

    def __repr__(self) -> str:
        return repr(tuple(self))


def with_item(items: Sequence[T], item: T) -> Sequence[T]:
    """Return the items with one appended: a single item as a tuple, several as a fixed view.

    Takes constant time for the newest such view: the views share a list, each with its own length.
    """
    if not items:
        return (item,)  # most lists get only one item, and a tuple is read faster
    is_newest = type(items) is View and items._last is None and items._length == len(items._items)
    shared = items._items if type(items) is View and is_newest else [*items]
    shared.append(item)  # type: ignore[union-attr]  # a list, as the view has a length
    return View(shared, len(shared))


def with_last(items: Sequence[T], item: T) -> View[T]:
    """Return a view of the items with one appended, to be removed by `without_last`. Takes constant time."""
    view = items if type(items) is View and items._last is None else View([*items], len(items))
    return View(view._items, len(view) + 1, item)


def without_last(items: Sequence[T]) -> View[T]:
    """Return a view of the items without the last one."""
    return View(items._items if type(items) is View else [*items], len(items) - 1)
