"""File rules, applied where no call names the path: to undo, and to tools that read folder trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentnb.policies.permissions.matching import Reading, RuleMatcher
from agentnb.policies.permissions.path_rules import path_glob, resolved_path
from agentnb.policies.permissions.permission_rules import Rule, RuleList
from agentnb.tools.subject import READ_TOOL, WRITE_TOOL, Flag

_FLAGS: dict[str, Flag] = {READ_TOOL: "file_read", WRITE_TOOL: "file_write"}


def denied_write(layers: Iterable[RuleList], path: Path, work_dir: Path) -> str:
    """Return the rule or flag that denies `WRITE_TOOL` for a file, or "" if the write is allowed or the person can be asked."""
    flag = _FLAGS[WRITE_TOOL]
    for layer in layers:
        if layer.flags is not None and flag not in layer.flags:
            return flag
        denies = [rule for rule in layer.rules if rule.verdict == "deny" and _is_about(rule, WRITE_TOOL)]
        matcher = RuleMatcher.of(enumerate(denies), "path", work_dir)
        real = resolved_path(str(path), work_dir)
        first = matcher.first(Reading(() if real is None else (str(real),)))
        if first is not None:
            return denies[first].text
    return ""


def hidden_files(layers: Sequence[RuleList], confirms: Iterable[Rule], work_dir: Path) -> re.Pattern[str] | None:
    """Return a pattern of absolute paths that path rules deny or ask about for `READ_TOOL`, or None if there are no such
    rules.
    """
    asks = [rule for rule in confirms if rule.pattern and rule.may_be_about(READ_TOOL, None)]
    globs = [path_glob(rule.pattern, work_dir, with_inside=True) for rule in asks]
    for depth, layer in enumerate(layers):
        allowed: list[str] = []
        for rule in [rule for rule in layer.rules if _is_about(rule, READ_TOOL)]:
            glob = path_glob(rule.pattern, work_dir, with_inside=rule.verdict != "allow") if rule.pattern else ".*"
            if rule.verdict == "allow" and depth == 0:
                allowed.append(glob)
            elif rule.verdict != "allow" and rule.pattern:
                before = allowed if rule.verdict == "ask" else ()
                globs.append("".join(f"(?!{pattern}\\Z)" for pattern in before) + glob)
    return re.compile("|".join(f"(?:{glob})" for glob in globs), re.DOTALL) if globs else None


def _is_about(rule: Rule, tool: str) -> bool:
    return rule.is_about(tool, None) or rule.tools == _FLAGS[tool]
