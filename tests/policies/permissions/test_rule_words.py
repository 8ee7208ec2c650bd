"""Names in rules: known if calls of the run may reach them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Store, Workflow, tool
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.permissions.permission_rules import Rule, RuleList
from agentnb.policies.permissions.rule_words import check_confirms, known_rules
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.toolbox import Toolbox


def save(path: str) -> str:
    return path


def burn(path: str) -> str:
    return path


@tool(name="rub_out", path="path")
def erase(path: str) -> str:
    return path


SHELF = [erase]
CLERK = Agent(ScriptedModel([]), tools=[save], name="clerk")


def asks_clerk() -> str:
    return CLERK.run_sync("go").text


def asks_by_another() -> str:
    return asks_clerk()


def has_list() -> Any:
    return Agent(ScriptedModel([]), tools=SHELF)


def defines() -> Any:
    def lend(book: str) -> str:
        return book

    return Agent(ScriptedModel([]), tools=[lend])


class Desk:
    def open(self) -> str:
        return str(burn)


def rules(*words: str) -> RuleList:
    return RuleList.of(dict.fromkeys(words, "deny"))


def test_rule_word_is_known_if_it_may_match_calls(subtests: pytest.Subtests) -> None:
    server = MCPServer("clock", "uvx")
    for name, tools, word, is_known in (
        ("a tool", [save], "save", True),
        ("another tool", [save], "burn", False),
        ("another case", [save], "Save", False),
        ("its name, not that of its function", [erase], "rub_out", True),
        ("the name of its function", [erase], "erase", False),
        ("a pattern", [save], "s?ve", True),
        ("a pattern of nothing", [save], "x*", False),
        ("a built-in tool that is not there", [save], "write_file(a/**)", True),
        ("a flag", [save], "github", True),
        ("an effect", [save], "effect:network", True),
        ("the todo tool", [save], "todo_operations", True),
        ("an agent as a tool", [CLERK], "clerk", True),
        ("a tool of an agent as a tool", [CLERK], "save", True),
        ("a tool of an agent in the code of a tool", [asks_clerk], "save", True),
        ("in the code of a function that it calls", [asks_by_another], "save", True),
        ("in a list that it uses", [has_list], "rub_out", True),
        ("a function that it defines", [defines], "lend", True),
        ("in the code of a method", [Desk().open], "burn", True),
        ("what no code uses", [asks_clerk], "burn", False),
        ("a server", [server], "mcp:clock", True),
        ("a tool of a server", [server], "mcp:clock/now", True),
        ("another server", [server], "mcp:clok", False),
        ("the name of a tool of a server", [server], "mcp_clock_now", True),
        ("the name of a tool of another server", [server], "mcp_clok_now", False),
        ("a pattern for tools of a server", [server], "mcp_clock_*", True),
        ("a pattern that tools of servers may match", [server], "*_now", True),
        ("a pattern for tools of another server", [server], "mcp_clok_*", False),
        ("a pattern for tools of all servers", [save], "mcp_*", True),
    ):
        with subtests.test(name):
            scope = [Toolbox(tools)]
            if is_known:
                assert known_rules(rules(word), scope).rules[0].is_checked
            else:
                with pytest.raises(SettingsError, match="does not match any tool, flag or MCP server of this run"):
                    known_rules(rules(word), scope)
    assert known_rules(rules("mcp:clock"), [], ["clock"]), "one that the session has configured"


def helper() -> str:
    return "reads"


STEPS = "workflow:\n  - {type: tool, name: helper}\n"


class Paper:
    """A sheet."""

    def read(self) -> str:
        return helper()


@tool
def look_up() -> str:
    return helper() + Paper().read()


def test_unknown_word_lists_tools_but_no_helper(subtests: pytest.Subtests) -> None:
    for word, scope, advice in (
        ("frobnicate", [Toolbox([look_up, save])], "Available: look_up, save."),
        ("frobnicate", [Paper, look_up, "lend", helper], "Available: lend, look_up."),
        ("frobnicate", [Workflow.from_yaml(STEPS, tools=[helper])], "Available: helper."),
        ("frobnicate", [Toolbox([save]), MCPServer("clock", "uvx")], "Available: save, mcp:clock."),
        ("lok_up", [Toolbox([look_up])], "Did you mean look_up?"),
        ("write_fil", [Toolbox([save])], "Did you mean write_file"),
        ("frobnicate", [helper], "Available: read_file"),
        ("A sheet.", [Paper], "Invalid permission rule"),
    ):
        with subtests.test(word, advice=advice), pytest.raises(SettingsError) as refused:
            known_rules(rules(word), scope)
        assert advice in str(refused.value)


def test_checked_or_logged_rules_are_not_checked_again() -> None:
    logged = RuleList.from_log(rules("nothing").as_logged)
    assert known_rules(logged, []) is logged
    with pytest.raises(SettingsError, match="'other'"):
        known_rules(logged.then(rules("other")), [])


def test_confirmations_may_name_foreign_tools_but_not_misspelled_ones(subtests: pytest.Subtests) -> None:
    for word, is_taken in (("pay", True), ("SAVE", True), ("sav", False), ("sav*", True), ("effect:write", True)):
        with subtests.test(word):
            confirms = [Rule.read(word, "ask")]
            if is_taken:
                check_confirms(confirms, [Toolbox([save])])
            else:
                with pytest.raises(SettingsError, match="but this agent has no such tool"):
                    check_confirms(confirms, [Toolbox([save])])


def test_unknown_rule_word_is_refused_before_model_and_log(tmp_path: Path) -> None:
    model = ScriptedModel(["Done."])
    with pytest.raises(SettingsError, match="save"):
        Agent(model, tools=[save]).run_sync("Go.", permissions={"sava": "deny"}, store=Store(tmp_path))
    assert model.used == 0 and not [*tmp_path.iterdir()]
