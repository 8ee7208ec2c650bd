"""Rules about files, for changes that no tool call makes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agentnb.policies.permissions.matching import Reading, RuleMatcher
from agentnb.policies.permissions.places import resolved_path
from agentnb.policies.permissions.rules import Rule, RuleList
from agentnb.tools.subject import Flag

WRITE_TOOL = "write_file"
_FLAG: Flag = "file_write"


def denied_write(layers: Iterable[RuleList], path: Path, work_dir: Path) -> str:
    """Return the rule, or the flag, by which `WRITE_TOOL` may not write a file; empty if it may be asked for, or may."""
    for layer in layers:
        if layer.flags is not None and _FLAG not in layer.flags:
            return _FLAG
        denies = [rule for rule in layer.rules if rule.verdict == "deny" and _is_about_writing(rule)]
        matcher = RuleMatcher.of(enumerate(denies), "path", work_dir)
        real = resolved_path(str(path), work_dir)
        first = matcher.first(Reading(() if real is None else (str(real),)))
        if first is not None:
            return denies[first].text
    return ""


def _is_about_writing(rule: Rule) -> bool:
    return rule.is_about(WRITE_TOOL, None) or rule.tools == _FLAG
