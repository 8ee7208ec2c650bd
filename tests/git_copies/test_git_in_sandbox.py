"""Git in the sandbox behaves as outside, also with concurrent commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from bash_calls import call_bash, skip_without_sandbox

from agentnb.git_copies import way_back
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.tool import ToolContext

NOW = f"{int(time.time())} +0000"  # otherwise git would drop old reflog lines
DATES = {"GIT_AUTHOR_DATE": NOW, "GIT_COMMITTER_DATE": NOW}
SHELL = Shell(sandbox="bwrap", env=DATES, timeout=120)
SETUP = """
git init -q . && echo a > a && git add . && git commit -qm one && echo b > b && git add . && git commit -qm two
git switch -qc side && echo s > s && git add . && git commit -qm side && git switch -q main
echo c > c && git add . && git commit -qm three && git tag v0 && git tag -am note v1
"""
PROBES = """
git status --porcelain -b; git for-each-ref --format='%(refname) %(objectname)' | grep -v refs/agentnb; cat .git/HEAD
git reflog --format='%H %gs'; git stash list; git worktree list | wc -l; git ls-files -s; git fsck --no-dangling 2>&1
"""
SEQUENCES = {
    "commit": "echo x > x && git add x && git commit -qm x",
    "amended commit": "git commit -q --amend -m amended",
    "part of a commit": "echo 1 >> a; echo 2 >> b; git add a; git commit -qm a; git add b",
    "switch to a new branch": "git switch -qc new && echo n > n && git add n && git commit -qm n",
    "switch there and back": "git switch -q side && git switch -q -",
    "merge": "git merge -q side -m merged",
    "fast-forward": "git switch -qc old HEAD~1 && git merge -q --ff-only main",
    "aborted merge": "git switch -qc c2 HEAD~1; echo o > c; git add c; git commit -qm o; git merge -q main; git merge --abort",
    "rebase": "git switch -q side && git rebase -q main",
    "rebase with edits": "GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -q -i HEAD~2",
    "stash and pop": "echo y >> a && git stash -q && git stash pop -q",
    "two stashes": "for f in a b c; do echo y >> $f; git stash -q; done; git stash drop -q stash@{1}",
    "removed branches": "git switch -qc gone && git switch -q main && git branch -d gone && git branch -D side",
    "renamed branch": "git branch -m main trunk && git switch -qc x/y",
    "garbage": "echo g > g && git add g && git commit -qm g && git gc -q --prune=now && git repack -adq && git prune",
    "packed refs": "git pack-refs --all && git commit -q --allow-empty -m p && git branch p",
    "tags": "git tag v2 && git tag -am second v3 && git tag -d v1",
    "cherry-pick": "git cherry-pick side",
    "revert": "git revert --no-edit HEAD",
    "reset": "git reset -q --hard HEAD~2",
    "reset by the log": "git reset -q --hard HEAD~1; git reset -q --hard HEAD@{1}",
    "worktree": "git worktree add -q wt -b tree; cd wt && echo w > w && git add w && git commit -qm w && git worktree remove .",
    "without a branch": "git checkout -q --detach && echo d > d && git add d && git commit -qm d",
    "first commit of a branch": "git switch -q --orphan fresh && echo f > f && git add f && git commit -qm f",
    "note": "git notes add -m hello",
    "removed file": "git rm -q a && git mv b bb && git commit -qm moved",
}


@pytest.fixture(autouse=True)
def sandbox() -> None:
    skip_without_sandbox()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n")
    (tmp_path / "project").mkdir()
    host(tmp_path / "project", SETUP)
    return tmp_path / "project"


def host(folder: Path, command: str) -> str:
    """Run a command of the person."""
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, env={**os.environ, **DATES})
    return done.stdout + done.stderr


def bash(folder: Path, command: str) -> str:
    return call_bash(SHELL, folder, command).text


@pytest.mark.nightly("by day git works in the sandbox, and its traps do nothing")
@pytest.mark.slow("26 repositories, each once in the sandbox and once outside")
def test_sandboxed_git_has_the_same_effect_as_outside(work: Path, subtests: pytest.Subtests) -> None:
    for case, command in SEQUENCES.items():
        with subtests.test(case):
            inside, outside = work.parent / "in" / "project", work.parent / "out" / "project"
            for folder in (inside, outside):
                shutil.rmtree(folder.parent, ignore_errors=True)
                shutil.copytree(work, folder)
            text = bash(inside, command)
            host(outside, command)
            assert host(inside, PROBES) == host(outside, PROBES), text
            added = {path.name for path in (inside / ".git").iterdir()} - {path.name for path in (work / ".git").iterdir()}
            assert added <= {"ORIG_HEAD"}


def test_commits_work_in_nested_repositories_and_linked_worktrees(work: Path, subtests: pytest.Subtests) -> None:
    host(work, "git worktree add -q ../tree -b tree; git worktree add -q inner -b inner; git init -q own")
    source = work.parent / "source"
    source.mkdir()
    host(source, SETUP)
    host(work, f"git -c protocol.file.allow=always submodule add -q {source} sub; git commit -qm sub")
    for case, (folder, place) in {
        "a worktree elsewhere": (work.parent / "tree", "."),
        "a worktree inside": (work, "inner"),
        "a repository inside": (work, "own"),
        "a submodule": (work, "sub"),
        "the folder of a submodule": (work / "sub", "."),
    }.items():
        with subtests.test(case):
            bash(folder, f"cd {place} && echo x >> x && git add x && git commit -qm 'from inside'")
            assert host(folder / place, "git log -1 --format=%s; git status --porcelain") == "from inside\n"


def test_unfinished_git_operation_of_the_user_is_kept(work: Path, subtests: pytest.Subtests) -> None:
    host(work, "git switch -q side; echo other > c; git add c; git commit -qm other")
    for case, begin, command in (
        ("rebase", "git rebase -q main", "git rebase --abort; git rebase --continue; rm -rf .git/rebase-merge"),
        ("merge", "git merge -q main", "rm .git/MERGE_HEAD .git/MERGE_MSG; git add c; echo y > y; git add y"),
        ("cherry-pick", "git cherry-pick main", "git cherry-pick --quit; rm -f .git/CHERRY_PICK_HEAD"),
    ):
        with subtests.test(case):
            folder = work.parent / case / "project"
            shutil.copytree(work, folder)
            host(folder, begin)
            states = ("rebase-merge", "MERGE_HEAD", "MERGE_MSG", "CHERRY_PICK_HEAD")
            before = [host(folder, f"cat .git/{state} .git/{state}/*") for state in states]
            bash(folder, command)
            assert [host(folder, f"cat .git/{state} .git/{state}/*") for state in states] == before


def test_commits_dropped_by_a_command_are_kept(work: Path, subtests: pytest.Subtests) -> None:
    host(work, "git switch -qc topic; git commit -q --allow-empty -m topic; git switch -q main; echo s >> a; git stash -q")
    host(work, "git reflog expire --expire=now --expire-unreachable=now HEAD main topic side")
    tips = host(work, "git rev-parse main side topic v1 stash").split()
    for case, command in {
        "branches": "git branch -D side topic; git stash drop -q; git tag -d v0 v1",
        "the refs": "rm -rf .git/refs .git/packed-refs",
        "the objects": "rm -rf .git/objects; rm -rf .git/logs",
        "everything": "rm -rf .git/*",
        "moved branches": "for b in main side topic; do git update-ref refs/heads/$b v0~2; done; git gc -q; git stash clear",
        "old dates": "export GIT_COMMITTER_DATE='1 +0000'; git reset -q --hard v0~2; git branch -M topic; git branch -D side",
    }.items():
        with subtests.test(case):
            folder = work.parent / case / "project"
            shutil.copytree(work, folder)
            bash(folder, command)
            commits = host(
                folder, "git gc -q --prune=now; git for-each-ref --format='%(objectname)'; git rev-list --all --reflog"
            )
            assert set(tips) <= set(commits.split())
            assert host(folder, "git fsck --no-dangling 2>&1") == ""


def test_concurrent_changes_of_the_user_take_precedence(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_back = way_back.transfer_changes

    def after_the_person(*arguments: object) -> way_back.Returned:
        host(work, "git commit -q --allow-empty -m mine; git branch -f side; git add mine")
        return give_back(*arguments)  # type: ignore[arg-type]

    (work / "mine").write_text("mine")
    monkeypatch.setattr("agentnb.tools.builtin.shell.sandbox.transfer_changes", after_the_person)
    text = bash(work, "git branch theirs; git branch -f side HEAD~1; echo t > t; git add t; git commit -qm theirs")
    assert host(work, "git log --format=%s main") == host(work, "git log --format=%s side") == "mine\nthree\ntwo\none\n"
    assert host(work, "git rev-parse theirs v0^{}").split()[0] == host(work, "git rev-parse v0^{}").strip()
    assert "A  mine" in host(work, "git status --porcelain")
    for name in ("refs/heads/main", "refs/heads/side", "index"):
        assert f".git/{name}" in text.partition("meanwhile")[2], name


FINISHED = "git commit -q --allow-empty -m done; touch .git/index.lock; echo finished > fifo; sleep 999"


def test_stopped_commands_keep_their_finished_work(work: Path) -> None:
    os.mkfifo(work / "fifo")

    async def stopped() -> None:
        context = ToolContext("r-1", "toolu_1", work, call_in_thread)
        task = asyncio.create_task(SHELL.tools[0].run({"command": FINISHED}, context))
        assert await asyncio.to_thread((work / "fifo").read_text) == "finished\n"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    assert host(work, "git log -1 --format=%s; git commit -q --allow-empty -m mine") == "done\n"


def test_killed_kernel_leaves_git_unchanged(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work.parent / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work.parent / "temporary"))
    os.mkfifo(work / "fifo")
    before = host(work, f"{PROBES}; ls -R .git")
    kernel = os.fork()
    if not kernel:
        with contextlib.suppress(BaseException):
            bash(work, FINISHED)
        os._exit(1)
    assert (work / "fifo").read_text() == "finished\n"
    os.kill(kernel, signal.SIGKILL)
    os.waitpid(kernel, 0)
    assert host(work, f"{PROBES}; ls -R .git") == before
