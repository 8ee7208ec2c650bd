"""Rules matched together decide as they do one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb import tool
from agentnb.commands.command_patterns import covers
from agentnb.commands.harmless import is_harmless
from agentnb.policies.permissions.approval_mode import NO_MODE
from agentnb.policies.permissions.matching import CallSubject, RuleMatcher
from agentnb.policies.permissions.permission_rules import VERDICTS, Rule, RuleList
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.tools.function import as_tool

HERE = Path("/work")
PATTERNS = ["git status *", "git *", "git push *", "rm *", "*", "echo a", "git status -s", "python *", ""]
COMMANDS = [
    "git status",
    "git status -s",
    "git push x; rm y",
    "rm y",
    "echo a",
    "python -c 1",
    "echo $(rm y)",
    "ls",
    "/bin/rm y",
]


@tool(effects=["execute"], command="line")
def shell(line: str) -> str:
    """Run a line."""
    return line


RULES = st.lists(st.builds(Rule, st.sampled_from(VERDICTS), st.just("shell"), st.sampled_from(PATTERNS)), max_size=6)


def decided_alone(rules: list[Rule], command: str) -> str:
    """Return the verdict of rules matched one by one."""
    subject = CallSubject(as_tool(shell), {"line": command}, HERE)

    def matches(rule: Rule) -> bool | None:
        matcher = RuleMatcher.of([(0, rule)], "command", HERE)
        if rule.verdict == "allow":
            return matcher.first_allowing(subject.reading, HERE) is not None
        if matcher.first(subject.reading) is not None:
            return True
        return False if matcher.first_possible(subject.reading) is None else None

    denies = [matches(rule) for rule in rules if rule.verdict == "deny"]
    if True in denies or None in denies:
        return "deny" if True in denies else "ask"
    of_command = subject.reading.command
    named = [rule.pattern for rule in rules if rule.verdict == "allow" and rule.pattern not in ("", "*")]
    if denies and of_command is not None:
        parts = [part for part in of_command.parts if not is_harmless(part, lambda path: True)]
        if not all(any(covers(pattern, part) for pattern in named) for part in parts):
            return "ask"
    return next((rule.verdict for rule in rules if matches(rule) is not False), "ask")


@given(RULES, st.sampled_from(COMMANDS))
@examples(300)
def test_combined_rules_decide_like_the_rules_checked_individually(rules: list[Rule], command: str) -> None:
    permissions = Permissions.of(NO_MODE, RuleList(tuple(rules)))
    judged = permissions.for_tool("shell", as_tool(shell), HERE).judge({"line": command})
    assert judged.verdict == decided_alone(rules, command)


def test_question_names_the_rule_that_matched() -> None:
    rules: dict[str, Any] = {f"shell(program{number} *)": "ask" for number in range(700)} | {"shell(git *)": "ask"}
    permissions = Permissions.of(NO_MODE, RuleList.of(rules))
    judged = permissions.for_tool("shell", as_tool(shell), HERE).judge({"line": "git log"})
    assert judged.rule is not None and judged.rule.text == "shell(git *)"
