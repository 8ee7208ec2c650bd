"""Rules about tool calls, as written by a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, get_args

from agentnb.advice import Plain
from agentnb.commands.command_patterns import why_refused
from agentnb.core.questions import rule_parts
from agentnb.errors import SettingsError, suggest_names
from agentnb.policies.permissions.path_rules import address_glob
from agentnb.tools.mcp.mcp_server import PREFIX
from agentnb.tools.mcp.wire_names import WILDCARDS, may_mean
from agentnb.tools.subject import FLAGS, Flag, file_tools_of, flag_of, origin_of, subject_of
from agentnb.tools.tool import Effect, Tool

RuleVerdict: TypeAlias = Literal["allow", "ask", "deny"]
VERDICTS: tuple[RuleVerdict, ...] = get_args(RuleVerdict)
RESTRICTED = "restricted"
"""Word that permits only reading files."""
EXAMPLE = 'Write a dict, such as {"bash": "ask", "write_file(data/**)": "allow"}, or a list of permitted flags, ["file_read"]'
ONE_RULE = "Write the name of a tool, with a pattern in brackets for some of its calls: bash, write_file(data/**)"
EFFECTS: tuple[Effect, ...] = get_args(Effect)
EFFECT = "effect:"
"""Prefix of words for tools by effect: ``effect:read`` for tools that only read, ``effect:write`` for those that write, etc."""
_OF_SERVER = rf"{PREFIX}[\w.-]+(?:/[^*()]+)?|[\w.-]+/[^\s*()]+|mcp_[^\s()]+"
_TOOLS = re.compile(rf"{_OF_SERVER}|{EFFECT}\w+|[\w*?\[\]-]+")
NAMES_ALONE: tuple[Flag, ...] = ("bash",)
"""Flags that are also tool names: in a rule, such a word means the tool."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A verdict on all calls to a tool, or on those that a pattern matches."""

    verdict: RuleVerdict
    tools: str
    """A tool name, a shell pattern of names, a flag, ``effect:read`` for tools that only read, ``effect:write`` for tools that
    write, ``mcp:NAME`` for the tools of an MCP server, or ``mcp:NAME/TOOL``."""
    pattern: str = ""
    """Pattern of the subject of the call, as in `tools.subject`; empty for all calls."""
    is_checked: bool = field(default=False, compare=False, repr=False)
    """True if the word is known to be valid, or comes from a log."""

    @classmethod
    def read(cls, text: Any, verdict: Any) -> Rule:
        """Parse a rule such as ``bash(git status*)``. Raises `SettingsError` for an invalid one."""
        if verdict not in VERDICTS:
            raise SettingsError(f"{verdict!r} is not a verdict for {text!r}", suggest_names(str(verdict), VERDICTS))
        tools, pattern = rule_parts(text.strip()) if isinstance(text, str) else ("", "")
        if _TOOLS.fullmatch(tools) is None:
            raise SettingsError(f"Invalid permission rule: {text!r}", ONE_RULE)
        effect = tools.removeprefix(EFFECT)
        if tools != effect and effect not in EFFECTS:
            raise SettingsError(f"{text!r}: there is no effect {effect!r}", suggest_names(effect, EFFECTS))
        if pattern and WILDCARDS & set(tools):
            raise SettingsError(f"{text!r}: brackets need the name of a single tool", ONE_RULE)
        return cls(verdict, tools, pattern)

    @property
    def text(self) -> str:
        """The rule as written, without its verdict."""
        return f"{self.tools}({self.pattern})" if self.pattern else self.tools

    @property
    def is_pattern(self) -> bool:
        """True if the tools are a shell pattern."""
        return bool(WILDCARDS & set(self.tools))

    @property
    def is_of_server(self) -> bool:
        """True if the tools are identified by an MCP server rather than by name."""
        return self.tools.startswith(PREFIX)

    def is_about(self, name: str, tool: Tool | None) -> bool:
        """True if the rule applies to calls to this tool.

        Asking and denying rules match MCP tools in every spelling, allowing rules only by name or as ``mcp:``.
        """
        origin = origin_of(tool)
        if self.tools == name:
            return True
        if origin is not None and self.verdict != "allow" and may_mean(self.tools, name, origin.server, origin.tool):
            return True
        if self.is_of_server:
            return origin is not None and self.tools in (f"{PREFIX}{origin.server}", f"{PREFIX}{origin.server}/{origin.tool}")
        if self.tools.startswith(EFFECT):
            effect, effects = self.tools.removeprefix(EFFECT), getattr(tool, "effects", None) or ()
            return effect in effects and (effect != "read" or len(effects) == 1)
        if self.is_pattern:
            return fnmatchcase(name, self.tools)
        return self.tools not in NAMES_ALONE and tool is not None and self.tools == flag_of(tool)

    def holds_for(self, name: str, tool: Tool | None) -> bool:
        """True if the rule decides about calls to this tool. Asking and denying file rules also apply to other tools.

        An allowing file rule applies only to its own tool.
        """
        about_files = self.verdict != "allow" and self.pattern and self.tools in file_tools_of(tool)
        return bool(about_files) or self.is_about(name, tool)

    def may_be_about(self, name: str, tool: Tool | None) -> bool:
        """True if the rule applies to calls to this tool, even in a different letter case, or by its name on the MCP server."""
        if self.holds_for(name, tool):
            return True
        origin = origin_of(tool)
        names = (name,) if origin is None else (name, origin.tool)
        return any(fnmatchcase(alias.casefold(), self.tools.casefold()) for alias in names)

    def check_for(self, name: str, tool: Tool | None) -> None:
        """Raise `SettingsError` if the brackets are invalid for this tool."""
        if not self.pattern or not self.is_about(name, tool):
            return
        subject = subject_of(tool)
        if subject is None:
            declare = 'Declare what the brackets match: @tool(path="file"), @tool(command="line"), @tool(url="address")'
            raise SettingsError(f"The rule {self.text!r} has brackets, but {name} has no command, path or address", declare)
        instead = why_refused(self.pattern) if subject.kind == "command" and self.verdict != "allow" else ""
        if instead:
            problem = f"The rule {self.text!r} contains options of a program unknown to agentnb"
            raise SettingsError(problem, Plain(f"Write only the program: {name}({instead})"))
        if subject.kind == "url" and address_glob(self.pattern) is None:
            problem = f"The rule {self.text!r} has no valid address"
            raise SettingsError(problem, Plain(f"Write the full prefix: {name}(https://docs.python.org/**)"))


@dataclass(frozen=True, slots=True)
class RuleList:
    """Rules of an agent or run, in order, and the permitted flags."""

    rules: tuple[Rule, ...] = ()
    flags: frozenset[Flag] | None = None
    """Permitted flags, or None for all."""

    @classmethod
    def of(cls, given: Any) -> RuleList:
        """Parse ``permissions=``: flags, rules with verdicts, or ``restricted``.

        Raises `SettingsError` for an invalid value.
        """
        if isinstance(given, RuleList):
            return given
        if given is None:
            return NO_RULES
        if given == RESTRICTED:
            return cls(flags=frozenset({"file_read"}))
        if isinstance(given, Mapping):
            return cls(tuple([Rule.read(text, verdict) for text, verdict in given.items()]))
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise SettingsError(f"permissions={given!r} is neither rules nor flags", EXAMPLE)
        flags = list(given)
        for flag in flags:
            if flag not in FLAGS:
                raise SettingsError(f"There is no flag {flag!r}", suggest_names(str(flag), FLAGS))
        return cls(flags=frozenset(flags))

    def __bool__(self) -> bool:
        return bool(self.rules) or self.flags is not None

    @classmethod
    def parse_typed(cls, texts: Iterable[str]) -> RuleList:
        """Parse rules typed as ``RULE=VERDICT``. Raises `SettingsError` for any other text."""
        rules = []
        for text in texts:
            rule, equals, verdict = text.rpartition("=")
            if not equals:
                raise SettingsError(f"{text!r} is not a rule with a verdict", 'Write "bash(git status *)=allow"')
            rules.append(Rule.read(rule, verdict.strip()))
        return cls(tuple(rules))

    @classmethod
    def from_log(cls, data: Any) -> RuleList:
        """Parse rules from `as_logged`. Invalid data forbids every flag."""
        try:
            flags = data.get("flags")
            rules = tuple([Rule.read(text, verdict) for text, verdict in data.get("rules", ())])
            return cls(rules, None if flags is None else frozenset(flag for flag in FLAGS if flag in flags)).as_checked
        except (SettingsError, AttributeError, TypeError, ValueError):
            return cls(flags=frozenset())

    @property
    def as_checked(self) -> RuleList:
        """The rules marked as checked."""
        return replace(self, rules=tuple([replace(rule, is_checked=True) for rule in self.rules]))

    @property
    def as_logged(self) -> dict[str, Any]:
        """The rules as plain data for a log."""
        flags = {} if self.flags is None else {"flags": [flag for flag in FLAGS if flag in self.flags]}
        return {**flags, "rules": [[rule.text, rule.verdict] for rule in self.rules]}

    def then(self, other: RuleList) -> RuleList:
        """Return these rules followed by others: a flag must be permitted by both."""
        if not self or not other:
            return self or other
        flags = other.flags if self.flags is None else self.flags if other.flags is None else self.flags & other.flags
        return RuleList((*self.rules, *other.rules), flags)

    @property
    def allows(self) -> bool:
        """True if a rule allows calls."""
        return any(rule.verdict == "allow" for rule in self.rules)

    @property
    def without_allowing(self) -> RuleList:
        """The rules without allowing ones: the part of logged rules that still counts when the log is resumed."""
        return RuleList(tuple([rule for rule in self.rules if rule.verdict != "allow"]), self.flags)


NO_RULES = RuleList()
