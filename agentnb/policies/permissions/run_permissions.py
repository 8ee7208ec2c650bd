"""Permissions of a run: its mode, its rules, and those of its parents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.commands.command_patterns import command_pattern, covers
from agentnb.core.run.approvals import RULES
from agentnb.errors import SettingsError
from agentnb.policies.permissions.approval_mode import NO_MODE, ApprovalMode
from agentnb.policies.permissions.approval_mode import SETTING as MODE
from agentnb.policies.permissions.matching import NO_MATCHER, CallSubject, RuleMatcher, matchers_of
from agentnb.policies.permissions.path_rules import unknown_parts
from agentnb.policies.permissions.permission_rules import NO_RULES, Rule, RuleList, RuleVerdict
from agentnb.tools.subject import CallNature, Flag, depends_on_call, flag_of, has_changed, kind_of_subject, nature_of
from agentnb.tools.tool import Tool

SETTING = "permissions"
"""Key of the rules in the settings of a run."""
CONFIRM = "confirm"
"""Key of the calls confirmed each time."""
NOT_ALLOWED: dict[Flag, str] = {
    "bash": "bash execution not allowed",
    "file_read": "file read not allowed",
    "file_write": "file write not allowed",
    "git": "git operations not allowed",
    "github": "github operations not allowed",
    "network": "network operations not allowed",
}
"""Messages for the model about a missing permission, by flag."""


class Judgement(NamedTuple):
    """The permissions' verdict on a call."""

    verdict: RuleVerdict
    rule: Rule | None = None
    """Deciding rule, or None for a default."""
    flag: Flag | None = None
    """Flag that is not permitted."""
    is_unclear: bool = False
    """True if a rule may forbid the call: only the person can then allow it, this one time."""
    nature: CallNature | None = None
    """Nature of the call, if a default depends on it."""
    is_confirmed: bool = False
    """True if the person is asked each time, regardless of earlier grants."""
    unsettled: tuple[str, ...] = ()
    """Parts of a command that are neither known to be harmless nor allowed, where the rule forbids other commands."""


ALLOWED, BY_DEFAULT_ASKED, BY_DEFAULT_DENIED = Judgement("allow"), Judgement("ask"), Judgement("deny")
_DEFAULTS = {judgement.verdict: judgement for judgement in (ALLOWED, BY_DEFAULT_ASKED, BY_DEFAULT_DENIED)}


@dataclass(frozen=True, slots=True)
class Permissions:
    """Permissions of a run."""

    mode: ApprovalMode = NO_MODE
    layers: tuple[RuleList, ...] = ()
    """Rules of the outermost run and of each run nested in it, in this order; only those of the outermost run can allow
    calls."""
    is_nested: bool = field(default=False, compare=False)
    confirms: tuple[Rule, ...] = ()
    """Calls confirmed each time, regardless of grants; a mode that never asks denies them."""

    @classmethod
    def of(cls, mode: ApprovalMode, rules: RuleList = NO_RULES) -> Permissions:
        """Return the permissions with this mode and these rules."""
        return cls(mode, (rules,) if rules else ())

    @property
    def needs_nothing(self) -> bool:
        """True if the defaults alone decide."""
        return not (self.mode.held or any(self.layers) or self.confirms)

    @classmethod
    def from_log(cls, settings: Mapping[str, Any], *, loosens: bool) -> Permissions:
        """Return the permissions in the settings of a log. ``loosens``: also honour what they allow."""
        mode, layers = ApprovalMode.from_log(settings.get(MODE, RULES)), settings.get(SETTING, ())
        read = tuple(map(RuleList.from_log, layers if isinstance(layers, list | tuple) else (None,)))
        confirms = _logged_confirms(settings.get(CONFIRM))
        if loosens:
            return cls(mode, read, confirms=confirms)
        return cls(mode.strict, tuple([layer.without_allowing for layer in read]), confirms=confirms)

    @property
    def as_logged(self) -> dict[str, Any]:
        """Settings that describe these permissions in a log; empty if the defaults alone decide."""
        mode = {MODE: self.mode.words} if self.mode.held else {}
        confirms = {CONFIRM: [rule.text for rule in self.confirms]} if self.confirms else {}
        return {**mode, **({SETTING: [layer.as_logged for layer in self.layers]} if any(self.layers) else {}), **confirms}

    @property
    def loosen(self) -> bool:
        """True if calls may run without asking where the defaults would ask."""
        return self.mode.is_auto or bool(self.layers and self.layers[0].allows)

    def within(self, outer: Permissions) -> Permissions:
        """Return the permissions of a nested run, which never exceed those of its parent."""
        layers = (*(outer.layers or (NO_RULES,)), *self.layers) if self.layers else outer.layers
        confirms = self.confirming(outer.confirms).confirms
        return Permissions(self.mode.within(outer.mode), layers, is_nested=True, confirms=confirms)

    def confirming(self, more: Iterable[Rule]) -> Permissions:
        """Return the permissions with more calls to confirm each time."""
        added = tuple(more)
        return replace(self, confirms=tuple(dict.fromkeys((*self.confirms, *added)))) if added else self

    def for_tool(self, name: str, tool: Tool, work_dir: Path) -> ToolPermissions:
        """Return the permissions for calls to a tool."""
        return ToolPermissions(self, name, tool, work_dir)


class ToolPermissions:
    """Permissions of a run for calls to a tool."""

    # Most runs have no rules.
    _confirms = _denies = _inner_asks = _allows = _asks = NO_MATCHER

    def __init__(self, permissions: Permissions, name: str, tool: Tool, work_dir: Path) -> None:
        self.tool = tool
        self._work_dir = work_dir
        if permissions.layers or permissions.confirms:
            self._read_rules(permissions, name)
        self._denial = self._unconditional(permissions.layers, flag_of(tool))
        self._mode, self._is_per_call = permissions.mode, depends_on_call(tool)
        default = permissions.mode.default(tool)
        self._default = _DEFAULTS[default]
        if default == "deny" and self._denial is None and not self._is_per_call:
            self._denial = BY_DEFAULT_DENIED
        has_rules = bool(self._denies or self._confirms or self._inner_asks or self._allows or self._asks)
        self.is_free = self._denial is None and default == "allow" and not has_rules and not self._is_per_call
        """True if all calls to the tool are allowed."""

    def _read_rules(self, permissions: Permissions, name: str) -> None:
        tool, work_dir = self.tool, self._work_dir
        kind = kind_of_subject(tool)
        layers = [[rule for rule in layer.rules if rule.holds_for(name, tool)] for layer in permissions.layers]
        confirms = [rule for rule in permissions.confirms if rule.may_be_about(name, tool)]
        for rule in [*confirms, *[rule for layer in layers for rule in layer]]:
            rule.check_for(name, tool)
        self._confirms = RuleMatcher.of(enumerate(confirms), kind, work_dir)
        denies = [rule for layer in layers for rule in layer if rule.verdict == "deny"]
        self._denies = RuleMatcher.of(enumerate(denies), kind, work_dir)
        _, self._inner_asks = matchers_of([rule for layer in layers[1:] for rule in layer], kind, work_dir)
        self._allows, self._asks = matchers_of([rule for layer in layers[:1] for rule in layer], kind, work_dir)

    def judge(self, arguments: Any, granted: Callable[[], Iterable[Rule]] = tuple) -> Judgement:
        """Return the verdict on a call with these arguments, before grants are applied.

        ``granted`` returns the rules that the person has always allowed; they count only for parts of commands.
        """
        if self._denial is not None:
            return self._denial
        default = self._default_of(arguments) if self._is_per_call else self._default
        if default.verdict == "deny":
            return default
        subject = CallSubject(self.tool, arguments, self._work_dir)
        if self._denies:
            denied = self._denies.first(subject.reading)
            if denied is not None:
                return Judgement("deny", self._denies.rules[denied])
            possible = self._denies.first_possible(subject.reading)
            if possible is not None:
                return Judgement("ask", self._denies.rules[possible], is_unclear=True)
        limited = self._confirmation(subject) or _first_question(self._inner_asks, subject)
        return limited or self._question_of_unknown(subject, granted) or self._first_of(subject) or default

    def _question_of_unknown(self, subject: CallSubject, granted: Callable[[], Iterable[Rule]]) -> Judgement | None:
        """Return the question about a command not known to be harmless, while a rule forbids commands of the tool."""
        command = subject.reading.command
        if command is None or not self._denies:
            return None
        parts = unknown_parts(command, self._work_dir)
        if not parts:
            return None
        rules = () if has_changed(self.tool) else (*self._allows.rules, *granted())
        patterns = [rule.pattern for rule in rules if rule.pattern and command_pattern(rule.pattern).names_program]
        remaining = [
            part
            for part in parts
            if not any(covers(pattern, starter) for starter in part.with_starters for pattern in patterns)
        ]
        if not remaining:
            return None
        return Judgement(
            "ask",
            self._denies.rules[0],
            unsettled=tuple(dict.fromkeys(part.text for part in remaining if part.starter not in remaining)),
        )

    def _confirmation(self, subject: CallSubject) -> Judgement | None:
        """Return the verdict on a call that the person confirms each time, or None for other calls."""
        asked = _first_question(self._confirms, subject)
        if asked is None:
            return None
        is_denied = self._mode.never_asks or self._mode.only_reads
        return asked._replace(verdict="deny" if is_denied else "ask", is_confirmed=True)

    def _default_of(self, arguments: Any) -> Judgement:
        """Return the mode's verdict on a call whose nature depends on its arguments."""
        nature = nature_of(self.tool, arguments, self._work_dir)
        return Judgement(self._mode.default(self.tool, nature), nature=nature)

    def _first_of(self, subject: CallSubject) -> Judgement | None:
        """Return the verdict of the first matching rule that asks or allows, or None.

        No rule allows calls of an MCP tool that has changed since its first use.
        """
        has_allows = self._allows and not has_changed(self.tool)
        allowed = self._allows.first_allowing(subject.reading, self._work_dir) if has_allows else None
        if allowed is None:
            return _first_question(self._asks, subject)
        return _first_question(self._asks, subject, before=self._allows.places[allowed]) or ALLOWED

    def _unconditional(self, layers: Iterable[RuleList], flag: Flag | None) -> Judgement | None:
        """Return the denial of all calls, or None."""
        if flag is not None and any(layer.flags is not None and flag not in layer.flags for layer in layers):
            return Judgement("deny", flag=flag)
        for_all = self._denies.for_all
        return None if for_all is None else Judgement("deny", self._denies.rules[for_all])


def _confirm_rules(texts: Iterable[Any]) -> tuple[Rule, ...]:
    """Parse the rules of calls confirmed each time. Raises `SettingsError` for an invalid rule."""
    return tuple([Rule.read(text, "ask") for text in texts])


def _logged_confirms(data: Any) -> tuple[Rule, ...]:
    """Return the logged calls confirmed each time, or all calls if the log is invalid."""
    try:
        return _confirm_rules([] if data is None else data if isinstance(data, list) else [data])
    except SettingsError:
        return _confirm_rules(["*"])


def _first_question(asks: RuleMatcher, subject: CallSubject, before: float = inf) -> Judgement | None:
    """Return the question of the first rule that matches or may match, or None. ``before``: last position to consider."""
    if not asks or asks.places[0] > before:
        return None
    matched, possible = asks.first(subject.reading), asks.first_possible(subject.reading)
    first = min((index for index in (matched, possible) if index is not None), default=None)
    if first is None or asks.places[first] > before:
        return None
    return Judgement("ask", asks.rules[first if matched is None else matched])
