"""Rules of approval: an ordered list that allows tool calls, has them asked about, or denies them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from agentnb.core.run.approvals import ASK, AUTO, NEVER, READ_ONLY
from agentnb.tools.tool import Tool

RuleVerdict: TypeAlias = Literal["allow", "ask", "deny"]
Flag: TypeAlias = Literal["", "reads", "asked"]
"""Calls that a rule is about: of tools that declare to do nothing but read; those that a gate asks about; all."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a list, of which the first that fits a call decides."""

    verdict: RuleVerdict
    tools: str = "*"
    """The name of a tool, or a pattern of names."""
    flag: Flag = ""

    def fits(self, name: str, tool: Tool | None, *, is_asked: bool) -> bool:
        """Return whether it is about a call of this tool. ``is_asked``: a gate asks about the call."""
        if (self.flag == "asked") != is_asked or not (self.tools in ("*", name) or fnmatchcase(name, self.tools)):
            return False
        return self.flag != "reads" or (tool is not None and may_only_read(tool))


PRESETS: Mapping[str, Sequence[Rule]] = {
    AUTO: (),
    ASK: (Rule("allow", flag="reads"), Rule("ask")),
    NEVER: (Rule("deny", flag="asked"),),
    READ_ONLY: (Rule("allow", flag="reads"), Rule("deny")),
}
"""The rules of each approval mode."""


def verdict_of(rules: Iterable[Rule], name: str, tool: Tool | None = None, *, is_asked: bool = False) -> RuleVerdict:
    """Return the verdict of the first rule that fits; a call that none fits is allowed."""
    return next((rule.verdict for rule in rules if rule.fits(name, tool, is_asked=is_asked)), "allow")


def may_only_read(tool: Tool) -> bool:
    """Return whether a tool declares that it does nothing to the world but read it."""
    effects = declared_effects(tool)
    return effects is not None and set(effects) <= {"read"}


def declared_effects(tool: Tool) -> Iterable[str] | None:
    """Return the effects that a tool declares; None if it declares none."""
    return getattr(tool, "effects", None)  # anybody's class may be a tool
