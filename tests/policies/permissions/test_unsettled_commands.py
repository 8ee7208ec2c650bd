"""With a deny rule, commands not known as harmless are asked about unless a rule or grant names them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from run_builder import RunBuilder

from agentnb import tool
from agentnb.core.log import work_events as w
from agentnb.core.messages import ToolCall
from agentnb.policies.gates import judge
from agentnb.policies.gates.gate_verdicts import AskByRules, AskEachTime, AskUnsettled
from agentnb.policies.permissions.approval_mode import ApprovalMode
from agentnb.policies.permissions.gate import PermissionGate
from agentnb.policies.permissions.offered_grants import grants_about
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.run_permissions import Judgement, Permissions
from agentnb.tools.function import as_tool

ATTACKS = [
    "true&2>/dev/null touch X",
    "true &1>x touch X",
    ">x\recho touch X",
    "PS4='$(touch X)';set -x;:",
    "git fetch --upload-pack='touch X;' .",
    "git grep -O'touch X' x",
    "git archive --exec='touch X' --remote=. HEAD",
    "make --eval='x:;touch X' x",
    "zip -TT 'touch X' a b -T",
    "linux32 touch X",
    "capsh -- -c 'touch X'",
    "valgrind touch X",
    "perf stat touch X",
    "tmux new -d touch X",
    "screen -dm touch X",
    "sqlite3 x '.shell touch X'",
    "uv run touch X",
    "docker run -v /:/x i touch X",
    "/lib64/ld-linux-x86-64.so.2 /bin/touch X",
    "env -S 'touch X'",
    "tar xf a --to-command='touch X'",
    "find . -exec touch X ;",
    "awk 'BEGIN{system(\"touch X\")}'",
    "sed '1e touch X' f",
    "git -c core.pager='touch X' -p log",
    "git log --output=x --ext-diff",
    "setarch x86_64 touch X",
    "i386 touch X",
    "parallel touch ::: X",
    "watch -n1 touch X",
    "git -c alias.x='!touch X' x",
    "man -P 'touch X' ls",
    "xargs -a f touch",
    "ls &> /dev/null touch X",
    "x=touch; $x X",
    "eval 't''ouch X'",
    "BASH_ENV=x bash -c :",
    "rsync -e 'touch X' a b:",
    "for PATH in .; do ls; done",
    "echo x > .git/config",
    "coproc touch X",
    "mapfile -C 'touch X' -c 1 a < f",
    "compgen -C 'touch X'",
    "complete -C x",
    "bind -x '\"a\":touch X'",
    "trap 'touch X' DEBUG",
    "ls() { touch X; }; ls",
    "function ls { touch X; }; ls",
    "[[ -v 'a[$(touch X)]' ]]",
    "((a[$(touch X)]))",
    "echo ${x:=$(touch X)}",
    "enable -f ./x.so ls",
    "hash -p /bin/touch ls; ls X",
    "alias ls=touch\nls X",
    "printf -v 'a[$(touch X)]' x",
    "read 'a[$(touch X)]' < f",
    "test -v 'a[$(touch X)]'",
    "unset 'a[$(touch X)]'",
    "declare 'a[$(touch X)]=1'",
    "let 'a[$(touch X)]'",
    "ssh -oProxyCommand='touch X' h",
    "perl -e 'unlink X'",
    "ed -s f <<< '!touch X'",
    "vim -es -c '!touch X'",
    "less f",
    "git commit -m x",
    "npx touch X",
    "script -qc 'touch X' /dev/null",
    "gdb -ex 'shell touch X'",
    "busybox touch X",
    "sh <<< 'touch X'",
    "bash <<E\ntouch X\nE",
    "source f",
    ". f",
    "chroot / touch X",
    "git bisect run touch X",
    "git submodule foreach 'touch X'",
    "git difftool -x 'touch X'",
    "python -c 'x'",
    "LD_PRELOAD=./x ls",
    "cp x .git/hooks/pre-commit",
    "tee .git/hooks/x",
    "ln -s .git g",
    "strace touch X",
    "time touch X",
    "nohup touch X",
    "! touch X",
    "{ touch X; }",
    "( touch X )",
    "if touch X; then :; fi",
    "git help -a",
    "git -p status",
    "awk -f x",
    "jq -n 'x' | sh",
    "sort --compress-program=./x f",
    "echo $(touch X)",
    "cat <(touch X)",
    "echo `touch X`",
    "x=touch; (( PATH = 1 )); ls",
    "for PATH in .; do ls; done; ls",
    "find . -name x -exec touch {} +",
    "select PATH in .; do ls; done",
    "git -c core.fsmonitor='touch X' status",
    "while read -r PATH; do ls; done < f",
]
"""Commands that start ``touch`` or ``rm``, or that let others start them, in ways that a list of programs does not find."""
DENIED = {"shell(touch *)": "deny", "shell(rm *)": "deny"}


@tool(effects=["execute"], command="line")
def shell(line: str) -> None:
    """Runs."""


def judged(line: str, rules: Any, folder: Path, mode: str = "auto") -> Judgement:
    permissions = Permissions.of(ApprovalMode.of(mode), RuleList.of(rules))
    return permissions.for_tool("shell", as_tool(shell), folder).judge({"line": line})


def test_no_attack_on_a_deny_rule_runs_without_approval(subtests: pytest.Subtests, tmp_path: Path) -> None:
    assert len(ATTACKS) > 90
    for line in ATTACKS:
        with subtests.test(line):
            assert judged(line, DENIED, tmp_path).verdict != "allow"


SETTLED = [
    ("pytest -q | tail -3", "shell(pytest *)", True),
    ("cd sub && pytest -q; ls", "shell(pytest *)", True),
    ("timeout 60 pytest -q", "shell(pytest *)", True),
    ("timeout 60 pytest -q", "shell(timeout 60 pytest *)", True),
    ("sudo pytest -q", "shell(sudo pytest *)", True),
    ("pytest -q && make", "shell(pytest *)", False),
    ("pytest -p x", "shell(pytest *)", False),
    ("pytest -p x", "shell(pytest -p x *)", True),
    ("PATH=. pytest", "shell(pytest *)", False),
    ("pytest > ../x", "shell(pytest *)", False),
    ("pytest", "shell", False),
    ("pytest", "shell(*)", False),
    ("pytest", "shell(*test *)", False),
    ("./run", "shell(./run *)", True),
    ("cd sub && ./run", "shell(./run *)", False),
    ("$X", "shell(pytest *)", False),
]


def test_rule_or_grant_naming_the_program_decides_its_part(subtests: pytest.Subtests, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for line, rule, runs in SETTLED:
        with subtests.test(f"{line} {rule}"):
            assert (judged(line, {**DENIED, rule: "allow"}, tmp_path).verdict == "allow") == runs
            assert judged(line, DENIED, tmp_path).verdict == "ask"
            gate = PermissionGate(Permissions.of(ApprovalMode.of("auto"), RuleList.of(DENIED)), tmp_path)
            run = RunBuilder().add(w.GrantGiven, grant_id="g1", tool="shell", rule=rule).run
            asked = judge((partial(gate, as_tool(shell)),), ToolCall("shell", {"line": line}, "c1"), run)
            assert (asked is None) == runs and (runs or isinstance(asked, AskUnsettled | AskEachTime))


def test_question_about_an_unknown_program_suggests_a_deciding_rule(subtests: pytest.Subtests, tmp_path: Path) -> None:
    offers = {
        "pytest -q | tail": "shell(pytest *)",
        "ls; make test && git status": "shell(make *)",
        "timeout 5 pytest": "shell(pytest *)",
        "git commit -m x": "shell(git commit *)",
        "git commit -c HEAD": "",
        "pytest && make": "",
        "python -c x": "",
    }
    for line, rule in offers.items():
        with subtests.test(line):
            grants = grants_about(ToolCall("shell", {"line": line}), as_tool(shell), tmp_path, reaches=("run",), settles=True)
            assert [grant.rule for grant in grants] == ([rule] if rule else [])
            if rule:
                assert judged(line, {**DENIED, rule: "allow"}, tmp_path).verdict == "allow"


def test_unknown_programs_run_only_without_deny_rules(tmp_path: Path) -> None:
    assert judged("./mine", {"shell(git *)": "ask"}, tmp_path).verdict == "allow"
    assert judged("./mine", {"shell(git *)": "deny"}, tmp_path).unsettled == ("./mine",)


def test_nested_deny_rule_asks_unless_the_outermost_run_allows(tmp_path: Path) -> None:
    inner = Permissions.of(ApprovalMode.of("auto"), RuleList.of({**DENIED, "shell(make *)": "allow"}))
    for outer, verdict in (({"shell(ls *)": "allow"}, "ask"), ({"shell(make *)": "allow"}, "allow")):
        permissions = inner.within(Permissions.of(ApprovalMode.of("auto"), RuleList.of(outer)))
        assert permissions.for_tool("shell", as_tool(shell), tmp_path).judge({"line": "make"}).verdict == verdict


def test_writing_is_considered_harmless_only_inside_the_work_dir(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/mine/.venv/bin:/usr/bin")
    monkeypatch.setenv("HOME", f"{tmp_path}/mine")
    work = tmp_path / "mine"
    (work / "sub").mkdir(parents=True)
    (work / "up").symlink_to("..")
    (work / "bare").mkdir()
    (work / "bare" / "HEAD").touch()
    cases = {
        "echo x > a": "allow",
        "echo x > sub/a": "allow",
        "cd sub && echo x > ../a": "ask",
        "cd sub && echo x > a": "allow",
        "echo x > ../a": "ask",
        "echo x > up/a": "ask",
        "cd up && echo x > a": "ask",
        "cd $X && echo x > a": "ask",
        "echo x > .git/a": "ask",
        "echo x > sub/.GIT/a": "ask",
        "echo x > .agentnb/a": "ask",
        "echo x > sub/config": "ask",
        "echo x > bare": "ask",
        "cp a .venv/bin/ls": "ask",
        "echo x > .venv/lib/site-packages/x.pth": "ask",
        "mv sub .venv": "ask",
        "echo x > .gitconfig": "ask",
        "echo x > sub/.hidden": "allow",
        "git -C sub status": "allow",
        "git -C bare status": "ask",
        "git -C .. status": "ask",
        f"echo x > {work}/a": "allow",
    }
    for line, verdict in cases.items():
        with subtests.test(line):
            assert judged(line, DENIED, work).verdict == verdict


COMPOUNDS = [
    ("cd sub && git diff | head", "allow"),
    ("cd sub; git diff || head -n 3\ngit diff", "allow"),
    ("git diff 2>/dev/null | head 2>&1", "allow"),
    ("cd .. && git diff", "ask"),
    ("cd up && git diff", "ask"),
    ("cd $X && git diff", "ask"),
    ("cd && git diff", "ask"),
    ("git diff | tail", "ask"),
    ("git diff & head", "ask"),
    ("git diff | head > x", "ask"),
    ("git diff $(head)", "ask"),
    ("(git diff)", "ask"),
    ("head <<< x", "ask"),
    ("! git diff", "ask"),
    ("cd sub", "ask"),
]


def test_command_list_is_allowed_if_every_part_is(subtests: pytest.Subtests, tmp_path: Path) -> None:
    (tmp_path / "mine" / "sub").mkdir(parents=True)
    (tmp_path / "mine" / "up").symlink_to("..")
    rules = {"shell(git diff *)": "allow", "shell(head *)": "allow"}
    for line, verdict in COMPOUNDS:
        with subtests.test(line):
            assert judged(line, rules, tmp_path / "mine", "rules").verdict == verdict
    assert judged("git diff | head", {"shell(git d*)": "ask", **rules}, tmp_path, "rules").verdict == "ask"
    grant = RunBuilder().add(w.GrantGiven, grant_id="g1", tool="shell", rule="shell(git diff *)").run
    gate = partial(PermissionGate(Permissions(), tmp_path), as_tool(shell))
    assert isinstance(judge((gate,), ToolCall("shell", {"line": "git diff | head"}, "c1"), grant), AskByRules)
