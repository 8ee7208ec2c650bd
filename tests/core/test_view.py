"""Read-only views of a growing list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentnb.core.view import View, with_item, with_last, without_last

small_lists = st.lists(st.integers(), max_size=8)


def test_view_grows_with_its_list() -> None:
    items = [1, 2]
    view = View(items)
    items.append(3)
    assert (len(view), view[-1], list(view)) == (3, 3, [1, 2, 3])


def test_view_with_a_length_keeps_the_earlier_list() -> None:
    items = [1, 2]
    view = View(items, 2)
    items.append(3)
    assert (len(view), view[-1], view[0], list(view), view[:], 3 in view) == (2, 2, 1, [1, 2], (1, 2), False)


@pytest.mark.parametrize("index", [2, 3, -3])
def test_view_with_a_length_ends_there(index: int) -> None:
    view = View([1, 2, 3, 4], 2)
    with pytest.raises(IndexError):
        view[index]


def test_view_has_no_mutating_methods(subtests: pytest.Subtests) -> None:
    for name in ["append", "extend", "insert", "pop", "clear", "sort", "remove", "reverse"]:
        with subtests.test(name=name):
            assert not hasattr(View([1]), name)


def test_view_items_cannot_be_set_or_deleted() -> None:
    view = View([1, 2])
    with pytest.raises(TypeError):
        view[0] = 5  # type: ignore[index]
    with pytest.raises(TypeError):
        del view[0]  # type: ignore[attr-defined]
    assert view == [1, 2]


def test_slice_is_a_separate_tuple() -> None:
    items = [1, 2, 3]
    part = View(items)[1:]
    items.append(4)
    assert part == (2, 3) and type(part) is tuple


@given(small_lists, st.integers(0, 8), st.slices(8))
def test_view_behaves_like_a_tuple_of_the_same_length(items: list[int], length: int, part: slice) -> None:
    length = min(length, len(items))
    for view, same in ((View(items, length), tuple(items[:length])), (View(items), tuple(items))):
        assert view == same and tuple(view) == same and len(view) == len(same)
        assert view[part] == same[part]
        assert [view[i] for i in range(-len(same), len(same))] == [same[i] for i in range(-len(same), len(same))]
        assert tuple(reversed(view)) == same[::-1]
        assert repr(view) == repr(same)


@given(st.lists(st.integers(), min_size=1, max_size=8), st.integers(1, 8), st.slices(8), st.integers(100, 110))
def test_view_with_a_replaced_last_item_behaves_like_a_tuple(items: list[int], length: int, part: slice, last: int) -> None:
    length = min(length, len(items))
    before = list(items)
    view, same = View(items, length, last), (*items[: length - 1], last)
    assert view == same and tuple(view) == same and len(view) == len(same) and repr(view) == repr(same)
    assert view[part] == same[part] and tuple(reversed(view)) == same[::-1]
    assert [view[i] for i in range(-len(same), len(same))] == [same[i] for i in range(-len(same), len(same))]
    assert items == before


def test_views_equal_sequences_with_the_same_items() -> None:
    view = View([1, 2])
    assert view == [1, 2] and view == (1, 2) and view == View([1, 2, 3], 2)
    assert view != [2, 1] and view != [1] and view != View([1, 2, 3]) and view != {1, 2} and view != "12"


def test_view_is_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(View([1]))


def test_adding_an_item_leaves_the_earlier_view_unchanged() -> None:
    first = with_item((), 1)
    second, other = with_item(first, 2), with_item(first, 3)
    assert (first, second, other) == ((1,), (1, 2), (1, 3))
    assert with_item(second, 4) == (1, 2, 4) and second == (1, 2)


def test_removed_last_item_does_not_appear_in_later_views() -> None:
    first = with_item((), 1)
    pending = with_last(first, 2)
    assert (pending, pending[-1], without_last(pending)) == ((1, 2), 2, (1,))
    assert with_item(without_last(pending), 3) == (1, 3)
    assert (pending, with_last(pending, 4), with_item(pending, 5)) == ((1, 2), (1, 2, 4), (1, 2, 5))
    assert without_last((1, 2)) == (1,)
