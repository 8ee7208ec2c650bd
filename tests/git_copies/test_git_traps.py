"""Traps that a sandboxed command sets in `.git` do not affect the user's git."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from bash_calls import call_bash, skip_without_sandbox
from property_settings import AT_NIGHT, size

from agentnb.tools.builtin.shell.shell_group import Shell

SHELL = Shell(sandbox="bwrap", timeout=120)
SETUP = """
git init -q --template= . && mkdir .git/hooks .git/info && echo a > a && git add . && git commit -qm one
echo b > b && git add . && git commit -qm two
git branch side && git tag v1
"""
PERSON = """
git status; git rebase --continue; git checkout -q .; git fetch -q . side; echo mine > mine; git add mine; git commit -q -m mine
"""
MORE = """
git cherry-pick --continue; git merge --continue; git log -g; echo b >> b; git stash; git stash pop; git checkout -q .
git switch -q side; git status; git switch -q main; git gc -q; git submodule update; git branch -a; git diff v1
"""
ALLOWED = {"objects", "refs", "logs", "index", "HEAD", "ORIG_HEAD", "packed-refs"}
RUN = "touch {home}/ran; false"
PLANTED_INDEX = r"""
git update-index --add --cacheinfo 100755,$(echo 'touch {home}/ran' | git hash-object -w --stdin),xgit/hooks/post-checkout
python3 - <<'END'
import hashlib
data = open(".git/index", "rb").read()[:-20].replace(b"xgit/hooks", b"{name}/hooks")
open(".git/index", "wb").write(data + hashlib.sha1(data).digest())
END
"""
REBASE = """
mkdir -p .git/rebase-merge && cd .git/rebase-merge && echo "exec {run}" > git-rebase-todo && touch interactive done
git rev-parse HEAD | tee onto orig-head head > /dev/null; echo refs/heads/main > head-name; echo 1 | tee msgnum end > /dev/null
"""
LINKED = (
    *(
        "COMMIT_EDITMSG",
        "FETCH_HEAD",
        "HEAD",
        "logs/HEAD",
        "refs/heads/main",
        "packed-refs",
        "ORIG_HEAD",
        "MERGE_MSG",
        "SQUASH_MSG",
    ),
    *("index", "gc.log", "config", "logs/refs/heads/main", "refs/heads/new", "logs/refs/stash", "info/exclude", "shallow"),
)
FOLDERS = ("refs", "logs", "objects", "objects/pack", "refs/heads", "logs/refs", "info", "objects/4b", "worktrees", "rr-cache")
PIPES = ("COMMIT_EDITMSG", "HEAD", "index", "refs/heads/pipe", "logs/HEAD", "objects/pack/pack-1.pack", "packed-refs", "config")
TRAPS = {
    **{f"a link {name}": f"rm -f .git/{name}; ln -s {{home}}/.bashrc .git/{name}" for name in LINKED[: size(3, nightly=99)]},
    **{
        f"a linked folder {name}": f"rm -rf .git/{name}; ln -s {{home}}/folder .git/{name}"
        for name in FOLDERS[: size(2, nightly=99)]
    },
    **{f"a pipe {name}": f"rm -f .git/{name}; mkfifo .git/{name}" for name in PIPES[: size(1, nightly=99)]},
    "a rebase that runs": REBASE,
    "a rebase that stopped": "git rebase -x '{run}' HEAD~1",
    "a merge with a message": "git rev-parse side > .git/MERGE_HEAD; echo x > .git/MERGE_MSG; echo > .git/MERGE_MODE",
    "a cherry-pick": "mkdir .git/sequencer; echo pick v1 > .git/sequencer/todo; git rev-parse v1 > .git/CHERRY_PICK_HEAD",
    "settings": "printf '[core]\\n\\tfsmonitor = \"{run}\"\\n' >> .git/config",
    "settings by git": "git config core.fsmonitor '{run}'; git config alias.status '!{run}'; git config core.hooksPath h",
    "settings of a worktree": "printf '[core]\\n\\tfsmonitor = \"{run}\"\\n' > .git/config.worktree",
    "attributes": "echo '* filter=x' > .git/info/attributes; git config filter.x.clean '{run}'",
    "hooks": "for h in pre-commit post-checkout; do echo '{run}' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
    "other hooks": "rm .git/hooks; mkdir .git/hooks; echo '{run}' > .git/hooks/post-commit; chmod +x .git/hooks/*",
    "a worktree": "git worktree add -q t; cd .git/worktrees/t; echo '{run}' > config.worktree; echo .. > commondir",
    "a module": "mkdir -p .git/modules/m/hooks; echo '{run}' > .git/modules/m/hooks/post-checkout",
    "a way to another folder": "cp -r .git e; git config -f e/config core.fsmonitor '{run}'; echo ../e > .git/commondir",
    "a way back": "echo ../evil > .git/gitdir; echo /x > .git/objects/info/alternates",
    "another folder": "cp -r .git evil; git config -f evil/config core.fsmonitor '{run}'; mv .git g; mv evil .git; rm -rf .git",
    "a file": "cp -r .git evil; git config -f evil/config core.fsmonitor '{run}'; mv .git g; echo gitdir: evil > .git",
    "grafts": "git rev-parse v1 > .git/info/grafts; git rev-parse v1 > .git/shallow",
    "replaced commits": "git replace v1 side~1; git commit -q --allow-empty -m x; git replace HEAD side",
    "refs without sense": "echo x > .git/refs/heads/x; echo 'ref: ../../x' > .git/refs/heads/y; echo > .git/refs/heads/z..w",
    "refs to nothing": "echo 0123456789012345678901234567890123456789 | tee .git/refs/heads/main .git/ORIG_HEAD .git/HEAD",
    "a head elsewhere": "echo 'ref: ../../.bashrc' > .git/HEAD",
    "a head that is no branch": "echo 'ref: refs/heads/../../config' > .git/HEAD",
    "a false object": "mkdir -p .git/objects/01; cp .git/objects.*/*/* .git/objects/01/23456789012345678901234567890123456789; "
    "echo x > .git/objects/01/x; echo x > .git/objects/pack/pack-1.pack",
    "an index with hooks": PLANTED_INDEX.replace("{name}", ".git"),
    "an index with hooks in capitals": PLANTED_INDEX.replace("{name}", ".GIT"),
    "an index with dots": PLANTED_INDEX.replace("{name}/hooks", "../../hook"),
    "no index": "echo x > .git/index",
    "a repository in the index": "git init -q in && git -C in commit -q --allow-empty -m x && git add in; "
    "git -C in config core.fsmonitor '{run}'; git commit -qm in",
    "a lock": "touch .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock .git/packed-refs.lock",
    "hard links": "ln a .git/COMMIT_EDITMSG; ln -f .git/config c; ln {home}/.bashrc .git/x",
    "a socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".git/fsmonitor--daemon.ipc\")'",
    "modes": "chmod 4777 .git/index .git/HEAD .git; chmod 000 .git/refs; git branch m; chmod -R 4777 .git/refs",
    "a process that stays": "(setsid sh -c 'while :; do ln -sfn {home}/.bashrc .git/COMMIT_EDITMSG; rm -f .git/HEAD; "
    "ln -s {home}/.bashrc .git/HEAD; done' >/dev/null 2>&1 &)",
    "deep folders": "cd .git/refs/heads; for i in $(seq 300); do mkdir -p d && cd d; done; echo x > x",
    "names with lines": "echo x > \".git/$(printf 'a\\nb\\033[2J')\"; git update-ref refs/heads/x HEAD",
}

LIKE_OTHERS = {
    "settings by git",
    "settings of a worktree",
    "attributes",
    "other hooks",
    "a merge with a message",
    "a cherry-pick",
    "a rebase that stopped",
    "a module",
    "a way to another folder",
    "a way back",
    "a file",
    "grafts",
    "a head elsewhere",
    "a lock",
    "a socket",
}
"""Traps that agentnb meets as others of the table, as files that it never copies back: at night."""


@pytest.fixture(autouse=True)
def sandbox() -> None:
    skip_without_sandbox()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, with a repository to copy."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_EDITOR", "true")
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / ".bashrc").write_text("# mine\n")
    (tmp_path / "template").mkdir()
    host(tmp_path / "template", SETUP)
    return tmp_path


def host(folder: Path, command: str) -> str:
    """Run a command of the person."""
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, errors="replace", timeout=60)
    return done.stdout + done.stderr


def untouched(home: Path) -> list[str]:
    return [
        (home / ".bashrc").read_text(),
        *sorted(path.name for path in (home / "folder").iterdir()),
        str((home / "ran").exists()),
    ]


@pytest.mark.slow("28 traps, at night seventy, and after each commands of git")
def test_git_traps_never_affect_the_user(home: Path, subtests: pytest.Subtests) -> None:
    before = untouched(home)
    for case, command in TRAPS.items():
        if case in LIKE_OTHERS and not AT_NIGHT:
            continue
        with subtests.test(case):
            work = home / "work" / "project"
            shutil.rmtree(work.parent, ignore_errors=True)
            shutil.copytree(home / "template", work, symlinks=True)
            names = {path.name for path in (work / ".git").iterdir()}
            text = call_bash(SHELL, work, command.replace("{run}", RUN).replace("{home}", str(home))).text
            added = {path.relative_to(work / ".git") for path in (work / ".git").rglob("*")}
            modes = [(work / ".git" / path).lstat().st_mode for path in added]
            if case.startswith(("a link", "a pipe")):
                assert f".git/{case.split()[-1]}" in text or ".git/*" in text, "what is not kept is named"
            assert {stat.S_IFMT(mode) for mode in modes} <= {stat.S_IFREG, stat.S_IFDIR}, text
            assert {path.parts[0] for path in added} <= names | ALLOWED and not any(mode & stat.S_ISUID for mode in modes), text
            seen = host(work, PERSON)
            assert host(work, "git log -1 --format=%s; git fsck --no-dangling --connectivity-only") == "mine\n", (text, seen)
            seen += host(work, MORE) if size(0, nightly=1) else ""
            assert untouched(home) == before, (text, seen)


def test_missing_submodule_cannot_be_created(home: Path, subtests: pytest.Subtests) -> None:
    work = home / "work" / "project"
    shutil.copytree(home / "template", work)
    host(work, f"git -c protocol.file.allow=always submodule add -q {home}/template sub; git commit -qm sub")
    evil = f"git init -q sub && git -C sub commit -q --allow-empty -m x; git -C sub config core.fsmonitor '{RUN}'"
    for case, setup, command in (
        ("not there", "git submodule deinit -qf sub", evil),
        ("removed", "rm -r sub", evil),
        (
            "there",
            "git -c protocol.file.allow=always submodule update -q --init",
            "rm sub/.git; mv sub s; " + evil,
        ),
    ):
        with subtests.test(case):
            host(work, setup)
            call_bash(SHELL, work, command.replace("{home}", str(home)))
            host(work, "git status; git diff; git add .; git commit -qm x")
            assert not (home / "ran").exists()


def test_folders_referenced_by_git_cannot_be_moved(home: Path, subtests: pytest.Subtests) -> None:
    for case, setup in {
        "a setting": "mkdir -p tools/hooks; git config core.hooksPath tools/hooks",
        "a setting to nothing": "git config core.hooksPath tools/hooks",
        "a link": "mkdir -p tools/hooks; rm -r .git/hooks; ln -s ../tools/hooks .git/hooks",
    }.items():
        with subtests.test(case):
            work = home / case
            shutil.copytree(home / "template", work)
            host(work, setup)
            outcome = call_bash(
                SHELL,
                work,
                "mv tools t; mkdir -p tools/hooks; for h in pre-commit post-commit; do "
                f"echo 'touch {home}/ran' > tools/hooks/$h; chmod +x tools/hooks/$h; done; ls a",
            )
            assert (outcome.ok, outcome.text.splitlines()[0]) == (True, "a")
            host(work, "git commit -q --allow-empty -m x")
            assert not (home / "ran").exists() and (work / "tools").is_dir() == (case != "a setting to nothing")
