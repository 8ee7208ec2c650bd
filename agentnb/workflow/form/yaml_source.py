"""Hand-written YAML as nodes with line numbers.

Supports YAML 1.2 with the values of JSON (its "core schema"): ``true`` and ``false`` are booleans; ``on``, ``yes``
and dates are texts. All keys are texts except ``<<``, which merges the keys of other mappings. Tags are refused,
aliases are limited, and a duplicate key is a problem, because one of its values would be silently lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from io import StringIO
from typing import Any, NamedTuple, NoReturn, TypeAlias

import msgspec

from agentnb.workflow.form.problems import Problems

MAX_CHARACTERS = 1_000_000
"""Maximum characters of a text: enough for twenty thousand steps, which take seconds to parse."""
MAX_LEVELS = 64
"""Maximum nesting of lists and mappings."""
MAX_NODES = 500_000
"""Maximum number of values, including values repeated by aliases."""
MAX_REPEATED_CHARACTERS = 4_000_000
"""Maximum characters of texts repeated by aliases."""
LARGEST = 2**63
"""Exclusive bound for integers, so that every program that reads a log can represent them."""

_MISPLACED = re.compile(r"expected <block end>, but found '(?:<block|\?|-)")
QUOTE = 'Put a string that contains ": ", " #", "{", "%" or "*" in quotes'
_VALUE = re.compile(r":[ \t]+[^ \t#|>&]")
"""A key with its value on the same line."""
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

MERGE = "<<"
"""Unquoted key that merges mappings."""
IGNORED = "x-"
"""Prefix of user-defined top-level keys, such as those that hold anchors."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A scalar value; it has no children, so it needs no garbage collection."""

    line: int
    value: str | int | float | bool | None
    """A string, integer, float, boolean or null."""
    text: str
    """The value as written, without quotes."""
    is_literal: bool = False
    """True for a ``|`` block, whose lines are those of the file."""

    def line_of(self, place: int) -> int:
        """Return the line in the file for a position in the text; for folded or quoted text, the line on which it starts."""
        return self.line + 1 + self.text.count("\n", 0, place) if self.is_literal else self.line


class ListNode(msgspec.Struct, frozen=True):
    """A list."""

    line: int
    items: tuple[Node, ...]


class Entry(NamedTuple):
    """Line and value of a key."""

    line: int
    """Line of the key."""
    value: Node


class MappingNode(msgspec.Struct, frozen=True):
    """A mapping with text keys."""

    line: int
    entries: dict[str, Entry]


Node: TypeAlias = ScalarNode | ListNode | MappingNode


def read_yaml(text: str, problems: Problems) -> Node | None:
    """Return the single YAML document in a text, or None if it cannot be parsed; report its problems."""
    if len(text) > MAX_CHARACTERS:
        problems.add(1, f"The text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read")
        return None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    builder = _Builder(problems)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except _GivenUp:
        return None
    except ReaderError as error:
        point = error.character if isinstance(error.character, int) else ord(error.character)
        problems.add(text.count("\n", 0, error.position) + 1, f"Text cannot contain the character U+{point:04X}")
        return None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark else 1
        hint = "Indent with spaces" if "\\t" in problem else _indentation(text, line, problem) or QUOTE
        problems.add(line, f"This is not YAML: {problem}", hint)
        return None
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        problems.add(1, f"This is not YAML: {type(error).__name__}: {error}")
        return None
    if builder.document is None:
        problems.add(1, "The text is empty")
    return builder.document


def _indentation(text: str, line: int, problem: str) -> str:
    """Return a hint about the indentation of a line, if that is the problem; otherwise an empty string.

    The problem: a key or item is indented differently from its siblings, or is under a line that already has a value.
    """
    if _MISPLACED.search(problem):
        return f"Indent line {line} like the keys or items that it belongs to"
    lines = text.splitlines()[:line]
    before = next((number for number in range(line - 1, 0, -1) if lines[number - 1].strip()), 0)
    if not before or line > len(lines) or not _VALUE.search(lines[before - 1]):
        return ""
    deep, deeper = (len(row) - len(row.lstrip(" -")) for row in (lines[before - 1], lines[line - 1]))
    return f"Line {line} is indented deeper than line {before}" if deeper > deep else ""


def plain(node: Node) -> Any:
    """Convert the node to JSON-compatible data."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    return {key: plain(entry.value) for key, entry in node.entries.items()}


def texts_in(node: Node) -> Iterator[ScalarNode]:
    """Yield the texts in the node in order, excluding keys."""
    if isinstance(node, ScalarNode):
        if isinstance(node.value, str):
            yield node
    else:
        for item in _inside(node):
            yield from texts_in(item)


def read_mapping(text: str, problems: Problems, label: str, hint: str) -> MappingNode | None:
    """Parse a text as a mapping, leaving out its `IGNORED` keys; report a problem and return None for anything else.

    ``label``: the file's name in the message.
    """
    node = read_yaml(text, problems)
    if node is None:
        return None
    if isinstance(node, MappingNode):
        entries = {key: entry for key, entry in node.entries.items() if not key.startswith(IGNORED)}
        return MappingNode(node.line, entries)
    problems.add(node.line, f"{label} must be a mapping, not {kind_of(node)}", hint)
    return None


def kind_of(node: Node) -> str:
    """Describe the node for a message."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, ListNode):
        return "a list"
    return "nothing" if node.value is None else f'"{shorten(node.text)}"'


def shorten(text: str, most: int = 60) -> str:
    """Return the start of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."


class _GivenUp(Exception):
    """Raised to stop parsing."""


def _inside(node: ListNode | MappingNode) -> Iterable[Node]:
    return node.items if isinstance(node, ListNode) else (entry.value for entry in node.entries.values())


def _measure(node: Node) -> tuple[int, int, int]:
    """Return the number of values, including the node itself, the depth in levels, and the number of characters."""
    if isinstance(node, ScalarNode):
        return 1, 0, len(node.text)
    sizes, heights, characters = zip((0, 0, 0), *map(_measure, _inside(node)), strict=True)
    return 1 + sum(sizes), 1 + max(heights), sum(characters)


class _Open:
    """A list or mapping that has not been closed yet."""

    def __init__(self, event: Any, is_mapping: bool) -> None:
        self.line: int = event.start_mark.line + 1
        self.anchor: str | None = event.anchor
        self.is_mapping = is_mapping
        self.items: list[Node] = []
        self.entries: dict[str, Entry] = {}
        self.key: tuple[str | None, int] | None = None
        """Latest key and its line; the key of a merge is None."""
        self.merged: dict[str, Entry] = {}
        """Entries of mappings merged with ``<<``."""

    def close(self) -> Node:
        return MappingNode(self.line, self.merged | self.entries) if self.is_mapping else ListNode(self.line, tuple(self.items))


class _Builder:
    """Builds nodes from parser events without recursion."""

    def __init__(self, problems: Problems) -> None:
        self.document: Node | None = None
        self._problems = problems
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._size = 0
        self._repeated_characters = 0
        self._documents = 0
        self._merges = False
        """True if the latest event is an unquoted ``<<``; as a key, it merges mappings."""

    def take(self, event: Any) -> None:
        kind, line = type(event).__name__, event.start_mark.line + 1
        self._merges = kind == "ScalarEvent" and event.style is None and event.value == MERGE
        if getattr(event, "tag", None) is not None:
            self._problems.add(line, f"The tag {event.tag} is not supported", "Remove it, and put strings in quotes")
        if kind == "ScalarEvent":
            text = self._join_surrogates(event.value, line)
            value = text if event.style is not None or event.tag is not None else self._value(text, line)
            self._place(ScalarNode(line, value, text, event.style == "|"), line, event.anchor)
        elif kind in {"MappingStartEvent", "SequenceStartEvent"}:
            self._open.append(_Open(event, kind == "MappingStartEvent"))
            self._check_depth(line, 0)
        elif kind in {"MappingEndEvent", "SequenceEndEvent"}:
            done = self._open.pop()
            self._place(done.close(), done.line, done.anchor)
        elif kind == "AliasEvent":
            self._place(self._resolve_alias(event.anchor, line), line, None)
        elif kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                self._give_up(line, "A second document begins here", "Remove the ---, or use a separate file")

    def _place(self, node: Node, line: int, anchor: str | None) -> None:
        self._size += 1
        if self._size > MAX_NODES:
            self._give_up(line, f"The text has more than {MAX_NODES:,} values", "Repeat less with aliases")
        if anchor is not None:
            self._anchors[anchor] = node
        into = self._open[-1] if self._open else None
        if into is None:
            self.document = node
        elif not into.is_mapping:
            into.items.append(node)
        elif into.key is None:
            into.key = (None if self._merges else self._key(node), line)
        else:
            (key, key_line), into.key = into.key, None
            if key is None:
                self._merge(node, key_line, into)
            elif key in into.entries:
                first = into.entries[key].line
                self._problems.add(
                    key_line, f'The key "{shorten(key)}" appears twice, first in line {first}', "Keep one of them"
                )
            else:
                into.entries[key] = Entry(key_line, node)

    def _merge(self, node: Node, line: int, into: _Open) -> None:
        """Merge the mappings under ``<<``; earlier mappings take precedence."""
        for mapping in node.items if isinstance(node, ListNode) else (node,):
            if not isinstance(mapping, MappingNode):
                self._problems.add(
                    line, f"<< merges mappings, not {kind_of(mapping)}", 'Put a key of this name in quotes: "<<"'
                )
                continue
            for key, entry in mapping.entries.items():
                into.merged.setdefault(key, entry)

    def _key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            is_template = isinstance(node, MappingNode)  # two braces without quotation marks
            hint = 'Put "{{ ... }}" into quotation marks' if is_template else "Write a string before the colon"
            self._problems.add(node.line, f"A key cannot be {kind_of(node)}", hint)
            return f"({node.line})"
        return str(node.value).lower() if isinstance(node.value, bool) else node.text

    def _resolve_alias(self, anchor: str, line: int) -> Node:
        node = self._anchors.get(anchor)
        if node is None:
            inside = any(container.anchor == anchor for container in self._open)
            problem = "refers to a value that contains it" if inside else "refers to no earlier anchor"
            hint = "Write out the value" if inside else f'For a string, write "*{anchor}" in quotes'
            self._give_up(line, f"*{anchor} {problem}", hint)
        size, height, characters = _measure(node)
        self._check_depth(line, height)
        self._size += size - 1
        self._repeated_characters += characters
        if self._repeated_characters > MAX_REPEATED_CHARACTERS:
            self._give_up(line, f"Aliases repeat more than {MAX_REPEATED_CHARACTERS:,} characters", "Repeat less")
        return node

    def _check_depth(self, line: int, more: int) -> None:
        if len(self._open) + more > MAX_LEVELS:
            self._give_up(line, f"Lists and mappings are nested deeper than {MAX_LEVELS} levels", "Reduce the nesting")

    def _join_surrogates(self, text: str, line: int) -> str:
        """Combine surrogate pairs, as JSON escapes them, into single characters."""
        if text.isascii() or not _SURROGATE.search(text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._problems.add(line, "A string contains half of a surrogate pair", "Write the complete character")
            return _SURROGATE.sub("\ufffd", text)

    def _value(self, text: str, line: int) -> str | int | float | bool | None:
        if text in _NULL:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if not (_WHOLE.fullmatch(text) or _FLOAT.fullmatch(text)):
            return text
        number = _number(text)
        if number is None:
            self._problems.add(
                line, f"The number {shorten(text, 30)} is too large, or not finite", "Put it in quotes, as a string"
            )
        return number

    def _give_up(self, line: int, message: str, hint: str) -> NoReturn:
        self._problems.add(line, message, hint)
        raise _GivenUp


def _number(text: str) -> int | float | None:
    """Return the number, or None if JSON or some of its readers cannot represent it."""
    if _WHOLE.fullmatch(text):
        is_short = len(text) < 25  # Python refuses to parse very long numbers
        number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if is_short else LARGEST
        return number if abs(number) < LARGEST else None
    value = math.inf if text.lower().endswith(("inf", "nan")) else float(text)
    return value if math.isfinite(value) else None


def as_yaml_text(data: Any) -> str:
    """Return the data as YAML, keeping the order of keys."""
    from ruamel.yaml import YAML

    written: Any = StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.allow_unicode, yaml.sort_base_mapping_type_on_output = False, True, False
    yaml.representer.yaml_representers = {**yaml.representer.yaml_representers, str: _represent_text}
    yaml.dump(data, written)
    return str(written.getvalue())


def _represent_text(representer: Any, text: str) -> Any:
    """Represent a text; if it has a line break that YAML would fold to a space, it is quoted with escapes."""
    style = '"' if any(character in text for character in "\x85\u2028\u2029") else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)
