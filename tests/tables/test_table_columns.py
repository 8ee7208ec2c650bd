"""Every column documents its meaning, unit and source; docs/tables.md repeats them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
import tables_page
from chat_examples import NAMED, NAMES, REMOVED

from agentnb import tables
from agentnb.core.log.event import Event
from agentnb.core.log.events import KINDS
from agentnb.errors import SettingsError

COLUMNS = tables.columns()
MEASURED = ("Int64", "int64", "float64")


def kinds() -> dict[str, type]:
    """Map event names in logs to their classes; ``event`` has the common fields."""
    return {"event": Event, **{str(kind.__struct_config__.tag): kind for kind in KINDS}}


def has_field(kind: Any, path: list[str]) -> bool:
    """Return True if a value of this type can have a nested field of this name."""
    if not path:
        return True
    if get_origin(kind) is not None:
        return any(has_field(one, path) for one in get_args(kind))
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return False
    hints = get_type_hints(kind)
    return path[0] in hints and has_field(hints[path[0]], path[1:])


def test_documented_columns_match_the_tables_in_order(subtests: pytest.Subtests) -> None:
    assert list(COLUMNS.columns) == ["table", "column", "dtype", "unit", "meaning", "source"]
    assert list(dict.fromkeys(COLUMNS["table"])) == list(tables.NAMES)
    for name in tables.NAMES:
        with subtests.test(name):
            mine, frame = tables.columns(name), getattr(tables, name)([])
            assert list(mine["column"]) == list(frame.columns)
            assert list(mine["dtype"]) == [str(dtype) for dtype in frame.dtypes]


def test_each_column_has_a_one_sentence_meaning_and_unit(subtests: pytest.Subtests) -> None:
    for row in COLUMNS.itertuples():
        with subtests.test(f"{row.table}.{row.column}"):
            assert re.fullmatch(r"[^|\n]+[^|\n.]", row.meaning) and re.fullmatch(r"[^|\n]+", row.source)
            assert bool(row.unit) == (row.dtype in MEASURED or row.dtype.startswith("datetime") or row.unit == "JSON")
            assert (row.unit == "UTC") == row.dtype.startswith("datetime")


def test_every_column_round_trips_through_csv_and_parquet() -> None:
    plain = {"str", "bool", "boolean", "int64", "Int64", "float64", "datetime64[us, UTC]"}
    assert set(COLUMNS["dtype"]) == plain, "no Python objects"


def test_equally_named_round_and_time_columns_share_a_unit() -> None:
    assert set(COLUMNS[COLUMNS["column"].isin(["round", "first", "last", "forked_at_round"])]["unit"]) == {"rounds from 1"}
    assert set(COLUMNS[COLUMNS["column"].str.endswith("seconds")]["unit"]) == {"seconds"}
    assert set(COLUMNS[COLUMNS["column"].isin(["cost", "spent", "budget"])]["unit"]) == {"US dollars"}
    assert set(COLUMNS[COLUMNS["column"].str.endswith(("rate", "share", "propensity"))]["unit"]) == {"0 to 1"}


def test_column_source_is_an_event_field_or_existing_module(subtests: pytest.Subtests) -> None:
    named = [(row, name) for row in COLUMNS.itertuples() for name in re.findall(r"[a-z_]+(?:\.[a-z_]+)+", row.source)]
    assert len(named) > 150
    for row, name in named:
        with subtests.test(f"{row.table}.{row.column}: {name}"):
            first, *path = name.split(".")
            if first in kinds():
                assert has_field(kinds()[first], path) or path == ["kind"]
            else:
                assert find_spec(f"agentnb.{name}") is not None


def test_unknown_table_is_refused_with_a_similar_name() -> None:
    with pytest.raises(SettingsError, match="There is no table 'round'") as caught:
        tables.columns("round")
    assert "rounds" in str(caught.value)
    with pytest.raises(SettingsError, match="There is no table"):
        tables.columns([])  # type: ignore[arg-type]


def test_tables_page_is_up_to_date() -> None:
    again = "Run python tests/tables/tables_page.py"
    assert tables_page.PAGE.read_text(encoding="utf-8") == tables_page.text(), again


def test_docstrings_do_not_repeat_the_column_meanings(subtests: pytest.Subtests) -> None:
    for name in tables.NAMES:
        with subtests.test(name):
            told = set(re.findall(r"``(\w+)``", getattr(tables, name).__doc__))
            assert not told & set(tables.columns(name)["column"]) - {"arguments"}  # also the name of a parameter


@pytest.mark.req("R3.28")
def test_tables_page_lists_each_turn_event_and_its_kinds() -> None:
    rows = re.findall(r"^\| (`\w+`) \| (.*?) ?\| .*\|$", tables_page.EVENTS, re.MULTILINE)
    assert {name.strip("`") for name, _ in rows} == NAMES - REMOVED
    assert {*re.findall(r"\w+", " ".join(kinds for _, kinds in rows))} == NAMED.keys()
