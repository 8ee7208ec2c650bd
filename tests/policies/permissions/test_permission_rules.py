"""Permission rules: flags, names and patterns, each with a verdict; invalid ones are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentnb import Agent, tool
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.permissions.permission_rules import Rule, RuleList
from agentnb.policies.permissions.rule_words import known_rules
from agentnb.tools.function import FunctionTool


def runs(command: str) -> str:
    """Run a command."""
    return command


BASH = FunctionTool(runs, name="bash", effects=["execute"], command="command", flag="bash")
PYTHON = FunctionTool(runs, name="run_python", effects=["execute"], flag="bash")
FETCH = FunctionTool(runs, name="web_fetch", effects=["network"], url="command", flag="network")


def test_rules_are_ordered_and_logged_unchanged() -> None:
    given = {
        "bash(git status*)": "allow",
        "bash": "ask",
        "mcp_clock_*": "deny",
        "mcp:clock": "allow",
        "mcp:harbour.eu/list-ships": "ask",
        "network": "deny",
        "write_file(a (1).txt)": "allow",
    }
    rules = RuleList.of(given)
    assert [(rule.text, rule.verdict) for rule in rules.rules] == [*given.items()] and rules.flags is None
    assert RuleList.from_log(json.loads(json.dumps(rules.as_logged))) == rules
    flags = RuleList.of(["git", "file_read"])
    assert flags.flags == {"git", "file_read"} and RuleList.from_log(flags.as_logged) == flags
    assert RuleList.of("restricted").flags == {"file_read"}
    assert not RuleList.of(None) and RuleList.of([]) and RuleList.of(rules) is rules
    assert RuleList.parse_typed(["bash(a=b)=allow", "bash = ask"]).as_logged["rules"] == [
        ["bash(a=b)", "allow"],
        ["bash", "ask"],
    ]


def test_invalid_rule_is_refused_with_valid_examples(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ({"bash": "permit"}, "'permit' is not a verdict.*allow, ask, deny"),
        ({"bash(": "ask"}, "Invalid permission rule"),
        ({"bash()": "ask"}, "Invalid permission rule"),
        ({3: "ask"}, "Invalid permission rule"),
        ({"mcp_*(x)": "ask"}, "brackets need the name of a single tool"),
        ({"mcp:": "ask"}, "Invalid permission rule"),
        ({"effect:wrte": "ask"}, "there is no effect 'wrte'.*write"),
        ({"mcp:clock_*": "ask"}, "Invalid permission rule"),
        ({"effect:wirte": "ask"}, "there is no effect 'wirte'. Did you mean write"),
        (["files"], "There is no flag 'files'.*file_read"),
        ("bash", "neither rules nor flags"),
        (3, "neither rules nor flags"),
        ([["bash"]], "There is no flag"),
    ]
    for rules, words in cases:
        with subtests.test(repr(rules)), pytest.raises(SettingsError, match=words):
            RuleList.of(rules)
    with pytest.raises(SettingsError, match="not a rule with a verdict"):
        RuleList.parse_typed(["bash"])


def test_rule_word_may_be_a_tool_name_pattern_or_flag() -> None:
    about = {
        "bash": [True, False, False],
        "run_*": [False, True, False],
        "*": [True, True, True],
        "network": [False, False, True],
        "web_fetch": [False, False, True],
        "git": [False, False, False],
        "?ash": [True, False, False],
        "[bw]*": [True, False, True],
        "effect:execute": [True, True, False, False],
        "effect:network": [False, False, True, True],
        "effect:read": [False, False, False, False],
    }
    tools = (BASH, PYTHON, FETCH, FunctionTool(runs, name="sync", effects=["network", "read"]))
    for text, expected in about.items():
        rule = Rule.read(text, "ask")
        assert [rule.is_about(tool.spec.name, tool) for tool in tools][: len(expected)] == expected, text
    assert Rule.read("effect:read", "ask").is_about("look", FunctionTool(runs, name="look", effects=["read"]))


def test_meaningless_brackets_and_misspelled_names_are_settings_errors() -> None:
    @tool(effects=["write"], path="path")
    def save(path: str) -> None:
        """Save."""

    def plain() -> None:
        """Nothing."""

    for rules, words in (
        ({"plain(x)": "deny"}, "has brackets, but plain has no command, path or address"),
        ({"sav": "deny"}, "does not match any tool, flag or MCP server of this run.*save"),
        ({"web_fetch(docs.example.org)": "allow"}, "has no valid address"),
    ):
        with pytest.raises(SettingsError, match=words):
            Agent(ScriptedModel([]), tools=[save, plain, FETCH], permissions=rules)
    assert Agent(
        ScriptedModel([]), tools=[save, plain], permissions={"mcp_*": "ask", "bash": "ask", "save(data/**)": "allow"}
    ).rule_list


def test_rule_lists_are_concatenated_and_flags_intersected() -> None:
    first, second = RuleList.of({"bash": "ask"}), RuleList.of({"bash": "allow"})
    assert [rule.verdict for rule in first.then(second).rules] == ["ask", "allow"]
    both = RuleList.of(["git", "bash"]).then(RuleList.of(["git", "network"]))
    assert both.flags == {"git"} and RuleList.of(["git"]).then(first).flags == {"git"}
    assert first.then(second).without_allowing == first and second.allows and not first.allows


def test_unreadable_logged_rules_forbid_every_flag() -> None:
    for data in (None, 3, {"rules": 3}, {"rules": [["bash"]]}, {"rules": [["bash", "sure"]]}, {"flags": 3}):
        assert RuleList.from_log(data) == RuleList(flags=frozenset()), data


def test_options_of_unknown_programs_are_refused_in_ask_and_deny(subtests: pytest.Subtests) -> None:
    for verdict in ("deny", "ask"):
        with (
            subtests.test(verdict),
            pytest.raises(SettingsError, match=r"unknown to agentnb. Write only the program: bash\(mine \*\)"),
        ):
            known_rules(RuleList.of({"bash(mine -x *)": verdict}), [BASH])
    known_rules(RuleList.of({"bash(mine -x *)": "allow", "bash(mine *)": "deny", "bash(rm -rf *)": "deny"}), [BASH])
