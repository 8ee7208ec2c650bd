"""Text of pandas and NumPy frames, series, indexes and arrays, recognized by identity and read by their own methods.

A frame may have columns, indexes and cells of other classes. Reading these would run their code, so only their names are shown.
The underlying arrays are checked before any method is called, and no part is sliced as a frame, which would copy ``attrs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from agentnb.tools.builtin.notebook.safe_values import cut, library, name_of_type, short_text

MAX_ROWS = 5
"""Maximum number of rows shown, from the top."""
MAX_COLUMNS = 30
"""Maximum number of columns listed, and shown with the first rows."""
MAX_CELL = 40
MAX_VALUES = 10
"""Maximum number of values shown from an array."""
FOREIGN = "not read: a column or an index has an unknown class"
_INDEXES = (
    "Index",
    "RangeIndex",
    "MultiIndex",
    "CategoricalIndex",
    "DatetimeIndex",
    "TimedeltaIndex",
    "PeriodIndex",
    "IntervalIndex",
)
_ARRAYS = ("BooleanArray", "FloatingArray", "IntegerArray", "StringArray", "ArrowStringArray", "PeriodArray", "IntervalArray")
_OF_TIMES = ("DatetimeArray", "TimedeltaArray", "NumpyExtensionArray")
_NAMED = ("CategoricalDtype", "StringDtype", "BooleanDtype")
_NUMBERS = tuple(f"{kind}{bits}Dtype" for kind in ("Int", "UInt", "Float") for bits in (8, 16, 32, 64))


def is_table(value: Any) -> bool:
    """True for a frame, series, index or array of an exact pandas or numpy class."""
    return _is_array(value) or _is_of(value, "pandas", "DataFrame", "Series", *_INDEXES)


def table_line(value: Any) -> str:
    """Describe a table on one line: shape, types, columns, and size in memory."""
    if _is_array(value):
        return f"shape {value.shape}, {_dtype_text(value.dtype)}, {_bytes(value.nbytes)}"
    arrays = _arrays(value)
    if arrays is None:
        return FOREIGN
    if _is_of(value, "pandas", "DataFrame"):
        return _frame_line(value, arrays)
    dtype = "levels" if _is_of(value, "pandas", "MultiIndex") else _dtype_text(value.dtype)
    index = value if _is_of(value, "pandas", *_INDEXES) else value._mgr.axes[-1]
    return f"length {len(index):,}, {dtype}, {_bytes(_size(arrays))}"


def table_head(value: Any) -> str:
    """Return the first rows of a table."""
    if _is_array(value):
        return f"first values: {', '.join(map(_cell, value.flat[:MAX_VALUES]))}" if value.dtype.kind in "biufcSUMmO" else ""
    if _arrays(value) is None:
        return ""
    if _is_of(value, "pandas", "Series"):
        return _rows(_labels(value._mgr.axes[0], MAX_ROWS), [("", _cells(value._mgr.internal_values(), MAX_ROWS))])
    if not _is_of(value, "pandas", "DataFrame"):
        return f"first values: {', '.join(_labels(value, MAX_VALUES))}"
    columns, index = value._mgr.axes
    names = _labels(columns, MAX_COLUMNS)
    cells = [_cells(value._mgr.iget_values(position), MAX_ROWS) for position in range(len(names))]
    return _rows(_labels(index, MAX_ROWS), list(zip(names, cells, strict=True)))


def _frame_line(frame: Any, arrays: list[Any]) -> str:
    columns, index = frame._mgr.axes
    names = _labels(columns, MAX_COLUMNS)
    types = [_dtype_text(frame._mgr.iget_values(position).dtype) for position in range(len(names))]
    named = ", ".join(f"{name} ({dtype})" for name, dtype in zip(names, types, strict=True))
    more = f" and {len(columns) - len(names):,} more" if len(columns) > len(names) else ""
    return f"{len(index):,} rows x {len(columns):,} columns, {_bytes(_size(arrays))}; columns: {named}{more}"


def _is_array(value: Any) -> bool:
    return type(value) is library("numpy").get("ndarray", ())


def _is_of(value: Any, module: str, *names: str) -> bool:
    """True if the value's class is exactly one of these."""
    kind, namespace = type(value), library(module)
    return any(kind is namespace.get(name) for name in names)


def _arrays(value: Any) -> list[Any] | None:
    """Return the arrays underlying a frame, series or index, or None if one of them has an unknown class."""
    if _is_of(value, "pandas", "MultiIndex"):
        parts = [_arrays(level) for level in value._levels]
        return None if any(part is None for part in parts) else [*value._codes]
    if _is_of(value, "pandas", "RangeIndex"):
        return []
    if _is_of(value, "pandas", *_INDEXES):
        arrays = [value._data]
    elif _is_of(value, "pandas", "DataFrame", "Series"):
        if any(_arrays(axis) is None for axis in value._mgr.axes):
            return None
        arrays = [block.values for block in value._mgr.blocks]
    else:
        return None
    return arrays if all(map(_is_known, arrays)) else None


def _is_known(array: Any) -> bool:
    """True if the array and all its parts are of NumPy or pandas classes."""
    if _is_of(array, "pandas", "Categorical"):
        return _arrays(array.dtype.categories) is not None
    return _is_array(array) or _is_of(array, "pandas.arrays", *_ARRAYS, *_OF_TIMES)


def _size(arrays: Iterable[Any]) -> int:
    return sum(array.nbytes for array in arrays)


def _dtype_text(dtype: Any) -> str:
    """Return the name of a NumPy dtype or a known pandas dtype; for any other, its class name."""
    if issubclass(type(dtype), library("numpy")["dtype"]):
        return "structured" if dtype.names is not None else str(dtype.name)
    if _is_of(dtype, "pandas", *_NAMED, *_NUMBERS):
        return str(dtype.name)
    if _is_of(dtype, "pandas", "DatetimeTZDtype"):
        return f"datetime64[{dtype.unit}] with a time zone, shown in UTC"
    return name_of_type(dtype).rpartition(".")[2]


def _cells(array: Any, most: int) -> list[str]:
    """Return the first values of an array as text."""
    if _is_of(array, "pandas.arrays", *_OF_TIMES):
        array = array._ndarray  # creating times with a zone runs the code of the zone
    return [_cell(value) for value in array[:most]]


def _cell(value: Any) -> str:
    return cut(value if type(value) is str else short_text(value, MAX_CELL, 1, 3), MAX_CELL)


def _labels(index: Any, most: int) -> list[str]:
    """Return the first labels of an index."""
    if _is_of(index, "pandas", "MultiIndex"):
        levels = [
            [_label_at(level, code) if code >= 0 else "missing" for code in codes[:most].tolist()]
            for level, codes in zip(index._levels, index._codes, strict=True)
        ]
        return [" / ".join(labels) for labels in zip(*levels, strict=True)]
    if _is_of(index, "pandas", "RangeIndex"):
        return [str(label) for label in islice(index._range, most)]
    return _cells(index._data, most)


def _label_at(level: Any, place: int) -> str:
    if _is_of(level, "pandas", "RangeIndex"):
        return str(level._range[place])
    return _cells(level._data[place : place + 1], 1)[0]


def _rows(labels: Sequence[str], columns: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Format rows as aligned lines."""
    lines = [["", *[name for name, _ in columns]]]
    lines += [[label, *[cells[position] for _, cells in columns]] for position, label in enumerate(labels)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join(line for line in shown if line)


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1_000:
            return f"{size:,.0f} {unit}"
        size /= 1_000
    return f"{size:,.1f} GB"
