"""Git directories and the store of runs are not written under any name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from file_desk import FileDesk
from msgspec.structs import replace

from agentnb import settings
from agentnb.tools.builtin.files import confined, protected
from agentnb.tools.builtin.files.protected import is_protected_name
from agentnb.tools.tool import ToolContext

PROTECTED = [
    ".git",
    ".GIT",
    ".Git",
    ".git ",
    ".git.",
    ".git. .",
    ".g\u200cit",
    "git~1",
    "GIT~1",
    "git~23",
    ".git:x",
    ".agentnb",
    ".AgentNB.",
]
PROTECTED += ["agentn~1", ".git::$INDEX_ALLOCATION"]
FREE = [".gitignore", ".gitattributes", ".github", "git", "agentnb", "x.git", "git~", "git~1x", ".agentnb2", ". git", ".git~"]


def git(folder: Path, *arguments: str) -> None:
    """Run git without the settings of the machine."""
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    subprocess.run(
        ["git", "-C", str(folder), "-c", "init.defaultBranch=main", *arguments],
        check=True,
        capture_output=True,
        env=environment,
    )


def test_protected_names_are_recognized_in_any_spelling(subtests: pytest.Subtests) -> None:
    for expected, names in ((True, PROTECTED), (False, FREE)):
        for name in names:
            with subtests.test(repr(name)):
                assert is_protected_name(name) is expected


def test_protected_paths_cannot_be_written(subtests: pytest.Subtests, desk: FileDesk, snapshot: Snapshot) -> None:
    desk.put({".git/config": "[core]\n", ".agentnb/runs/r.jsonl": "{}\n", "sub/.git/config": "[core]\n", "a.txt": "a\n"})
    (desk.folder / "link").symlink_to(".git")
    (desk.folder / "to_config").symlink_to(".git/config")
    (desk.folder / "runs").symlink_to(".agentnb/runs")
    (desk.folder / "tree").mkdir()
    (desk.folder / "tree" / ".git").symlink_to("../sub")
    before = desk.tree()
    paths = [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git",
        ".GIT/config",
        ".git /config",
        "sub/.git/config",
        "link/config",
        "to_config",
    ]
    paths += [
        ".agentnb/runs/r.jsonl",
        "runs/new.jsonl",
        ".agentnb/x",
        f"{desk.folder}/.git/config",
        "new/.git",
        "new/.git/config",
    ]
    paths += ["sub/../.git/config", ".git/../.git/x", "git~1/config", "tree/.git/config"]
    for path in paths:
        for name, arguments in {"write_file": {"content": "x"}, "edit_file": {"old": "core", "new": "x"}}.items():
            with subtests.test(f"{name} {path}"):
                assert desk.code(name, path=path, **arguments) == "protected_path"
    assert desk.call("write_file", path=".git/config", content="x").text == snapshot
    assert desk.tree() == before and not (desk.folder / "new").exists()
    desk.text("read_file", path=".git/config")
    desk.text("write_file", path=".gitignore", content="*.pyc\n")


@pytest.mark.parametrize("kind", ["separate", "linked", "worktree", "submodule", "bare", "swapped"])
def test_renamed_git_directory_is_still_protected(desk: FileDesk, kind: str) -> None:
    work = desk.folder
    if kind == "separate":
        git(work, "init", "--separate-git-dir=store")
    elif kind == "linked":
        git(work, "init")
        (work / ".git").rename(work / "store")
        (work / ".git").symlink_to("store")
    elif kind == "bare":
        git(work, "init", "--bare", "store")
    elif kind == "submodule":  # a git directory that lacks its HEAD, named by a file
        desk.put({"store/config": "x", ".git": "gitdir: store\n"})
    elif kind == "swapped":  # that of a worktree by its layout alone
        desk.put({"store/HEAD": "ref: refs/heads/main\n", "store/commondir": "../common\n"})
    else:
        git(work, "init", "main")
        git(work / "main", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--allow-empty", "-m", "first")
        git(work / "main", "worktree", "add", "../tree")
        (work / "main" / ".git").rename(work / "store")
        (work / "tree" / ".git").write_text(f"gitdir: {work}/store/worktrees/tree\n")
    before = desk.tree()
    for path in ("store/config", "store/hooks/pre-commit", "store/new/x", "store/HEAD"):
        assert desk.code("write_file", path=path, content="x") == "protected_path", path
    for path in ("tree/.git", ".git"):
        assert desk.code("write_file", path=path, content="gitdir: elsewhere\n") == "protected_path"
    assert desk.tree() == before
    desk.text("write_file", path="other/HEAD", content="a word")
    desk.text("write_file", path="other/objects/x", content="a word")
    desk.text("write_file", path="free.txt", content="x")


def test_write_cannot_complete_a_partial_git_directory(subtests: pytest.Subtests, desk: FileDesk, snapshot: Snapshot) -> None:
    text = "ref: refs/heads/main\n"
    for last, before in {
        "HEAD": ("objects/x", "refs/x"),
        "refs/x": ("HEAD", "objects/x"),
        "objects/x/y": ("HEAD", "refs/x"),
        "commondir": ("HEAD",),
        "head": ("commondir",),
    }.items():
        with subtests.test(last):
            folder = f"a/in-{last.replace('/', '-')}"
            desk.put({f"{folder}/{path}": text for path in before})
            assert desk.code("write_file", path=f"{folder}/{last}", content=text) == "protected_path"
            assert not (desk.folder / folder / last.partition("/")[0]).exists()
            desk.text("write_file", path=f"{folder}/x", content=text)
    assert desk.call("write_file", path="a/in-HEAD/HEAD", content=text).text == snapshot


def test_parts_of_git_directories_are_written_under_a_lock(desk: FileDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    monkeypatch.setattr(desk.services, "keep_before", lambda *_: held.append(protected._GitPartsLock.lock.locked()))
    for path in ("x/HEAD", "x/Refs/y", "x/y"):
        desk.text("write_file", path=path, content="x")
    assert held == [True, True, False]


def test_personal_folder_is_neither_read_nor_written(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    own = desk.folder / "share" / "agentnb"
    monkeypatch.setattr(settings, "personal_folder", lambda: own)
    assert desk.code("write_file", path="share/agentnb/new.txt", content="x") == "protected_path", "before it exists"
    desk.put({"share/agentnb/secret": "of the person\n", "share/agentnb2/a.txt": "a person\n"})
    (desk.folder / "hard").hardlink_to(own / "secret")
    (desk.folder / "link").symlink_to(own)
    for path in ("share/agentnb/secret", "share/AGENTNB/secret", "link/secret", "hard", "share/x/../agentnb/secret"):
        for name, arguments in {
            "read_file": {},
            "write_file": {"content": "x"},
            "edit_file": {"old": "of", "new": "x"},
            "search_files": {"pattern": "of"},
        }.items():
            if (path, name) == ("hard", "search_files") or not (desk.folder / path).exists():
                continue
            with subtests.test(f"{name} {path}"):
                assert desk.code(name, path=path, **arguments) == "protected_path"
    assert desk.call("read_file", path="link/secret").text == snapshot
    assert desk.code("list_files", path="link") == "protected_path"
    matches = desk.text("search_files", pattern="person")
    assert "agentnb2/a.txt:1:" in matches and ":1: of the" not in matches
    (own / "alone").write_text("x")
    desk.context = replace(desk.context, work_dir=own)
    assert desk.code("read_file", path="alone") == "protected_path"
    assert own.joinpath("secret").read_text() == "of the person\n"


def test_personal_folder_is_recognized_under_other_paths(
    subtests: pytest.Subtests, desk: FileDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "personal_folder", lambda: desk.folder / "own")
    monkeypatch.setattr(confined, "is_personal", lambda path: False)  # as with a second mount of it
    desk.put({"own/in/a.txt": "a word\n"})
    for name, arguments in {
        "read_file": {"path": "own/in/a.txt"},
        "write_file": {"path": "own/in/a.txt", "content": "x"},
        "list_files": {"path": "own"},
        "search_files": {"path": "own/in", "pattern": "word"},
    }.items():
        with subtests.test(name):
            assert desk.code(name, **arguments) == "protected_path"
    assert "a word" not in desk.text("search_files", pattern="word")


def test_unusual_git_files_do_not_block(subtests: pytest.Subtests, desk: FileDesk) -> None:
    for name, text in {"empty": "", "bytes": b"\xff\0", "zero": "gitdir: a\0b\n", "elsewhere": "gitdir: /nowhere\n"}.items():
        with subtests.test(name):
            desk.put({".git": text})
            desk.text("write_file", path="a.txt", content=name)
    (desk.folder / ".git").unlink()
    os.mkfifo(desk.folder / ".git")
    desk.text("write_file", path="a.txt", content="beside a pipe")


def test_nothing_is_written_when_working_inside_a_git_directory(desk: FileDesk) -> None:
    desk.put({".git/hooks/x": "x", ".agentnb/runs/x": "x"})
    for folder in (".git/hooks", ".agentnb", ".agentnb/runs"):
        context = ToolContext("r-1", "c", desk.folder / folder, desk.context.run_plain)
        desk.context = context
        assert desk.code("write_file", path="x", content="y") == "protected_path"
        desk.context = ToolContext("r-1", "c", desk.folder, context.run_plain)


def test_run_store_is_not_written_through_any_path(desk: FileDesk) -> None:
    desk.put({"logs/1.jsonl": "{}\n", "logs2/a.txt": "a\n"})
    (desk.folder / "link").symlink_to("logs")
    desk.context = replace(desk.context, store_folder=desk.folder / "logs")
    for path in ("logs/1.jsonl", "logs/new.jsonl", "LOGS/new.jsonl", "link/1.jsonl"):
        if path != "LOGS/new.jsonl" or (desk.folder / "LOGS").exists():
            assert desk.code("write_file", path=path, content="x") == "protected_path"
    assert desk.code("write_file", path="logs2/a.txt", content="x") is None


def test_backups_of_files_are_not_readable(desk: FileDesk) -> None:
    desk.put({".agentnb/runs/.before-1/0": "old key", "a.txt": "old\n"})
    (desk.folder / "link").symlink_to(".agentnb/runs/.before-1/0")
    for path in (".agentnb/runs/.before-1/0", ".agentnb/runs/.BEFORE-1/0", "link"):
        if path != ".agentnb/runs/.BEFORE-1/0" or (desk.folder / path).exists():
            assert desk.code("read_file", path=path) == "protected_path"
    assert desk.code("list_files", path=".agentnb/runs/.before-1") == "protected_path"
    assert desk.code("search_files", pattern="old", path=".agentnb/runs/.before-1") == "protected_path"
    assert "old key" not in desk.text("search_files", pattern="old", path=".agentnb")
