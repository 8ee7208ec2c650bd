"""The rules about one tool, made ready to be matched with many calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.policies.permissions.commands import command_glob, is_simple, parts_of
from agentnb.policies.permissions.places import address_glob, canonical_address, path_glob, real_path
from agentnb.policies.permissions.rules import Rule
from agentnb.tools.subject import SubjectKind, kind_of_subject, reads_tree, value_of_subject
from agentnb.tools.tool import Tool


class Reading(NamedTuple):
    """The texts of a call's subject that patterns are matched with."""

    texts: tuple[str, ...] = ()
    is_whole: bool = True
    """Whether these are all that the call can mean."""


UNKNOWN = Reading(is_whole=False)


class CallSubject:
    """The subject of one call as rules see it. Each form is made when the first rule needs it."""

    __slots__ = ("_is_of_tree", "_kind", "_limited", "_text", "_work_dir")

    def __init__(self, tool: Tool, arguments: Any, work_dir: Path) -> None:
        self._kind, self._is_of_tree = kind_of_subject(tool), reads_tree(tool)
        self._text = value_of_subject(tool, arguments)
        self._work_dir = work_dir
        self._limited: Reading | None = None

    @property
    def for_limits(self) -> Reading:
        """The reading for rules that ask or deny: of a command, each part."""
        if self._limited is None:
            self._limited = self._read()
        return self._limited

    @property
    def for_allowing(self) -> Reading:
        """The reading for rules that allow: of a command, one simple command or nothing."""
        if self._kind != "command" or self._text is None:
            return self.for_limits
        return Reading((self._text.strip(),)) if is_simple(self._text) else Reading()

    def _read(self) -> Reading:
        if self._kind is None:
            return Reading()
        if self._text is None:
            return UNKNOWN
        if self._kind == "command":
            return Reading(*parts_of(self._text))
        text = canonical_address(self._text) if self._kind == "url" else real_path(self._text, str(self._work_dir))
        return UNKNOWN if text is None else Reading((text,), is_whole=not self._is_of_tree)


@dataclass(frozen=True, slots=True)
class RuleMatcher:
    """Rules about one tool that have one verdict, in their order."""

    rules: tuple[Rule, ...]
    places: tuple[int, ...]
    """The place of each in the order of all rules, whatever their verdict."""
    patterns: re.Pattern[str]
    """All their patterns, each with an empty group at its end that numbers it."""
    for_all: int | None
    """The index of the first rule that is about every call."""

    @classmethod
    def of(cls, placed: Iterable[tuple[int, Rule]], kind: SubjectKind | None, work_dir: Path) -> RuleMatcher:
        """Return the matcher of rules with their places. Rules after one that is about every call never decide."""
        given = list(placed)
        for_all = next((index for index, (_, rule) in enumerate(given) if not rule.pattern), None)
        globs = [_glob_of(rule, kind, work_dir) for _, rule in given[:for_all]]
        joined = "|".join(f"(?:{glob})()" for glob in globs)
        places, rules = tuple([place for place, _ in given]), tuple([rule for _, rule in given])
        return cls(rules, places, re.compile(joined or NEVER, re.DOTALL), for_all)

    def first(self, reading: Reading) -> int | None:
        """Return the index of the first rule that matches one of the texts."""
        found = [match.lastindex - 1 for text in reading.texts if (match := self.patterns.fullmatch(text)) and match.lastindex]
        return min(found) if found else self.for_all

    def __bool__(self) -> bool:
        return bool(self.rules)


NEVER = r"(?!)"
"""The regular expression that matches nothing."""


def matchers_of(rules: Sequence[Rule], kind: SubjectKind | None, work_dir: Path) -> tuple[RuleMatcher, RuleMatcher]:
    """Return the matchers of those of the rules that allow, and of those that ask."""
    placed = list(enumerate(rules))
    allowing = RuleMatcher.of([one for one in placed if one[1].verdict == "allow"], kind, work_dir)
    return allowing, RuleMatcher.of([one for one in placed if one[1].verdict == "ask"], kind, work_dir)


def _glob_of(rule: Rule, kind: SubjectKind | None, work_dir: Path) -> str:
    """Return the regular expression of the pattern of a rule."""
    if kind == "command":
        return command_glob(rule.pattern)
    if kind == "path":
        return path_glob(rule.pattern, work_dir, with_inside=rule.verdict != "allow")
    return (address_glob(rule.pattern) if kind == "url" else None) or NEVER
