"""The JSON part of a type: members of unions, items of containers."""

from __future__ import annotations

import typing
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union

import pytest

from agentnb.tools.library.json_types import INEXPRESSIBLE, excluded_members, is_type, json_part

Key = TypeVar("Key", bound=Hashable)
Item_co = TypeVar("Item_co", covariant=True)


class Buffer(Protocol[Item_co]):
    """A file, to type checkers."""

    def read(self) -> Item_co: ...


class Texts(Protocol[Item_co]):
    """A sequence that is not a text, to type checkers."""

    def __getitem__(self, index: int, /) -> Item_co: ...

    def __len__(self) -> int: ...


class Marker:
    """A value of a library."""


NO_DEFAULT: Any = Literal[Marker.__new__(Marker)]  # type: ignore[valid-type]  # as libraries write it
PARTS: list[tuple[Any, Any]] = [
    (str | Buffer[bytes], str),
    (Buffer[bytes] | str | None, str | None),
    (str | NO_DEFAULT | None, str | None),
    (Buffer[bytes], INEXPRESSIBLE),
    (Buffer[bytes] | None, INEXPRESSIBLE),
    (list[Buffer[bytes]], INEXPRESSIBLE),
    (dict[str, Buffer[bytes]], INEXPRESSIBLE),
    (Callable[[], int], INEXPRESSIBLE),
    (Union["Unknown", int], int),  # type: ignore[name-defined]  # noqa: F821  # as in an alias of a library
    (Iterable[int], list[int]),
    (Iterable, list[Any]),
    (Texts[str], list[str]),
    (Mapping[str, int | Buffer[bytes]], dict[str, int]),
    (list[int | Buffer[bytes]] | None, list[int] | None),
    (list[int] | Sequence[str], list[int]),  # equal in JSON
    (Literal["a", 1] | Buffer[bytes], Literal["a", 1]),
    (Annotated[str | Buffer[bytes], "any words"], str),
    (int | bool, int | bool),
]


def test_json_compatible_part_of_a_type_is_kept(subtests: pytest.Subtests) -> None:
    for hint, part in PARTS:
        with subtests.test(hint=hint):
            assert json_part(hint) == part


def test_object_and_hashable_accept_any_value_if_allowed(subtests: pytest.Subtests) -> None:
    for hint, part in [
        (object, Any),
        (Hashable, Any),
        (Key, Any),
        (str | Hashable, Any),
        (Sequence[Hashable] | None, list[Any] | None),
        (Mapping[Key, Hashable], dict[str, Any]),
    ]:
        with subtests.test(hint=hint):
            assert json_part(hint, any_for_object=True) == part
    assert json_part(object) is json_part(Hashable) is INEXPRESSIBLE


def test_dropped_union_members_are_listed() -> None:
    assert excluded_members(str | Buffer[bytes] | NO_DEFAULT | None) == [Buffer[bytes]]
    assert excluded_members(str) == excluded_members(Buffer[bytes]) == []


def test_type_hints_are_distinguished_from_other_values(subtests: pytest.Subtests) -> None:
    for hint in [int, list[int], int | str, Any, Callable[[], int], typing.Optional[int], Literal[1], Key]:  # noqa: UP045
        with subtests.test(hint=hint):
            assert is_type(hint)
    for hint in [[int], any, 3, "text"]:
        with subtests.test(hint=hint):
            assert not is_type(hint)
