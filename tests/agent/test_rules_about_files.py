"""``read_file(...)`` and ``write_file(...)`` rules apply to every tool that reads or writes files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from git_repositories import GitRepository

from agentnb import Agent, RunOptions, ToolCall, tool
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

READS = {"read_file(data/**)": "deny"}
WRITES = {"write_file(data/**)": "deny"}
FIRST_ALLOWED = {"read_file(data/open/**)": "allow", "read_file(data/**)": "ask"}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A repository with changes in three folders, each with a secret."""
    repository = GitRepository.make(tmp_path / "desk")
    names = ("data/a.txt", "data/open/b.txt", "notes/c.txt")
    for name in names:
        (repository.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (repository.folder / name).write_text("old\n")
    repository.git("add", ".")
    repository.git("commit", "-qm", "Begin.")
    for name in names:
        (repository.folder / name).write_text(f"secret of {name}\n")
    return repository.folder


@tool(effects=["read"], path="file")
def peek(file: str) -> str:
    """Read the file of a path."""
    return Path(file).read_text()


@tool(effects=["write"], path="file")
def save(file: str) -> str:
    """Write a file."""
    return f"wrote {file}"


@tool(effects=["read"])
async def relay(name: str, arguments: dict[str, Any], context: ToolContext) -> str:
    """Call another tool."""
    return (await context.call(name, arguments)).text


def called(folder: Path, call: ToolCall, rules: Any) -> str:
    """Return the result of a call under ``auto`` with these rules; questions are not approved."""
    tools = ["files", "git", peek, save, relay]
    agent = Agent(ScriptedModel([call, "Done."]), tools=tools, todos=False, work_dir=folder)
    options = RunOptions(approval_mode="auto", permissions=rules, approve=lambda call, run: False)
    return agent.run_sync("go", options).rounds[0].results[0].text


CALLS: dict[str, tuple[Any, str, dict[str, Any], list[str], list[str]]] = {
    "read": (READS, "read_file", {"path": "data/a.txt"}, ["read_file(data/**)", "denies"], ["secret"]),
    "list": (READS, "list_files", {"path": "data"}, ["denies"], ["a.txt"]),
    "search": (READS, "search_files", {"pattern": "secret"}, ["notes/c.txt", "Left out by the rules"], ["of data"]),
    "search there": (READS, "search_files", {"pattern": "s", "path": "data"}, ["No line matches", "Left out"], ["of data"]),
    "search one": (READS, "search_files", {"pattern": "s", "path": "data/a.txt"}, ["No line matches", "Left out"], ["of data"]),
    "search for names": (READS, "search_files", {"glob": "*.txt"}, ["notes/c.txt", "Left out by the rules"], ["data/a.txt\n"]),
    "diff": (READS, "git_diff", {}, ["of notes", "Left out by the rules for read_file: data/a.txt"], ["of data"]),
    "diff of one": (READS, "git_diff", {"path": "data/a.txt"}, ["No unstaged changes to show", "Left out"], ["of data"]),
    "edit what may not be read": (READS, "edit_file", {"path": "data/a.txt", "old": "s", "new": "t"}, ["denies"], []),
    "own function": (READS, "peek", {"file": "data/a.txt"}, ["denies"], ["secret"]),
    "from a tool": (READS, "relay", {"name": "search_files", "arguments": {"pattern": "secret"}}, ["Left out"], ["of data"]),
    "allowed before asked": (FIRST_ALLOWED, "search_files", {"pattern": "s"}, ["of data/open", "Left out"], ["of data/a"]),
    "asked about": (FIRST_ALLOWED, "list_files", {"path": "data"}, ["did not allow"], []),
    "other files": (READS, "read_file", {"path": "notes/c.txt"}, ["secret"], []),
    "a file that is written": (READS, "write_file", {"path": "data/n.txt", "content": "x"}, ["data/n.txt"], ["denies"]),
    "write": (WRITES, "write_file", {"path": "data/a.txt", "content": "x"}, ["denies"], []),
    "edit": (WRITES, "edit_file", {"path": "data/a.txt", "old": "secret", "new": "x"}, ["write_file(data/**)", "denies"], []),
    "own function that writes": (WRITES, "save", {"file": "data/a.txt"}, ["denies"], []),
    "search where nothing is written": (WRITES, "search_files", {"pattern": "secret"}, ["of data"], ["rules"]),
    "allow": (
        {"write_file(data/**)": "allow", "edit_file": "ask"},
        "edit_file",
        {"path": "data/a.txt", "old": "secret", "new": "x"},
        ["did not allow"],
        [],
    ),
    "a folder": ({"read_file(data)": "deny"}, "read_file", {"path": "data/a.txt"}, ["denies"], []),
    "a search of a folder": ({"read_file(data)": "ask"}, "search_files", {"pattern": "secret"}, ["Left out"], ["of data"]),
    "an allowed folder": (
        {"list_files(data)": "allow", "list_files": "ask"},
        "list_files",
        {"path": "data/open"},
        ["did not"],
        [],
    ),
    "the tool alone": ({"read_file": "deny"}, "search_files", {"pattern": "secret"}, ["of data"], ["rules"]),
}


def test_file_rules_apply_to_every_reading_and_writing_tool(desk: Path, subtests: pytest.Subtests) -> None:
    for name, (rules, of_tool, arguments, words, others) in CALLS.items():
        with subtests.test(name):
            text = called(desk, ToolCall(of_tool, arguments), rules)
            assert all(word in text for word in words), text
            assert not any(word in text for word in others), text
