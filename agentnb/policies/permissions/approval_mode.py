"""Modes: which calls need the person's permission where no rule decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agentnb.advice import AnyAdvice, AskInstead, Plain
from agentnb.core.run.approvals import ASK, AUTO, MODES, NEVER, READ_ONLY, RULES
from agentnb.errors import SettingsError, suggest_names
from agentnb.policies.permissions.permission_rules import RuleVerdict
from agentnb.tools.subject import CallNature
from agentnb.tools.tool import Tool

SETTING = "approve"
"""Key of the mode in the settings of a run."""


@dataclass(frozen=True, slots=True)
class ApprovalMode:
    """The mode of a run, combined with those of its parents. Without a mode, the rules and their defaults decide."""

    held: tuple[str, ...] = ()
    """The combined modes, in the order of `MODES`; ``auto`` is never combined."""

    @classmethod
    def of(cls, words: str) -> ApprovalMode:
        """Parse a mode, or several as logged. Raises `SettingsError`, with the known modes, for unknown ones."""
        if words == RULES:
            return NO_MODE
        parts = words.split("+") if isinstance(words, str) else [words]
        for word in parts:
            if word not in MODES:
                advice = Plain(f"Use one of {', '.join(MODES)}")
                raise SettingsError(f"There is no mode {word!r}", (*suggest_names(str(word), MODES), advice))
        implied = {ASK} if READ_ONLY in parts else set()  # it denies whatever ASK would ask about
        implied |= {AUTO} if set(parts) != {AUTO} else set()
        return cls(tuple([word for word in MODES if word in parts and word not in implied]))

    @classmethod
    def from_log(cls, words: Any) -> ApprovalMode:
        """Parse a logged mode; an invalid one becomes ``ask``."""
        try:
            return cls.of(words)
        except (SettingsError, TypeError):
            return cls((ASK,))

    @property
    def words(self) -> str:
        """The mode as logged: a word, or several joined by ``+``."""
        return "+".join(self.held) or RULES

    @property
    def is_auto(self) -> bool:
        """True if calls run without asking where only the defaults would ask."""
        return AUTO in self.held

    @property
    def never_asks(self) -> bool:
        """True if calls that need a question are denied."""
        return NEVER in self.held

    @property
    def only_reads(self) -> bool:
        """True if tools that do more than read are denied."""
        return READ_ONLY in self.held

    @property
    def strict(self) -> ApprovalMode:
        """The mode without ``auto``: the part of a logged mode that still counts when the log is resumed."""
        return NO_MODE if self.is_auto else self

    def within(self, outer: ApprovalMode) -> ApprovalMode:
        """Return the mode of a run with this mode, nested in a run with the other: the restrictions of both apply."""
        strict = [word for word in (*self.held, *outer.held) if word != AUTO]
        if strict:
            return ApprovalMode.of("+".join(strict))
        return outer if not self.held or self.is_auto else self

    def default(self, tool: Tool, nature: CallNature | None = None) -> RuleVerdict:
        """Return the verdict on a call to this tool that no rule matches. ``nature``: nature of the call, if any.

        Functions of the notebook without declared effects run unless the mode restricts them: they belong to the person.
        """
        effects = declared_effects(tool)
        if nature == "reads" or (nature is None and effects is not None and set(effects) <= {"read"}):
            return "allow"
        if self.only_reads:
            return "deny"
        if ASK in self.held:
            return "ask"
        return "allow" if self.is_auto or effects is None or nature == "contained" else "ask"


NO_MODE = ApprovalMode()
"""Mode of runs without an explicit one."""


def advice_on_denial(tool: Tool) -> tuple[AnyAdvice, ...]:
    """Return the advice about a tool denied by ``read_only``: declare its effects, or ask instead."""
    ask = AskInstead(lead="To be asked about it instead")
    declare = Plain('If it only reads, declare that: @tool(effects=["read"])')
    return (declare, ask) if declared_effects(tool) is None else (ask,)


def declared_effects(tool: Tool) -> Iterable[str] | None:
    """Return the declared effects of a tool, or None if undeclared."""
    return getattr(tool, "effects", None)  # any class may be a tool
