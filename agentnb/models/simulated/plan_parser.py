"""Parsers for plans in text: Markdown lists whose items have calls in backticks, and the todo list in a tool result."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from agentnb.core.messages import ToolCall, encodable
from agentnb.core.request import ToolSpec
from agentnb.core.todos import normal_status

LONGEST_TITLE = 60
"""Maximum number of characters of an item used as the title of its todo."""
_HEADING = re.compile(r"^Todos \(\d+ of \d+ completed\):[ ]*$", re.MULTILINE)
_EMPTY = ("There are no todos", "There is no list")
"""Beginnings of results for an empty list."""
_AFTER_TITLE = re.compile(r"(?=: | \(blocked: )")
_LIKE_A_CALL = re.compile(r"\s*[^\W\d][\w.]*\s*\(")
_ENTRY = re.compile(r"(\d+)\. \[([^\]]*)\] (.*)")


Arguments: TypeAlias = Mapping[str, tuple[str, ...]]
"""The argument names of each tool, in order: what is needed to parse calls."""


class PlanItem(NamedTuple):
    """An item of the list: its text, and the code in backticks."""

    title: str
    code: tuple[str, ...]
    has_items: bool = False
    """True if a nested list follows."""


class Entry(NamedTuple):
    """A line of the todo list."""

    id: int
    status: str
    words: str
    """Title, description, and the reason if it is blocked."""

    @property
    def is_open(self) -> bool:
        """True unless it is completed."""
        return self.status != "completed"

    @property
    def titles(self) -> frozenset[str]:
        """Every text that could be its title: all of it, or the part before a description or a reason."""
        return _titles(self.words)

    def as_item(self) -> PlanItem:
        """Return the entry as an item of a plan, as if it came from a prompt."""
        return PlanItem(self.words, tuple(re.findall(r"`([^`]+)`", self.words)))


@lru_cache(maxsize=4096)
def _titles(words: str) -> frozenset[str]:
    return frozenset([words, *[words[: match.start()] for match in _AFTER_TITLE.finditer(words)]])


def read_listing(text: str) -> tuple[Entry, ...] | None:
    """Return the todos in a result of the todo tool, or None if it has no list."""
    if text.startswith(_EMPTY):
        return ()
    headings = list(_HEADING.finditer(text))
    if not headings:
        return None
    entries = []  # below the last heading: text before it may quote anything
    for line in text[headings[-1].end() :].lstrip("\n").split("\n"):
        if (entry := _entry(line)) is None:
            break
        entries.append(entry)
    return tuple(entries)


@lru_cache(maxsize=4096)  # nearly all lines are unchanged since the round before
def _entry(line: str) -> Entry | None:
    match = _ENTRY.fullmatch(line)
    return None if match is None else Entry(int(match[1]), normal_status(match[2]), match[3])


def short_title(title: str) -> str:
    """Return the todo title for an item with this text."""
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 2].rstrip() + " …"


@lru_cache(maxsize=64)
def read_plan(prompt: str) -> tuple[PlanItem, ...]:
    """Return the items of all lists in the prompt, in order; an item with a nested list comes before its sub-items."""
    from markdown_it import MarkdownIt

    items: list[PlanItem] = []
    opened: list[int] = []
    for token in MarkdownIt("commonmark").parse(prompt):
        if token.type == "list_item_open":
            if opened:
                items[opened[-1]] = items[opened[-1]]._replace(has_items=True)
            opened.append(len(items))
            items.append(PlanItem("", ()))
        elif token.type == "list_item_close":
            opened.pop()
        elif token.type == "inline" and opened:
            children = token.children or []
            title = "".join(child.content or " " for child in children)
            code = tuple(child.content for child in children if child.type == "code_inline")
            before = items[opened[-1]]
            words = " ".join(f"{before.title} {title}".split())
            items[opened[-1]] = before._replace(title=words, code=before.code + code)
    return tuple(items)


def arguments_of(tools: Iterable[ToolSpec]) -> dict[str, tuple[str, ...]]:
    """Return the argument names of each tool."""
    return {tool.name: tuple(tool.input_schema.get("properties", ())) for tool in tools}


def calls_of(item: PlanItem, tools: Arguments) -> list[ToolCall]:
    """Return the tool calls of one item: Python calls of existing tools, written in backticks with literal arguments."""
    calls = (_call(code, tools) for code in item.code)
    return [call for call in calls if call is not None]


def left_out(item: PlanItem, tools: Arguments) -> list[str]:
    """Return the code of one item that names an existing tool but is not a valid call."""
    return [
        code for code in item.code if code.partition("(")[0].strip() in tools and "(" in code and _call(code, tools) is None
    ]


def unread(item: PlanItem, tools: Arguments) -> list[str]:
    """Return the skipped parts of an item: code that looks like a call but is not valid, or the entire item if it has no
    call.
    """
    bad = [code for code in item.code if _call(code, tools) is None and _LIKE_A_CALL.match(code)]
    has_more = bad or item.has_items or not item.title or calls_of(item, tools)
    return bad if has_more else [item.title]


class _Written(NamedTuple):
    """A Python call with literal arguments, as written."""

    name: str
    values: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]


def _call(code: str, tools: Arguments) -> ToolCall | None:
    written = _read_call(code)
    if written is None or written.name not in tools:
        return None
    names = tools[written.name]
    if len(written.values) > len(names):
        return None
    return ToolCall(written.name, _as_json({**dict(zip(names, written.values, strict=False)), **dict(written.named)}))


@lru_cache(maxsize=1024)  # a plan is read again in each round
def _read_call(code: str) -> _Written | None:
    """Return the call in this code, or None unless it is a call with literal arguments."""
    try:
        node = ast.parse(code.strip(), mode="eval").body
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            return None
        if any(keyword.arg is None for keyword in node.keywords):
            return None
        values = tuple([ast.literal_eval(arg) for arg in node.args])
        named = tuple([(str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in node.keywords])
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return _Written(node.func.id, values, named)


def _as_json(value: Any) -> Any:
    """Return the value in a form that JSON can hold: tuples and sets as lists, other objects as their ``repr``."""
    if isinstance(value, dict):
        return {encodable(str(key)): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_as_json(item) for item in value), key=repr)
    if isinstance(value, str):
        return encodable(value)
    return value if isinstance(value, int | float | bool | None) else repr(value)
