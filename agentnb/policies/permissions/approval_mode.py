"""Approval modes: how much of what a run does needs the person's permission where no rule says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agentnb.advice import AnyAdvice, AskInstead, Plain
from agentnb.core.run.approvals import ASK, AUTO, MODES, NEVER, READ_ONLY, RULES
from agentnb.errors import SettingsError, near
from agentnb.policies.permissions.rules import RuleVerdict
from agentnb.tools.subject import CallNature
from agentnb.tools.tool import Tool

SETTING = "approve"
"""The key under which the settings of a run hold its mode, if it has one."""


@dataclass(frozen=True, slots=True)
class ApprovalMode:
    """The mode of a run: its own word and those of the runs around it. Without one, the rules and their defaults decide."""

    held: tuple[str, ...] = ()
    """In the order of `MODES`; ``auto`` stands alone."""

    @classmethod
    def of(cls, words: str) -> ApprovalMode:
        """Return the mode of a word, or of several as a log has them; raise `SettingsError`, with the modes, for others."""
        if words == RULES:
            return NO_MODE
        parts = words.split("+") if isinstance(words, str) else [words]
        for word in parts:
            if word not in MODES:
                advice = Plain(f"Modes are {', '.join(MODES)}")
                raise SettingsError(f"There is no approval mode {word!r}", (*near(str(word), MODES), advice))
        implied = {ASK} if READ_ONLY in parts else set()  # what it would ask about is denied
        implied |= {AUTO} if set(parts) != {AUTO} else set()
        return cls(tuple([word for word in MODES if word in parts and word not in implied]))

    @classmethod
    def logged(cls, words: Any) -> ApprovalMode:
        """Return the mode that a log has; ``ask`` for what is none."""
        try:
            return cls.of(words)
        except (SettingsError, TypeError):
            return cls((ASK,))

    @property
    def words(self) -> str:
        """The mode as a log has it: a word, or several joined with ``+``."""
        return "+".join(self.held) or RULES

    @property
    def is_auto(self) -> bool:
        """Whether what only the defaults would ask about runs."""
        return AUTO in self.held

    @property
    def never_asks(self) -> bool:
        """Whether what would be asked about is denied."""
        return NEVER in self.held

    @property
    def only_reads(self) -> bool:
        """Whether calls of tools that do more than read are denied."""
        return READ_ONLY in self.held

    @property
    def strict(self) -> ApprovalMode:
        """The mode without ``auto``: what a log may still say when it is resumed."""
        return NO_MODE if self.is_auto else self

    def within(self, outer: ApprovalMode) -> ApprovalMode:
        """Return the mode of a run with this mode that is nested in a run with another: what either forbids is forbidden."""
        strict = [word for word in (*self.held, *outer.held) if word != AUTO]
        if strict:
            return ApprovalMode.of("+".join(strict))
        return outer if not self.held or self.is_auto else self

    def default(self, tool: Tool, nature: CallNature | None = None) -> RuleVerdict:
        """Return the verdict about a call of this tool that no rule is about. ``nature``: that of the call, if it has one.

        Functions of the notebook that declare nothing run unless the mode holds them up: they are the person's own.
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
"""The mode of runs that were given none."""


def advice_on_denial(tool: Tool) -> tuple[AnyAdvice, ...]:
    """Return what a person can do about a tool that ``read_only`` denies: declare what it does, or be asked."""
    ask = AskInstead(lead="To be asked about it instead")
    declare = Plain('If it only reads, say so: @tool(effects=["read"])')
    return (declare, ask) if declared_effects(tool) is None else (ask,)


def declared_effects(tool: Tool) -> Iterable[str] | None:
    """Return the effects that a tool declares; None if it declares none."""
    return getattr(tool, "effects", None)  # anybody's class may be a tool
