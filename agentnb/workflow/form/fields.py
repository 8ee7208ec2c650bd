"""Typed access to the keys of a mapping; an invalid value is reported as a problem and counts as missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agentnb.advice import Advised
from agentnb.core.schema.json_schema import check_schema
from agentnb.errors import SettingsError, suggest_names
from agentnb.workflow.form.problems import Hint, Problems
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, Node, ScalarNode, kind_of, plain, texts_in


class Fields:
    """A mapping in a file, and its label for messages, such as ``workflow step[2]``.

    A key without a value (null) counts as missing. Problems carry the line of the value.
    """

    def __init__(self, node: MappingNode, where: str, problems: Problems) -> None:
        self.node = node
        self.where = where
        self.problems = problems

    @property
    def line(self) -> int:
        """Line on which the mapping begins."""
        return self.node.line

    def __contains__(self, key: str) -> bool:
        return key in self.node.entries

    def __iter__(self) -> Any:
        return iter(self.node.entries)

    def line_of(self, key: str) -> int:
        """Return the line of the key, or that of the mapping if it lacks the key."""
        entry = self.node.entries.get(key)
        return entry.line if entry else self.line

    def add(self, at: str | int, problem: str, hint: Hint = "") -> None:
        """Report a problem at a key or line; if the mapping lacks the key, at the start of the mapping."""
        self.problems.add(self.line_of(at) if isinstance(at, str) else at, f"{self.where}: {problem}", hint)

    def refuse_unknown(self, known: Collection[str], hints: Mapping[str, str] = MappingProxyType({})) -> None:
        """Report every unknown key, with its hint or similar known keys."""
        for key, entry in self.node.entries.items():
            if key not in known:
                hint = hints.get(key) or hint_for_unknown(key, entry.value, known)
                self.add(entry.line, f'unknown key "{key}"', hint)

    def node_at(self, key: str) -> Node | None:
        """Return the node under the key, or None if it is missing or null."""
        entry = self.node.entries.get(key)
        if entry is None or (isinstance(entry.value, ScalarNode) and entry.value.value is None):
            return None
        return entry.value

    def data(self, key: str) -> Any:
        """Return the value of the key as plain data; null if the key is missing."""
        entry = self.node.entries.get(key)
        return None if entry is None else plain(entry.value)

    def text(self, key: str) -> str | None:
        """Return the text of the key; numbers and booleans are converted as written."""
        node = self.node_at(key)
        if node is None or isinstance(node, ScalarNode):
            return None if node is None else node.text
        self._refuse(key, node, "a string")
        return None

    def whole(self, key: str, least: int = 0) -> int | None:
        """Return the key's value as an integer of at least ``least``."""
        number: int | None = self._value(
            key, f"a whole number of at least {least}", lambda item: type(item) is int and item >= least
        )
        return number

    def number(self, key: str, least: float = 0, *, above: bool = False, example: str = "") -> float | None:
        """Return the key's value as a number of at least ``least``, or strictly ``above`` it; ``example``: notation shown in
        the message.
        """

        def fits(item: Any) -> bool:
            return type(item) in (int, float) and (item > least or (item == least and not above))

        value: float | None = self._value(key, f"a number {'above' if above else 'of at least'} {least:g}", fits, example)
        return value

    def flag(self, key: str) -> bool | None:
        """Return the key's value as a boolean."""
        value: bool | None = self._value(key, "true or false", lambda item: isinstance(item, bool))
        return value

    def _value(self, key: str, wanted: str, fits: Callable[[Any], bool], example: str = "") -> Any:
        """Return the value of a key if it ``fits``, or None if missing or invalid."""
        node = self.node_at(key)
        value = node.value if isinstance(node, ScalarNode) else None
        if node is None or fits(value):
            return value
        self._refuse(key, node, wanted, example)
        return None

    def choice(self, key: str, choices: Collection[str]) -> str | None:
        """Return the key's value, which must be one of these choices."""
        node = self.node_at(key)
        if node is None or (isinstance(node, ScalarNode) and node.text in choices):
            return node.text if isinstance(node, ScalarNode) else None
        self._refuse(key, node, " or ".join(choices))
        return None

    def fields(self, key: str, where: str = "", *, example: str = "") -> Fields | None:
        """Return the key's value as a mapping, labelled ``where``; by default, with this label and the key.

        ``example``: notation shown in the message about any other value.
        """
        node = self.node_at(key)
        if node is None or isinstance(node, MappingNode):
            return None if node is None else Fields(node, where or f"{self.where}: {key}", self.problems)
        self._refuse(key, node, "a mapping", example)
        return None

    def mapping(self, key: str) -> dict[str, Any] | None:
        """Return the key's value as a mapping in plain data."""
        section = self.fields(key)
        return None if section is None else {name: plain(entry.value) for name, entry in section.node.entries.items()}

    def schema(self, key: str, schema: dict[str, Any], example: str) -> dict[str, Any] | None:
        """Return the JSON Schema under a key, or None if invalid."""
        try:
            return check_schema(schema, f"{self.where}: {key}", example)
        except SettingsError as error:
            self.problems.add(self.line_of(key), error.what, error.advice)
            return None

    def items(self, key: str) -> tuple[Node, ...] | None:
        """Return the nodes of the key's list."""
        node = self.node_at(key)
        if node is None or isinstance(node, ListNode):
            return None if node is None else node.items
        self._refuse(key, node, "a list")
        return None

    def nodes(self, key: str) -> tuple[Node, ...]:
        """Return the nodes of the key's list; any other node counts as a list of one."""
        node = self.node_at(key)
        return node.items if isinstance(node, ListNode) else () if node is None else (node,)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return the texts of the key's list; a single text counts as a list of one."""
        if self.node_at(key) is None:
            return None
        nodes = self.nodes(key)
        for node in nodes:
            if not isinstance(node, ScalarNode) or node.value is None:
                self._refuse(key, node, "a string or a list of strings")
        return tuple(node.text for node in nodes if isinstance(node, ScalarNode) and node.value is not None)

    def _refuse(self, key: str, node: Node, wanted: str, example: str = "") -> None:
        hint = f"Write {example}" if example else ""
        self.add(node.line, f"{key} must be {wanted}, not {kind_of(node)}", hint)


def hint_for_unknown(key: str, value: Node, known: Collection[str]) -> Advised:
    """Return similar known keys, or advice to quote the text if the key is just what follows a comma in an unquoted text."""
    if " " in key.strip() and isinstance(value, ScalarNode) and value.value is None:
        return "Put a string with a comma in quotation marks"
    return suggest_names(key, known)


OF_WORKFLOW = ""
"""Owner of texts that belong to the workflow itself."""


@dataclass(frozen=True, slots=True)
class Use:
    """A text that may contain templates."""

    owner: str
    """Path of a step, name of an agent, or `OF_WORKFLOW`."""
    is_of_agent: bool
    key: str
    node: ScalarNode


@dataclass(slots=True)
class SourceMap:
    """Source positions of templates and keys, for error messages."""

    uses: list[Use] = field(default_factory=list)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    """Line numbers, by step path and key."""
    names: dict[str, str] = field(default_factory=dict)
    """Labels of steps in messages, such as ``workflow step[2]``, by step path."""
    unread: set[str] = field(default_factory=set)
    """Ids of steps that could not be parsed; references to them are not reported as further problems."""

    def add_use(self, owner: str, key: str, node: Node | None, *, is_of_agent: bool = False) -> None:
        """Register the texts in the value of a key."""
        for text in texts_in(node) if node is not None else ():
            self.uses.append(Use(owner, is_of_agent, key, text))

    def line(self, path: str, key: str, default: int = 0) -> int:
        """Return the line of a step's key, or that of the key's value if it is a scalar."""
        return self.lines.get((path, key), default)
