"""Obfuscated calls that a deny rule covers are denied or asked about each time."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from agentnb import tool
from agentnb.commands.command_patterns import command_glob
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.policies.gates import Block, judge
from agentnb.policies.gates.gate_verdicts import AskEachTime, AskUnsettled
from agentnb.policies.permissions.approval_mode import ApprovalMode
from agentnb.policies.permissions.gate import PermissionGate
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.tools.toolbox import Toolbox


@tool(effects=["execute"], command="line")
def shell(line: str | list[str] = "rm -rf x") -> None:
    """Runs."""


@tool(effects=["write"], path="path")
def save(path: Path = Path("secret/a")) -> None:
    """Writes."""


def is_held_up(name: str, rule: str, arguments: Any, folder: Path) -> bool:
    """True if a call is denied, or asked about in any mode, under a deny rule for its tool."""
    permissions = Permissions.of(ApprovalMode.of("auto"), RuleList.of({f"{name}({rule})": "deny"}))
    gate = partial(PermissionGate(permissions, folder), Toolbox([shell, save]).get(name))
    return isinstance(judge((gate,), ToolCall(name, arguments, "c1"), Run()), Block | AskEachTime | AskUnsettled)


COMMANDS = {
    "2>/dev/null rm -rf x": "a descriptor is no word",
    "rm 2>/dev/null -rf x": "nor between words",
    "2>&1 rm -rf x": "nor before a copied one",
    "rm >|out -rf x": "the bar is part of the redirection",
    "cat <(rm -rf x)": "a process substitution",
    "ls # don't\nrm -rf x # it's": "quotation marks in comments",
    "ls &>out rm -rf x": "two commands for dash",
    "rm -{r,}f x": "braces",
    "test -v 'a[$(rm -rf x)]'": "a substitution that a builtin makes of a quoted text",
    "hash -p /bin/rm q; q -rf x": "another name",
    "compgen -C 'rm -rf x'": "a command of a builtin",
    "busybox rm -rf x": "a program that is many",
    "rm x -fr": "another order",
    "rm --force x -R": "another spelling",
    "taskset 1 rm -rf x": "a program that starts others",
    "git -c alias.x='!rm -rf x' x": "an alias",
}


def test_no_spelling_of_a_command_evades_a_deny_rule(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for line, why in COMMANDS.items():
        with subtests.test(why):
            assert is_held_up("shell", "rm -rf *", {"line": line}, tmp_path), line


SUBJECTS: dict[str, tuple[str, str, Any]] = {
    "a list": ("shell", "rm *", {"line": ["rm", "-rf", "x"]}),
    "a default without arguments": ("shell", "rm *", None),
    "a default that the schema does not have": ("save", "secret/**", {}),
}


def test_arguments_without_a_recognized_subject_require_approval(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name, (called, rule, arguments) in SUBJECTS.items():
        with subtests.test(name):
            assert is_held_up(called, rule, arguments, tmp_path)


PLACES = {
    "up and down": ("../other/**", "../other/a"),
    "through a link": ("link/**", "link/a"),
    "where the link leads": ("link/**", "real/a"),
    "of nobody": ("~nobody-of-this-name/**", "a"),
}


def test_path_pattern_matches_the_resolved_path(subtests: pytest.Subtests, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "real").mkdir(parents=True)
    (folder / "link").symlink_to("real")
    for name, (rule, path) in PLACES.items():
        with subtests.test(name):
            assert is_held_up("save", rule, {"path": path}, folder) == (name != "of nobody")


def test_pattern_with_many_stars_is_fast_on_long_commands() -> None:
    begun = perf_counter()
    assert re.fullmatch(command_glob("*x*x*y"), "x" * 2_000, re.DOTALL) is None
    assert perf_counter() - begun < 0.2
