"""Permissions of a run: precedence, nested runs and logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core.run.approvals import MODES, RULES
from agentnb.policies.permissions.approval_mode import NO_MODE, ApprovalMode
from agentnb.policies.permissions.permission_rules import Rule, RuleList
from agentnb.policies.permissions.run_permissions import Judgement, Permissions
from agentnb.tools.function import FunctionTool
from agentnb.tools.subject import FLAGS, Flag
from agentnb.tools.tool import Effect

HERE = Path("/work")
STRICTEST_FIRST = ("deny", "ask", "allow")


def tool_named(name: str, effects: list[Effect] | None, flag: Flag | None = None, **subject: str) -> FunctionTool:
    def function(command: str = ".", content: str = "") -> None:
        """Do it."""

    return FunctionTool(function, name=name, effects=effects, flag=flag, **subject)  # type: ignore[arg-type]


TOOLS = {
    one.spec.name: one
    for one in (
        tool_named("bash", ["execute"], "bash", command="command"),
        tool_named("run_python", ["execute"], "bash"),
        tool_named("read_file", ["read"], "file_read", path="command"),
        tool_named("write_file", ["write"], "file_write", path="command", content="content"),
        tool_named("git_add", ["write"], "git"),
        tool_named("github_get_issue", ["network"], "github"),
        tool_named("web_fetch", ["network"], "network", url="command"),
        tool_named("save", ["write"]),
        tool_named("measure", None),
        tool_named("look", ["read"]),
        tool_named("ask_person", []),
    )
}


def judged(tool: str, subject: str | None = None, *, rules: Any = None, mode: str = RULES) -> Judgement:
    permissions = Permissions.of(ApprovalMode.of(mode), RuleList.of(rules))
    arguments = {} if subject is None else {"command": subject}
    return permissions.for_tool(tool, TOOLS[tool], HERE).judge(arguments)


def verdict(tool: str, subject: str | None = None, **how: Any) -> str:
    judgement = judged(tool, subject, **how)
    return f"{judgement.verdict}, unclear" if judgement.is_unclear else judgement.verdict


@pytest.mark.req("R2.15")
def test_mode_and_effects_decide_without_rules(subtests: pytest.Subtests) -> None:
    declared = [name for name, one in TOOLS.items() if one.effects is not None and one.effects - {"read"}]
    reading = ["read_file", "look", "ask_person"]
    cases = {RULES: ("ask", "allow"), "auto": ("allow", "allow"), "ask": ("ask", "ask"), "never": ("ask", "allow")}
    cases["read_only"] = ("deny", "deny")
    for mode, (of_declared, of_undeclared) in cases.items():
        with subtests.test(mode):
            assert {verdict(name, "x", mode=mode) for name in declared} == {of_declared}
            assert verdict("measure", mode=mode) == of_undeclared
            assert {verdict(name, mode=mode) for name in reading} == {"allow"}


@pytest.mark.req("R2.5")
def test_unlisted_flag_is_denied_and_listed_flag_keeps_its_default(subtests: pytest.Subtests) -> None:
    flagged = {name: one.flag for name, one in TOOLS.items() if one.flag is not None}
    for listed in FLAGS:
        with subtests.test(listed):
            for name, flag in flagged.items():
                judgement = judged(name, "x", rules=[listed])
                expected = verdict(name, "x") if flag == listed else "deny"
                assert (judgement.verdict, judgement.flag) == (expected, None if flag == listed else flag)
    assert {verdict(name, rules=[]) for name in ("save", "measure", "look")} == {"ask", "allow"}  # functions have no flag
    assert judged("run_python", rules=["file_read"]).flag == "bash" and verdict("read_file", rules="restricted") == "allow"
    assert judged("bash", "ls", rules=["file_read"], mode="auto").flag == "bash"


def test_precedence_is_deny_then_first_match_then_default(subtests: pytest.Subtests) -> None:
    rules = {"bash(git status*)": "allow", "bash(git *)": "ask", "bash": "allow", "bash(rm *)": "deny"}
    cases: list[tuple[Any, str, str | None, str]] = [
        (rules, "bash", "git status -s", "allow"),
        (rules, "bash", "git push", "ask"),
        (rules, "bash", "ls", "allow"),
        (rules, "bash", "rm -rf x", "deny"),
        (rules, "bash", "ls && rm x", "deny"),
        (rules, "bash", "ls $(cat x)", "allow"),
        (rules, "bash", "ls $(./x)", "ask"),
        (rules, "bash", "$(cat x)", "ask, unclear"),
        (rules, "bash", "git status; ls", "ask"),
        (rules, "bash", "git push; ls", "ask"),
        (rules, "run_python", None, "ask"),
        ({"bash(ls *)": "allow"}, "bash", "ls; ls", "allow"),
        ({"bash(ls *)": "allow"}, "bash", "ls $(ls)", "ask"),
        ({"bash(ls *)": "allow"}, "bash", "ls & ls", "ask"),
        ({"bash(ls *)": "allow"}, "bash", "ls > x", "ask"),
        ({"bash": "deny", "bash(ls *)": "allow"}, "bash", "ls", "deny"),
        ({"bash(curl *)": "ask", "bash": "allow"}, "bash", "echo $(curl x)", "ask"),
        ({"write_file(data/**)": "allow"}, "write_file", "data/a", "allow"),
        ({"write_file(data/**)": "allow"}, "write_file", "data/../a", "ask"),
        ({"write_file(data/**)": "deny", "write_file": "allow"}, "write_file", "x/../data/a", "deny"),
        ({"write_file(data/**)": "deny", "write_file": "allow"}, "write_file", "a\0b", "ask, unclear"),
        ({"read_file(.)": "deny"}, "read_file", None, "deny"),  # the default of the argument
        ({"file_write": "allow"}, "write_file", "a", "allow"),
        ({"network": "deny"}, "web_fetch", "https://a.org", "deny"),
        ({"web_fetch(https://a.org/**)": "allow"}, "web_fetch", "https://a.org/x", "allow"),
        ({"web_fetch(https://a.org/**)": "allow"}, "web_fetch", "https://b.org/x", "ask"),
        ({"web_fetch(https://a.org/**)": "deny"}, "web_fetch", "file:///x", "ask, unclear"),
        ({"git*": "allow"}, "github_get_issue", None, "allow"),
        ({"save": "allow"}, "save", None, "allow"),
        ({"measure": "ask"}, "measure", None, "ask"),
    ]
    for given_rules, name, subject, expected in cases:
        with subtests.test(f"{name} {subject} {given_rules}"):
            assert verdict(name, subject, rules=given_rules) == expected


def test_approval_mode_replaces_defaults_but_not_rules() -> None:
    rules = {"bash(git *)": "allow", "save": "ask", "look": "ask", "bash(rm *)": "deny"}
    assert [verdict("bash", "git log", rules=rules, mode=mode) for mode in MODES] == ["allow", "allow", "allow", "deny"]
    assert [verdict("save", rules=rules, mode=mode) for mode in MODES] == ["ask", "ask", "ask", "deny"]
    assert [verdict("look", rules=rules, mode=mode) for mode in MODES] == ["ask"] * 4
    assert [verdict("bash", "rm x", rules=rules, mode=mode) for mode in MODES] == ["deny"] * 4
    assert [verdict("bash", "`x`", rules=rules, mode=mode) for mode in MODES][:3] == ["ask, unclear"] * 3


def nested(outer: Permissions, inner: Permissions, name: str, subject: str) -> str:
    return inner.within(outer).for_tool(name, TOOLS[name], HERE).judge({"command": subject}).verdict


WORDS = st.sampled_from([RULES, *MODES])
SOME_RULES = st.dictionaries(
    st.sampled_from(["bash", "bash(git *)", "bash(rm *)", "save", "*", "file_write", "write_file(data/**)"]),
    st.sampled_from(STRICTEST_FIRST),
    max_size=4,
)
SOME = st.builds(lambda mode, rules: Permissions.of(ApprovalMode.of(mode), RuleList.of(rules)), WORDS, SOME_RULES)


@examples(200)
@given(SOME, SOME, SOME, st.sampled_from([*TOOLS]), st.sampled_from(["git log", "rm x", "data/a", "a; b", "x"]))
def test_nested_run_never_has_more_permissions_than_its_parents(
    outer: Permissions, inner: Permissions, innermost: Permissions, name: str, subject: str
) -> None:
    alone = outer.for_tool(name, TOOLS[name], HERE).judge({"command": subject}).verdict
    within = nested(outer, inner, name, subject)
    deeper = nested(inner.within(outer), innermost, name, subject)
    order = [STRICTEST_FIRST.index(one) for one in (deeper, within, alone)]
    assert order == sorted(order)


def test_nested_run_without_a_mode_inherits_its_parents() -> None:
    auto, ask = Permissions.of(ApprovalMode.of("auto")), Permissions.of(ApprovalMode.of("ask"))
    nothing = Permissions()
    assert nothing.within(auto).mode.words == "auto" and nothing.within(ask).mode.words == "ask"
    assert (
        auto.within(nothing).mode == NO_MODE and auto.within(ask).mode.words == "ask" and ask.within(auto).mode.words == "ask"
    )
    rules = Permissions.of(NO_MODE, RuleList.of({"save": "allow"}))
    assert nothing.within(rules) == rules and nested(nothing, rules, "save", "") == "ask"


@examples(100)
@given(SOME, SOME)
def test_untrusted_logged_permissions_never_loosen_the_rules(outer: Permissions, inner: Permissions) -> None:
    permissions = inner.within(outer)
    settings = json.loads(json.dumps(permissions.as_logged))
    again = Permissions.from_log(settings, loosens=True)
    refused = Permissions.from_log(settings, loosens=False)
    assert not refused.mode.is_auto and not any(layer.allows for layer in refused.layers) and not refused.loosen
    for name, tool in TOOLS.items():
        for subject in ("git log", "rm x"):
            verdicts = [
                one.for_tool(name, tool, HERE).judge({"command": subject}).verdict for one in (refused, permissions, again)
            ]
            assert verdicts[1] == verdicts[2]
            least = Permissions().for_tool(name, tool, HERE).judge({"command": subject}).verdict
            # Denials and questions remain; allowances fall back to the default or stricter.
            assert STRICTEST_FIRST.index(verdicts[0]) <= max(STRICTEST_FIRST.index(verdicts[1]), STRICTEST_FIRST.index(least))


def test_unreadable_logged_permissions_are_strict() -> None:
    for settings in ({"approve": 3}, {"approve": "free"}, {"approve": "auto+free"}, {"approve": None}):
        assert Permissions.from_log(settings, loosens=True).mode.words == "ask", settings
    for rules in (3, {"bash": "allow"}, [3]):
        read = Permissions.from_log({"permissions": rules}, loosens=True)
        assert read.for_tool("bash", TOOLS["bash"], HERE).judge({"command": "ls"}).flag == "bash", rules
    for confirmed in (3, "bash", {"bash": 1}, [3], ["a b"], [["bash"]]):
        read = Permissions.from_log({"confirm": confirmed}, loosens=True)
        judged = read.for_tool("bash", TOOLS["bash"], HERE).judge({"command": "ls"})
        assert judged.verdict == "ask" and judged.is_confirmed, confirmed


@examples(100)
@given(SOME, SOME, st.sampled_from([*TOOLS]), st.sampled_from(["git log", "rm x", "data/a", "x"]))
def test_call_requiring_confirmation_never_runs_without_it(
    outer: Permissions, inner: Permissions, name: str, subject: str
) -> None:
    confirming = outer.confirming([Rule.read(name, "ask")])
    for permissions in (confirming, inner.within(confirming), Permissions().within(inner.within(confirming))):
        logged = Permissions.from_log(json.loads(json.dumps(permissions.as_logged)), loosens=True)
        for held in (permissions, logged):
            judgement = held.for_tool(name, TOOLS[name], HERE).judge({"command": subject})
            assert judgement.verdict == "deny" or (
                judgement.verdict == "ask" and (judgement.is_confirmed or judgement.is_unclear)
            )
