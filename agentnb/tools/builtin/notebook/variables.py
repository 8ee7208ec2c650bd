"""Variables of the notebook as text: an overview, or details by name."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from agentnb.advice import in_python
from agentnb.core.redaction import redact
from agentnb.errors import suggest_names
from agentnb.tools.builtin.notebook import tables
from agentnb.tools.builtin.notebook.kernel import Kernel
from agentnb.tools.builtin.notebook.safe_values import (
    cut,
    is_mapping,
    is_sequence,
    items_of,
    name_of_class,
    name_of_type,
    short_text,
    size_of,
    unknown_text,
)

MAX_LISTED = 200
"""Maximum number of variables in an overview."""
MAX_LINE = 600
MAX_ITEMS = 20
"""Maximum number of items shown from a container."""
MAX_VALUE = 2_000
"""Maximum number of characters of a value requested by name."""
MAX_ALL = 30_000
"""Maximum number of characters in total."""


def overview(kernel: Kernel) -> str:
    """Return one line for each of the person's variables."""
    variables = kernel.snapshot()
    names = own_names(kernel, variables)
    lines = [f"{name}: {_line(variables[name])}" for name in names[:MAX_LISTED]]
    if len(names) > MAX_LISTED:
        lines.append(f"and {len(names) - MAX_LISTED:,} more: {cut(', '.join(names[MAX_LISTED:]), MAX_VALUE)}")
    return _limit("\n".join(lines) or "The notebook has no variables yet")


def details(kernel: Kernel, names: Iterable[str]) -> tuple[str, list[str]]:
    """Return details about these variables, and the names that do not exist."""
    variables, texts, missing = kernel.snapshot(), list[str](), list[str]()
    for name in dict.fromkeys(names):
        if name in variables:
            texts.append(f"{name}: {_details(variables[name])}")
        else:
            missing.append(name)
    return _limit("\n\n".join(texts)), missing


def missing_text(kernel: Kernel, missing: Iterable[str]) -> str:
    """Return a line with suggestions for each name that does not exist."""
    own = own_names(kernel, kernel.snapshot())
    return "\n".join(f"There is no variable {name!r}. {in_python(suggest_names(name, own))}".rstrip() for name in missing)


def own_names(kernel: Kernel, variables: Mapping[str, Any]) -> list[str]:
    """Return the names of the person's variables, excluding IPython's, modules, and names with a leading underscore."""
    hidden = kernel.hidden
    mine = [name for name, value in variables.items() if type(value) is not types.ModuleType]
    return [name for name in mine if not name.startswith("_") and name not in hidden]


def _line(value: Any) -> str:
    kind = name_of_type(value)
    try:
        if tables.is_table(value):
            return cut(f"{kind}, {tables.table_line(value)}", MAX_LINE)
    except Exception:  # an unusual table, or one changed by another thread
        return _unread(value)
    if issubclass(type(value), type):
        return cut(f"class {name_of_class(value)}", MAX_LINE)
    size = size_of(value)
    length = "" if size is None else f", length {size:,}"
    return cut(f"{kind}{length}{_value_suffix(value)}", MAX_LINE)


def _value_suffix(value: Any) -> str:
    """Return the value for the overview; empty for an unknown class, since its name is already in the line."""
    try:
        text = short_text(value)
    except Exception:  # a container changed by another thread
        return ""
    return "" if text == f"<{name_of_type(value)}>" else f" = {text}"


def _details(value: Any) -> str:
    try:
        return "\n".join([_head(value), *_body(value)]).rstrip()
    except Exception:  # as above
        return _unread(value)


def _body(value: Any) -> list[str]:
    """Return the lines below the first: rows, items, docstring or text."""
    if tables.is_table(value):
        return [tables.table_head(value)]
    if is_mapping(value):
        pairs = islice(items_of(value), MAX_ITEMS)
        return [*[f"  {short_text(key, 80, 1)}: {_item(item)}" for key, item in pairs], *_more(value)]
    if is_sequence(value):
        return [*[f"  {_item(item)}" for item in islice(iter(value), MAX_ITEMS)], *_more(value)]
    if type(value) is types.FunctionType:
        doc = value.__doc__
        return [doc[:MAX_VALUE]] if type(doc) is str else []
    if type(value) is str:
        text = redact(value[: 10 * MAX_VALUE])  # before cutting: a partial key would not be recognized
        return [f"{text[:MAX_VALUE]}{'...' if len(text) > MAX_VALUE else ''}"]
    return []


def _head(value: Any) -> str:
    size = size_of(value)
    return _line(value) if size is None or type(value) is range else f"{name_of_type(value)}, length {size:,}"


def _item(value: Any) -> str:
    return _line(value) if tables.is_table(value) else short_text(value, 200, 3, 10)


def _more(value: Any) -> list[str]:
    count = size_of(value) or 0
    return [f"  ... {count - MAX_ITEMS:,} more"] if count > MAX_ITEMS else []


def _unread(value: Any) -> str:
    return f"{unknown_text(value)}, which could not be read"


def _limit(text: str) -> str:
    if len(text) <= MAX_ALL:
        return text
    return f"{text[:MAX_ALL].rpartition(chr(10))[0]}\n[the rest is left out: ask for fewer variables by name]"
