"""The permission gate of a run: allows a call, asks the person about it, or denies it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from agentnb.core.log.work_events import GrantGiven
from agentnb.core.messages import ToolCall
from agentnb.core.questions import ToolOrigin
from agentnb.core.run.approvals import ASKED_BY_RULES, READ_ONLY
from agentnb.detect.run import Run
from agentnb.policies.gates.gate_verdicts import Ask, AskByRules, AskEachTime, AskUnsettled, Deny, FirmAsk
from agentnb.policies.permissions.approval_mode import declared_effects
from agentnb.policies.permissions.file_rules import hidden_files
from agentnb.policies.permissions.matching import CallSubject, RuleMatcher
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.policies.permissions.run_permissions import NOT_ALLOWED, Judgement, Permissions, ToolPermissions
from agentnb.tools.mcp.mcp_server import PREFIX
from agentnb.tools.subject import has_changed, kind_of_subject, origin_of
from agentnb.tools.tool import Tool

MAX_SHOWN = 300
"""Maximum number of characters of a command or an address in a question."""
FORBIDDEN = "permissions"
"""Rule name of calls denied by one of the person's rules."""
EFFECTS_IN_WORDS = {
    "read": "read files or data",
    "write": "change files or data",
    "execute": "run programs",
    "network": "use the network",
}
Confirms: TypeAlias = Callable[[Sequence[str]], Iterable[Rule]]
"""Returns the calls that any of these contexts asks about each time."""


def confirms_nothing(contexts: Sequence[str]) -> Iterable[Rule]:
    """Return no rules, for a run without contexts."""
    return ()


class PermissionGate:
    """Judges each call by the permissions of a run.

    Tools added by agentnb, such as the todo tool and ``ask_person``, have no effects or only read.
    """

    def __init__(self, permissions: Permissions, work_dir: Path, confirms: Confirms = confirms_nothing) -> None:
        """``work_dir``: folder to which path patterns are relative; ``confirms``: see `Confirms`."""
        self._given = self._permissions = permissions
        self._confirms = confirms
        self._contexts: tuple[str, ...] | None = None
        """Contexts for which the permissions were computed."""
        self._work_dir = work_dir
        self._tools: dict[str, ToolPermissions] = {}

    def __call__(self, tool: Tool | None, call: ToolCall, run: Run) -> Ask | Deny | None:
        """Return a question, a denial, or None if a call of this tool may run."""
        if tool is None:  # the model gets the error for an unknown tool
            return None
        if run.contexts != self._contexts:
            self._contexts, self._tools = run.contexts, {}
            self._permissions = self._given.confirming(self._confirms(run.contexts))
        cached = self._tools.get(call.name)
        if cached is None or cached.tool is not tool:
            cached = self._tools[call.name] = self._permissions.for_tool(call.name, tool, self._work_dir)
        if cached.is_free:
            return None
        judged = cached.judge(call.arguments, lambda: _granted_rules(call.name, tool, run))
        if judged.verdict == "deny":
            return _denial(judged, tool)
        asks_each_time = judged.is_unclear or judged.is_confirmed
        is_own_rule = judged.rule is not None
        may_be_granted = not (asks_each_time or judged.unsettled)
        if judged.verdict == "allow" or (may_be_granted and self._is_granted(call, tool, run, is_own_rule=is_own_rule)):
            return None
        is_firm = is_own_rule or self._permissions.is_nested or has_changed(tool)
        ask = AskEachTime if asks_each_time else AskUnsettled if judged.unsettled else FirmAsk if is_firm else AskByRules
        return ask(f"May the tool {call.name!r} run? {_why(judged, tool)}", ASKED_BY_RULES)

    def hidden_files(self) -> re.Pattern[str] | None:
        """Return the pattern of absolute paths that tools skip when they read folder trees, or None."""
        return hidden_files(self._permissions.layers, self._permissions.confirms, self._work_dir)

    def _is_granted(self, call: ToolCall, tool: Tool, run: Run, *, is_own_rule: bool) -> bool:
        """True if the person has allowed such calls; ``is_own_rule``: True if a rule asks about the call.

        A grant for a single call does not lift a rule.
        """
        return any(
            is_allowed_by(grant.rule or grant.tool, call, tool, self._work_dir)
            for grant in run.grants
            if counts_for(grant, tool) and (not grant.arguments or (not is_own_rule and _has_arguments(call, grant.arguments)))
        )


def _granted_rules(name: str, tool: Tool, run: Run) -> list[Rule]:
    """Return the pattern rules that the person has always allowed for this tool."""
    grants = [grant.rule for grant in run.grants if grant.rule and not grant.arguments and counts_for(grant, tool)]
    return [rule for rule in (Rule.read(text, "allow") for text in grants) if rule.pattern and rule.is_about(name, tool)]


def _has_arguments(call: ToolCall, arguments: str) -> bool:
    """True if the call has exactly these arguments, written as JSON with sorted keys."""
    try:
        return msgspec.json.encode(call.arguments, order="sorted").decode() == arguments
    except (TypeError, ValueError, RecursionError):  # not JSON: a call made by a tool
        return False


def counts_for(grant: GrantGiven, tool: Tool) -> bool:
    """True if a grant applies to this tool as it is, and to its MCP server as configured.

    A grant that names neither applies like a rule: while both are unchanged since their first use. A grant for all tools of a
    server applies to the tool that was asked about, in its version at that time, and to other, unchanged tools.
    """
    origin = origin_of(tool)
    if origin is None or not grant.server_identity:
        return not grant.server_identity and not has_changed(tool)
    if grant.server_identity != origin.server_identity:
        return False
    is_of_server = grant.rule.startswith(PREFIX)
    return grant.tool_identity == origin.tool_identity or (is_of_server and "tool" not in origin.changed)


def is_allowed_by(rule_text: str, call: ToolCall, tool: Tool, work_dir: Path) -> bool:
    """True if an allowing rule matches this call."""
    rule = Rule.read(rule_text, "allow")
    if not rule.is_about(call.name, tool):
        return False
    matcher = RuleMatcher.of([(0, rule)], kind_of_subject(tool), work_dir)
    return matcher.first_allowing(CallSubject(tool, call.arguments, work_dir).reading, work_dir) is not None


def _denial(judged: Judgement, tool: Tool) -> Deny:
    if judged.flag is not None:
        return Deny(NOT_ALLOWED[judged.flag], FORBIDDEN)
    if judged.is_confirmed:
        return Deny(f"it needs the person's approval, which this run does not ask for ({_rule_text(judged)})", FORBIDDEN)
    if judged.rule is not None:
        return Deny(f"the rule {judged.rule.text} of this run denies it", FORBIDDEN)
    return Deny(f"this run only allows tools that read (approve={READ_ONLY}). {_about(judged, tool)}", READ_ONLY)


def _why(judged: Judgement, tool: Tool) -> str:
    """Return the reason for a question."""
    if judged.is_unclear:
        return f"Calls that the rule {_rule_text(judged)} might deny need your approval."
    if judged.unsettled:
        others = _truncate(", ".join(judged.unsettled))
        return f"The rule {_rule_text(judged)} denies commands, so programs that may start others need your approval: {others}."
    origin = origin_of(tool)
    asks = (
        f"The context asks about {_rule_text(judged)} each time."
        if judged.is_confirmed
        else f"The rule {_rule_text(judged)} says to ask."
    )
    rule = [asks] if judged.rule is not None else []
    description = [_about(judged, tool, ", so agentnb asks")] if origin is not None or not rule else []
    return "\n".join([*rule, *description, *(() if origin is None else _changes(origin))])


def _changes(origin: ToolOrigin) -> Iterator[str]:
    """Yield the changes of an MCP tool since its first use."""
    if "server" in origin.changed:
        before = f" It was first seen as: {_truncate(origin.target_before)}." if origin.target_before else ""
        yield f"The command or address of this server has changed.{before}"
    if "tool" in origin.changed:
        yield "The server's description of this tool has changed since it was first seen."
    if origin.changed:
        yield "Rules that allow it apply to the earlier version only."


def _truncate(target: str) -> str:
    return target if len(target) <= MAX_SHOWN else f"{target[:MAX_SHOWN]}…"


def _rule_text(judged: Judgement) -> str:
    return "" if judged.rule is None else judged.rule.text


def _about(judged: Judgement, tool: Tool, then: str = "") -> str:
    if judged.nature == "sensitive":
        return "The file name suggests that it contains keys."
    effects, origin = declared_effects(tool), origin_of(tool)
    if origin is not None:
        return f"It is a tool of the MCP server {origin.server} ({_truncate(origin.target)})."
    if effects is None:
        return f"It is not known whether this tool only reads{then}."
    if effects == {"write"} and kind_of_subject(tool) == "path":
        return "It changes a file."
    return f"It may {' and '.join(words for effect, words in EFFECTS_IN_WORDS.items() if effect in effects)}."
