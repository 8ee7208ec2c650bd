"""Names of built-in tools and groups, and their settings in a log."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from agentnb import GitHub, Plan, Shell, Web, Workflow
from agentnb.cli.inputs import find_tools
from agentnb.errors import InvalidTool, SettingsError, UnknownTool
from agentnb.notebook.variable_names import find_tools as find_in_notebook
from agentnb.tools.builtin.builtin_names import (
    GROUP_OF,
    GROUPS,
    LOGGED,
    WORDS,
    builtins_again,
    logged_builtins,
    tools_of,
    tools_of_word,
)
from agentnb.tools.builtin.group import BuiltinTool
from agentnb.tools.subject import flag_of
from agentnb.tools.toolbox import Toolbox

EXAMPLE = json.loads((Path(__file__).parent / "examples" / "builtin-tools.json").read_text("utf-8"))


def names(*values: Any) -> list[str]:
    return [tool.spec.name for tool in Toolbox(values)]


@pytest.mark.req("R2.17", "R2.19", "R1.52")
def test_built_in_tools_match_names_and_schemas_of_the_example(subtests: pytest.Subtests) -> None:
    assert len(EXAMPLE) == 13
    for wanted in EXAMPLE:
        with subtests.test(wanted["name"]):
            (tool,) = tools_of(wanted["name"])
            spec = tool.spec
            assert (spec.name, spec.input_schema) == (wanted["name"], wanted["input_schema"])
            assert (flag_of(tool), spec.effects) == (wanted["permission"], (wanted["effects"],))


def test_each_name_refers_to_a_group_or_tool() -> None:
    for word, group in GROUPS.items():
        assert tuple(names(word)) == group.tool_names
    assert all(names(word) == [word] for word in GROUP_OF)
    assert names("ask_person", "think", "files")[:3] == ["ask_person", "think", "read_file"]
    assert tools_of_word("sales.describe") == tools_of_word("fils") == ()


def test_registry_name_is_accepted_with_any_separator(subtests: pytest.Subtests) -> None:
    for name in ("web.fetch", "web/fetch", "web:fetch", "web_fetch"):
        with subtests.test(name):
            file = f"agents: {{a: {{tools: [{name}]}}}}\nworkflow: [{{type: tool, name: '{name}'}}, {{type: agent, name: a}}]\n"
            spec = Workflow.from_yaml(file, checks_actions=True).spec
            assert spec.agents["a"].tools == (spec.steps[0].tool,) == ("web_fetch",)
            assert names(name) == ["web_fetch"]
            assert Plan.read(f"steps: [{{name: '{name}'}}]").tool_names == ("web_fetch",)
            if ":" not in name:  # a function of a module in a shell
                assert [tools_of(one)[0].spec.name for one in find_tools([name])] == ["web_fetch"]
                assert [tools_of(one)[0].spec.name for one in find_in_notebook([name], {})] == ["web_fetch"]
    assert find_in_notebook(["json.loads"], {"json": json}) == [json.loads]
    with pytest.raises(UnknownTool, match="web has no fetch"):
        find_in_notebook(["web.fetch"], {"web": json})


def test_tool_named_twice_is_included_once() -> None:
    assert names("files", "read_file", "files") == names("files")


def test_two_tools_with_one_name_are_an_error() -> None:
    def bash(command: str) -> str:
        """Run."""
        return command

    for values in ((bash, "shell"), ("shell", bash), (Shell(timeout=5), "bash"), (Web(local=True), "web")):
        with pytest.raises(InvalidTool, match="already registered"):
            Toolbox(values)


def test_unknown_tool_name_is_refused_with_suggestions() -> None:
    for word, like in {"fils": "files", "web.fetsh": "web_fetch", "readfile": "read_file", "gitstatus": "git_status"}.items():
        with pytest.raises(UnknownTool, match=like):
            tools_of(word)
    with pytest.raises(UnknownTool, match="not a function or a built-in tool"):
        tools_of("sales.describe")


def test_names_in_files_prefer_tools_of_the_user() -> None:
    def read_file(path: str) -> str:
        """Mine."""
        return path

    own = Toolbox([read_file])
    assert own.of_word("read_file") == tuple(own)
    assert [isinstance(tool, BuiltinTool) for tool in own.of_word("files")] == [False, True, True, True, True]
    assert own.of_word("fils") == ()
    given = Toolbox([Shell(timeout=5)]).with_words(["shell", "git_log"])
    assert [tool.spec.name for tool in given] == ["bash", "git_log"]
    (bash,) = given.of_word("bash")
    assert isinstance(bash, BuiltinTool) and bash.group == Shell(timeout=5)


def test_tools_and_their_settings_are_restored_from_the_log(subtests: pytest.Subtests) -> None:
    given = Toolbox(["files", Shell(timeout=5, sandbox="bwrap"), GitHub(repo="a/b"), Web(local=True)])
    logged = logged_builtins(given)
    assert logged[LOGGED]["read_file"] == {} and logged[LOGGED]["web_fetch"] == {"local": True}
    assert logged[LOGGED]["bash"] == {"sandbox": "bwrap", "timeout": 5}
    with subtests.test("of one's own"):
        again = builtins_again(logged, [tool.spec.name for tool in given], is_trusted=True, given=["list_files"])
        assert [tool.spec.name for tool in again] == [name for name in names("files") if name != "list_files"] + [
            "bash",
            *names("github"),
            "web_fetch",
        ]
        groups = [tool.group for tool in again if isinstance(tool, BuiltinTool)]
        assert all(group in groups for group in (Shell(timeout=5, sandbox="bwrap"), GitHub(repo="a/b"), Web(local=True)))
    with subtests.test("of others"):
        (fetch,) = builtins_again(logged, ["web_fetch"], is_trusted=False)
        assert isinstance(fetch, BuiltinTool) and fetch.group == Web()
    with subtests.test("a function of this name"):
        assert builtins_again({}, ["read_file"], is_trusted=True) == []
        assert builtins_again({LOGGED: {"read_file": {}}}, ["bash"], is_trusted=True) == []
    with subtests.test("damaged"):
        assert builtins_again({LOGGED: ["read_file"]}, ["read_file"], is_trusted=True) == []
        assert builtins_again({LOGGED: {"read_file": 1, "f": {}}}, ["read_file", "f"], is_trusted=True) == []


def test_shell_variables_are_logged_by_name_and_required_again() -> None:
    logged = logged_builtins(Toolbox([Shell(env={"STATION": "brest"})]))
    assert logged == {LOGGED: {"bash": {"env": ["STATION"]}}}
    with pytest.raises(SettingsError, match="STATION"):
        builtins_again(logged, ["bash"], is_trusted=True)
    assert builtins_again(logged, ["bash"], is_trusted=True, given=["bash"]) == []


def test_tools_keep_their_settings_in_another_process() -> None:
    for group in (Shell(timeout=5), GitHub(repo="a/b"), Web(local=True)):
        for tool in group.tools:
            again = pickle.loads(pickle.dumps(tool))
            assert isinstance(again, BuiltinTool) and again.group == group and again.spec == tool.spec


def test_tool_and_group_names_are_unique() -> None:
    assert len(set(WORDS)) == len(WORDS)
