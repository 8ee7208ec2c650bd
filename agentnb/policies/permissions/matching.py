"""The rules about one tool, made ready to be matched with many calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from agentnb.policies.permissions.commands import command_glob, is_simple, parts_of
from agentnb.policies.permissions.places import address_glob, canonical_address, path_glob, resolved_path
from agentnb.policies.permissions.rules import Rule, RuleVerdict
from agentnb.tools.subject import SubjectKind


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules about one tool that follow each other and have one verdict."""

    verdict: RuleVerdict
    rules: tuple[Rule, ...]
    kind: SubjectKind | None
    patterns: re.Pattern[str] | None
    """All their patterns; None if one of them is about every call."""

    def matches(self, subject: str | None, work_dir: Path) -> bool | None:
        """Return whether one of the rules is about a call with this subject; None if that cannot be known.

        A rule that allows matches only what is known for sure.
        """
        if self.patterns is None:
            return True
        if subject is None:  # the tool refuses the arguments
            return False
        if self.kind == "command":
            return self._matches_command(subject, self.patterns)
        text = canonical_address(subject) if self.kind == "url" else resolved_path(subject, work_dir)
        return None if text is None else self.patterns.fullmatch(str(text)) is not None

    def _matches_command(self, command: str, patterns: re.Pattern[str]) -> bool | None:
        if self.verdict == "allow":
            return is_simple(command) and patterns.fullmatch(command.strip()) is not None
        parts = parts_of(command)
        if any(patterns.fullmatch(text) for text in parts.texts):
            return True
        return False if parts.is_whole else None


def groups_of(rules: Iterable[Rule], kind: SubjectKind | None, work_dir: Path) -> Sequence[RuleGroup]:
    """Return the groups of the rules about one tool, in order."""
    found: list[RuleGroup] = []
    for verdict, group in groupby(rules, key=lambda rule: rule.verdict):
        alike = tuple(group)
        is_for_all = any(not rule.pattern for rule in alike)
        globs = [] if is_for_all else [glob for rule in alike if (glob := glob_of(rule.pattern, kind, work_dir)) is not None]
        patterns = None if is_for_all else re.compile("|".join(f"(?:{glob})" for glob in globs) or r"(?!)", re.DOTALL)
        found.append(RuleGroup(verdict, alike, kind, patterns))
    return found


def glob_of(pattern: str, kind: SubjectKind | None, work_dir: Path) -> str | None:
    """Return the regular expression of a pattern; None if no subject of this kind fits it."""
    if kind == "command":
        return command_glob(pattern)
    if kind == "path":
        return path_glob(pattern, work_dir)
    return address_glob(pattern) if kind == "url" else None
