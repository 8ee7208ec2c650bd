"""The grants that a question about a call offers, and their reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb import ToolCall
from agentnb.core.questions import REACHES
from agentnb.policies.permissions.gate import is_allowed_by
from agentnb.policies.permissions.offered_grants import grants_about
from agentnb.tools.builtin.files.files_group import Files
from agentnb.tools.builtin.git.git_group import Git
from agentnb.tools.function import FunctionTool


def tool_named(name: str, **subject: str) -> FunctionTool:
    def function(what: str = "") -> None:
        """Do it."""

    return FunctionTool(function, name=name, effects=["execute"], **subject)  # type: ignore[arg-type]


BASH, SAVE, FETCH, PLAIN = (
    tool_named("bash", command="what"),
    tool_named("save", path="what"),
    tool_named("fetch", url="what"),
    tool_named("plain"),
)


def test_each_offered_grant_allows_the_call_and_states_its_scope(subtests: pytest.Subtests, tmp_path: Path) -> None:
    work = tmp_path.resolve()
    (work / "data").mkdir()
    cases: list[tuple[FunctionTool, str, str | None]] = [
        (BASH, "git status -s", "bash(git status *)"),
        (BASH, "python x.py", "bash(python x.py)"),
        (BASH, "cd data && git status -s | git status", "bash(git status *)"),
        (BASH, "git status | head", None),
        (BASH, "sudo ls", None),
        (BASH, "git status; ls", None),
        (SAVE, "data/a.txt", f"save({work}/data/**)"),
        (SAVE, "/vmlinuz", None),
        (SAVE, "a\0b", None),
        (FETCH, "https://Docs.Example.org/a?b", "fetch(https://docs.example.org/**)"),
        (FETCH, "http://localhost:8888/a", "fetch(http://localhost:8888/**)"),
        (FETCH, "https://me@example.org/", None),
        (PLAIN, "x", "plain"),
    ]
    for tool, what, rule in cases:
        name = tool.spec.name
        call = ToolCall(name, {"what": what})
        with subtests.test(f"{name} {what}"):
            for reaches in (REACHES[:1], REACHES[:2], REACHES):
                grants = grants_about(call, tool, work, reaches=reaches)
                kept = [reach for reach in reaches if reach != "project" or rule != name]
                rules = {} if rule is None else dict.fromkeys((rule, reach) for reach in kept)
                assert {(grant.rule, grant.reach) for grant in grants} == {(name, "run"), *rules}
                assert all(is_allowed_by(grant.rule, call, tool, work) for grant in grants)
                assert grants[-1].rule == name, "the widest is the last"


def test_grant_for_a_secret_or_read_file_is_exact(tmp_path: Path, subtests: pytest.Subtests) -> None:
    work = (tmp_path / "desk").resolve()
    (work / "conf").mkdir(parents=True)
    (work / "conf" / "link").symlink_to(".env")
    tools = {tool.spec.name: tool for group in (Files(), Git()) for tool in group.tools}
    for name, arguments, path in (
        ("read_file", {"path": "conf/.env"}, "conf/.env"),
        ("read_file", {"path": "conf/link"}, "conf/.env"),
        ("read_file", {"path": "conf/[a]?.pem"}, "conf/[a]?.pem"),
        ("read_file", {"path": "conf/*.pem"}, ""),
        ("read_file", {"path": "conf/(a).pem"}, ""),
        ("read_file", {"path": "notes.txt"}, "notes.txt"),
        ("write_file", {"path": "conf/id_rsa", "content": "x"}, "conf/id_rsa"),
        ("edit_file", {"path": "conf/.env", "old": "a", "new": "b"}, "conf/.env"),
        ("list_files", {"path": "conf"}, "conf"),
        ("git_add", {"paths": ["conf/.env"]}, ""),
    ):
        with subtests.test(f"{name} {arguments}"):
            call, tool = ToolCall(name, arguments), tools[name]
            grants = grants_about(call, tool, work, reaches=REACHES)
            rule = f"{name}({work / path})"
            reaches = REACHES if path in ("notes.txt", "conf") else REACHES[:2]  # keys are not allowed for good
            assert [(grant.rule, grant.reach) for grant in grants] == ([(rule, reach) for reach in reaches] if path else [])
            assert all(is_allowed_by(grant.rule, call, tool, work) for grant in grants)
            other = ToolCall(name, {**arguments, "path": "conf/prod.pem"})
            assert not any(is_allowed_by(grant.rule, other, tool, work) for grant in grants)


def test_grant_for_a_command_naming_a_key_file_is_exact(tmp_path: Path) -> None:
    for line, rules in {
        "cat .env": ["bash(cat .env)"],
        "grep KEY conf/.env": ["bash(grep KEY conf/.env)"],
        "cat notes.txt": ["bash(cat *)", "bash"],
        "cat .env | sort notes.txt": [],
    }.items():
        grants = grants_about(ToolCall("bash", {"what": line}), BASH, tmp_path, reaches=REACHES)
        assert list(dict.fromkeys(grant.rule for grant in grants)) == rules, line
        assert ("project" in [grant.reach for grant in grants]) == (line == "cat notes.txt")


def test_session_grant_is_never_offered_for_an_entire_tool(tmp_path: Path) -> None:
    for tool, what in ((BASH, "python x.py"), (BASH, "git log"), (SAVE, "a"), (FETCH, "ftp://x")):
        grants = grants_about(ToolCall(tool.spec.name, {"what": what}), tool, tmp_path, reaches=REACHES)
        assert not {(tool.spec.name, "session"), (tool.spec.name, "project")} & {(grant.rule, grant.reach) for grant in grants}
