"""Rules about a tool, prepared for matching against many calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.commands.command_patterns import command_glob, command_pattern, covers, forbids
from agentnb.commands.shell_command import Part, ShellCommand, shell_command
from agentnb.policies.permissions.path_rules import address_glob, canonical_address, parts_to_allow, path_glob, real_path
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.tools.subject import SubjectKind, kind_of_subject, reads_tree, value_of_subject
from agentnb.tools.tool import Tool


class Reading(NamedTuple):
    """Subject of a call in the form that patterns match."""

    texts: Collection[str] = ()
    is_whole: bool = True
    """True if the texts cover everything that the call can mean."""
    command: ShellCommand | None = None


UNKNOWN = Reading(is_whole=False)


class CallSubject:
    """Subject of a call for rules, parsed on first use."""

    __slots__ = ("_is_of_tree", "_kind", "_reading", "_text", "work_dir")

    def __init__(self, tool: Tool, arguments: Any, work_dir: Path) -> None:
        self._kind, self._is_of_tree = kind_of_subject(tool), reads_tree(tool)
        self._text = value_of_subject(tool, arguments)
        self.work_dir = work_dir
        self._reading: Reading | None = None

    @property
    def reading(self) -> Reading:
        """The parsed subject."""
        if self._reading is None:
            self._reading = self._read()
        return self._reading

    def _read(self) -> Reading:
        if self._kind is None:
            return Reading()
        if self._text is None:
            return UNKNOWN
        if self._kind == "command":
            command = shell_command(self._text)
            return Reading(command.texts, not command.problem, command)
        text = canonical_address(self._text) if self._kind == "url" else real_path(self._text, str(self.work_dir))
        return UNKNOWN if text is None else Reading((text,), is_whole=not self._is_of_tree)


@dataclass(frozen=True, slots=True)
class RuleMatcher:
    """Rules about one tool that share a verdict, in order."""

    rules: tuple[Rule, ...]
    places: tuple[int, ...]
    """Position of each rule among all rules of any verdict."""
    patterns: re.Pattern[str]
    """All patterns joined, each with an empty group at its end that identifies it."""
    for_all: int | None
    """Index of the first rule without a pattern."""
    by_program: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Indices of command patterns by program name; "" holds the patterns without one."""

    @classmethod
    def of(cls, placed: Iterable[tuple[int, Rule]], kind: SubjectKind | None, work_dir: Path) -> RuleMatcher:
        """Return the matcher of rules with their positions. Rules after one without a pattern never decide."""
        pairs = list(placed)
        if not pairs:  # the usual case
            return NO_MATCHER
        places, rules = zip(*pairs, strict=True)
        for_all = next((index for index, rule in enumerate(rules) if not rule.pattern), None)
        joined = "|".join(f"(?:{_glob_of(rule, kind, work_dir)})()" for rule in rules[:for_all])
        by_program = defaultdict[str, list[int]](list)
        for index, rule in enumerate(rules[:for_all] if kind == "command" else ()):
            by_program[command_pattern(rule.pattern).program].append(index)
        return cls(rules, places, re.compile(joined or NEVER, re.DOTALL), for_all, by_program)

    def first(self, reading: Reading) -> int | None:
        """Return the index of the first rule that certainly limits the call."""
        indices = [
            match.lastindex - 1 for text in reading.texts if (match := self.patterns.fullmatch(text)) and match.lastindex
        ]
        indices += [index for index, is_about in self._judge_programs(reading) if is_about]
        return min(indices) if indices else self.for_all

    def first_possible(self, reading: Reading) -> int | None:
        """Return the index of the first rule that may limit the call, because the call's full meaning cannot be determined."""
        if not self.rules or not reading.is_whole:
            return 0 if self.rules else None
        return min((index for index, is_about in self._judge_programs(reading) if is_about is None), default=None)

    def first_allowing(self, reading: Reading, work_dir: Path) -> int | None:
        """Return the index of the first rule that allows the call; for a command list, the last one that its parts need."""
        command = reading.command
        if command is None:
            return self.first(reading)
        if command.problem or not command.is_list or not command.listed:
            return self.for_all
        needed = [self.first_covering(part) for part in parts_to_allow(command, work_dir)]
        indices = [index for index in needed if index is not None]
        return max(indices) if len(indices) == len(needed) else self.for_all

    def first_covering(self, part: Part) -> int | None:
        """Return the index of the first rule whose pattern allows a part of a command, or None."""
        match = self.patterns.fullmatch(part.text)
        if match is None or not match.lastindex:
            return None
        candidates = range(match.lastindex - 1, len(self.rules) if self.for_all is None else self.for_all)
        return next((index for index in candidates if covers(self.rules[index].pattern, part)), None)

    def _judge_programs(self, reading: Reading) -> Iterator[tuple[int, bool | None]]:
        """Yield the index of each pattern that names no program, or one in the command, with its verdict on the part."""
        for part in () if reading.command is None or not self.by_program else reading.command.parts:
            for index in (*self.by_program.get(part.invocation.program, ()), *self.by_program.get("", ())):
                yield index, forbids(self.rules[index].pattern, part)

    def __bool__(self) -> bool:
        return bool(self.rules)


NEVER = r"(?!)"
"""Regular expression that never matches."""
NO_MATCHER = RuleMatcher((), (), re.compile(NEVER), None)
"""Matcher without rules."""


def matchers_of(rules: Sequence[Rule], kind: SubjectKind | None, work_dir: Path) -> tuple[RuleMatcher, RuleMatcher]:
    """Return the matchers of the allowing and of the asking rules."""
    placed = list(enumerate(rules))
    allowing = RuleMatcher.of([pair for pair in placed if pair[1].verdict == "allow"], kind, work_dir)
    return allowing, RuleMatcher.of([pair for pair in placed if pair[1].verdict == "ask"], kind, work_dir)


def _glob_of(rule: Rule, kind: SubjectKind | None, work_dir: Path) -> str:
    """Return the regular expression of a rule's pattern."""
    if kind == "command":
        return command_glob(rule.pattern)
    if kind == "path":
        return path_glob(rule.pattern, work_dir, with_inside=rule.verdict != "allow")
    return (address_glob(rule.pattern) if kind == "url" else None) or NEVER
