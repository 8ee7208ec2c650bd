"""Data frames as text for a model."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from asserted_sentences import Snapshot

from agentnb.core.display_data import Table
from agentnb.tools.data_frames import frame_table, frame_text


def lines(value: Any) -> list[str]:
    words = frame_text(value)
    assert words is not None
    return words.splitlines()


@pytest.mark.req("R2.3")
def test_frame_text_has_size_columns_types_missing_counts_and_rows(snapshot: Snapshot) -> None:
    frame = pd.DataFrame({"species": ["Adelie", None], "mass": [3750.0, np.nan], "year": [2007, 2008]})
    assert lines(frame) == snapshot


@pytest.mark.req("R2.3")
def test_series_text_has_name_size_type_and_missing_count() -> None:
    assert lines(pd.Series([1.5, None], name="mass")) == ["Series mass, 2, float64, 1 missing", "0    1.5", "1    NaN"]


@pytest.mark.req("R2.3")
def test_large_frame_is_shortened_but_shows_its_true_size() -> None:
    shown_lines = lines(pd.DataFrame(np.zeros((10_000, 300))))
    assert shown_lines[0] == "DataFrame, 10000 x 300"
    assert shown_lines[1].startswith("columns: 0 (float64), 1 (float64), ") and shown_lines[1].endswith(" and 260 more")
    assert len(shown_lines) < 100 and len("\n".join(shown_lines)) < 20_000
    assert any(line.startswith("9999") for line in shown_lines)
    assert len(lines(pd.Series(range(10_000)))) < 100


def test_cells_and_names_are_shortened_to_a_line() -> None:
    shown_lines = lines(pd.DataFrame({"name\n" * 100: ["long " * 1000], "b": ["two\nlines"]}))
    assert len("\n".join(shown_lines)) < 2_000 and len(shown_lines) == 4
    assert shown_lines[1].startswith("columns: name name ") and "... (str), b (str)" in shown_lines[1]


def test_empty_frame_is_shown_as_empty() -> None:
    assert lines(pd.DataFrame())[0] == "DataFrame, 0 x 0"
    assert lines(pd.DataFrame({"a": []}, dtype="int64"))[:2] == ["DataFrame, 0 x 1", "columns: a (int64)"]


def test_unusual_frames_are_shown(subtests: pytest.Subtests) -> None:
    cases = {
        "same names": pd.DataFrame([[1, 2]], columns=["a", "a"]),
        "two levels": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])),
        "no name": pd.DataFrame({None: [1]}),
        "lists": pd.DataFrame({"a": [[1, 2], {"b": 1}]}),
        "categories": pd.DataFrame({"a": pd.Categorical(["x", None])}),
        "times": pd.DataFrame({"at": pd.to_datetime(["2026-05-04"], utc=True)}),
    }
    for name, frame in cases.items():
        with subtests.test(name):
            shown_lines = lines(frame)
            assert shown_lines[0] == f"DataFrame, {frame.shape[0]} x {frame.shape[1]}" and shown_lines[1].startswith(
                "columns: "
            )


def test_styled_frame_is_shown_as_its_frame() -> None:
    pytest.importorskip("jinja2")
    frame = pd.DataFrame({"a": [1]})
    assert lines(frame.style) == lines(frame)


def test_subclass_of_a_frame_is_shown_as_a_frame() -> None:
    class GeoDataFrame(pd.DataFrame):
        pass

    assert lines(GeoDataFrame({"a": [1]}))[0] == "DataFrame, 1 x 1"


def test_missing_values_are_counted_only_in_small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentnb.tools.data_frames.MAX_COUNTED", 1)
    assert lines(pd.DataFrame({"a": [None, 1.0]}))[1] == "columns: a (float64)"
    assert lines(pd.Series([None, 1.0]))[0] == "Series, 2, float64"


def test_other_values_are_not_frames(subtests: pytest.Subtests) -> None:
    for value in ["DataFrame", 1, None, [1], np.zeros(3), object()]:
        with subtests.test(value=value):
            assert frame_text(value) is None


def polars_like(columns: dict[str, list[Any]]) -> Any:
    """The parts of a polars frame that are read here; polars is not a dependency."""

    class DataFrame:
        __module__ = "polars.dataframe.frame"

        def __init__(self, data: dict[str, list[Any]]) -> None:
            self.data = data
            self.columns = list(data)
            self.width = len(data)
            self.schema = {name: type(values[0]).__name__ for name, values in data.items()}

        def __len__(self) -> int:
            return len(next(iter(self.data.values()), []))

        @property
        def shape(self) -> tuple[int, int]:
            return len(self), self.width

        def null_count(self) -> Any:
            return DataFrame({name: [values.count(None)] for name, values in self.data.items()})

        def row(self, number: int) -> tuple[Any, ...]:
            return tuple(values[number] for values in self.data.values())

        def rows(self) -> list[tuple[Any, ...]]:
            return [self.row(number) for number in range(len(self))]

        def head(self, count: int) -> Any:
            return DataFrame({name: values[:count] for name, values in self.data.items()})

        def tail(self, count: int) -> Any:
            return DataFrame({name: values[-count:] for name, values in self.data.items()})

        def select(self, names: list[str]) -> Any:
            return DataFrame({name: self.data[name] for name in names})

    return DataFrame(columns)


def test_polars_frame_is_shown_like_a_pandas_frame(snapshot: Snapshot) -> None:
    assert lines(polars_like({"name": ["a", "bc"], "mass": [1.5, None]})) == snapshot


def test_large_polars_frame_is_shortened() -> None:
    shown_lines = lines(polars_like({f"c{number}": list(range(500)) for number in range(60)}))
    assert shown_lines[0] == "DataFrame, 500 x 60" and shown_lines[1].endswith(" and 20 more")
    assert len(shown_lines) == 2 + 1 + 15 + 1 + 15
    assert shown_lines[2].split() == [f"c{number}" for number in range(20)] and set(shown_lines[18].split()) == {"..."}
    assert shown_lines[-1].split()[0] == "499"


def table(value: Any) -> Table:
    """Return the table of a frame after a round trip through a log."""
    displayed = frame_table(value)
    assert displayed is not None
    assert msgspec.json.decode(msgspec.json.encode(displayed), type=Table) == displayed
    return displayed


def test_frame_becomes_a_table_of_plain_values() -> None:
    frame = pd.DataFrame({"species": ["Adelie", None], "mass": [3750.0, np.nan], "year": [2007, 2008], "ok": [True, False]})
    assert table(frame) == Table(
        columns=("species", "mass", "year", "ok"),
        rows=((0, "Adelie", 3750.0, 2007, True), (1, None, None, 2008, False)),
        row_count=2,
        column_count=4,
        index=("",),
    )


def test_table_keeps_all_index_levels_with_names() -> None:
    frame = pd.DataFrame({"island": ["B", "D"], "species": ["x", "y"], "mass": [1, 2]}).set_index(["island", "species"])
    displayed = table(frame)
    assert displayed.index == ("island", "species") and displayed.columns == ("mass",) and displayed.column_count == 1
    assert displayed.rows == (("B", "x", 1), ("D", "y", 2))


def test_series_becomes_a_table_of_one_column() -> None:
    displayed = table(pd.Series([1.5, 2.0], index=["a", "b"], name="mass"))
    assert (displayed.columns, displayed.rows, displayed.row_count) == (("mass",), (("a", 1.5), ("b", 2.0)), 2)
    assert table(pd.Series([1])).columns == ("",)


def test_table_of_a_large_frame_has_first_and_last_rows() -> None:
    displayed = table(pd.DataFrame(np.arange(3_000_000).reshape(10_000, 300)))
    assert (displayed.row_count, displayed.column_count, displayed.gap) == (10_000, 300, 15)
    assert displayed.columns == tuple(map(str, range(20)))
    assert [row[0] for row in displayed.rows] == [*range(15), *range(9_985, 10_000)]
    assert {len(row) for row in displayed.rows} == {21}
    assert table(pd.DataFrame({"a": range(30)})).gap == 0


def test_table_cells_and_names_are_short_and_on_one_line() -> None:
    displayed = table(pd.DataFrame({"name\n" * 100: ["long\n" * 10_000], "b": [list(range(1_000))]}))
    assert max(len(str(cell)) for cell in displayed.rows[0]) == 100
    assert max(map(len, displayed.columns)) == 40
    assert "\n" not in repr(displayed)


def test_table_values_are_json_values(subtests: pytest.Subtests) -> None:
    cases = {
        "integers with gaps": (pd.array([1, None], dtype="Int64"), [1, None]),
        "categories": (pd.Categorical(["x", None]), ["x", None]),
        "days": (pd.to_datetime(["2026-05-04", None]), ["2026-05-04", None]),
        "times": (pd.to_datetime(["2026-05-04 12:30", "2026-05-05 00:00"]), ["2026-05-04 12:30:00", "2026-05-05 00:00:00"]),
        "endless": (np.array([np.inf, -np.inf, 1]), ["inf", "-inf", 1.0]),
        "large": (np.array([2**60, 2]), [str(2**60), 2]),
        "huge": ([10**400, 1], ["1" + "0" * 96 + "...", 1]),
        "numpy": ([np.int8(3), np.float32(0.5)], [3, 0.5]),
        "objects": ([np.True_, {"a": 1}], ["True", "{'a': 1}"]),
        "half characters": (["\ud800", "ü"], ["\ufffd", "ü"]),
    }
    for name, (values, cells) in cases.items():
        with subtests.test(name):
            displayed = table(pd.DataFrame({"a": pd.Series(values, dtype=object if isinstance(values, list) else None)}))
            assert [row[1] for row in displayed.rows] == cells
            assert [type(row[1]) for row in displayed.rows] == [type(cell) for cell in cells]


def test_unusual_frames_become_tables() -> None:
    assert table(pd.DataFrame([[1, 2]], columns=["a", "a"])).columns == ("a", "a")
    assert table(pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "x")]))).columns == ("a / x",)
    assert table(pd.DataFrame()).rows == () and table(pd.DataFrame({"a": []})).columns == ("a",)


def test_styled_frame_becomes_the_table_of_its_frame() -> None:
    pytest.importorskip("jinja2")
    frame = pd.DataFrame({"a": [1]})
    assert table(frame.style) == table(frame)


def test_polars_frame_is_a_table_without_an_index() -> None:
    displayed = table(polars_like({"name": ["a", "bc"], "mass": [1.5, None]}))
    assert displayed == Table(("name", "mass"), (("a", 1.5), ("bc", None)), 2, 2)
    long = table(polars_like({f"c{number}": list(range(500)) for number in range(60)}))
    assert (long.row_count, long.column_count, len(long.rows), long.gap, len(long.columns)) == (500, 60, 30, 15, 20)
    assert [long.rows[14][0], long.rows[15][0]] == [14, 485]


def test_other_values_are_not_tables(subtests: pytest.Subtests) -> None:
    for value in ["DataFrame", 1, None, [1], np.zeros(3), object()]:
        with subtests.test(value=value):
            assert frame_table(value) is None
