"""Environment and program of a git process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from git_repositories import GitRepository

from agentnb.tools.builtin.git.protection import MAX_NAMES, protected_environment, protected_settings
from agentnb.tools.tool import ToolRefused

OF_KERNEL = {
    "GIT_DIR": "/nowhere",
    "GIT_WORK_TREE": "/nowhere",
    "GIT_INDEX_FILE": "/nowhere/index",
    "GIT_CONFIG_GLOBAL": "/nowhere/config",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "diff.external",
    "GIT_CONFIG_VALUE_0": "{program}",
    "GIT_CONFIG_PARAMETERS": "'diff.external'='{program}'",
    "GIT_EXTERNAL_DIFF": "{program}",
    "GIT_TRACE": "{folder}/trace",
    "GIT_TRACE2_EVENT": "{folder}/trace",
    "GIT_EXEC_PATH": "{folder}",
    "GIT_SSH_COMMAND": "{program}",
    "GIT_AUTHOR_NAME": "Somebody",
    "GIT_PAGER": "{program}",
    "OPENAI_API_KEY": "sk-not-for-git",
}


def test_git_does_not_inherit_the_kernel_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = GitRepository.make(Path("r").absolute())
    repository.commit("First", a_txt="1\n")
    repository.write("a.txt", "2\n")
    marker, folder = Path("marker").absolute(), Path("elsewhere").absolute()
    folder.mkdir()
    program = folder / "program"
    program.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    program.chmod(0o755)
    repository.git("diff", GIT_EXTERNAL_DIFF=str(program))
    assert marker.exists(), "plain git runs it"
    marker.unlink()
    for name, value in OF_KERNEL.items():
        monkeypatch.setenv(name, value.format(program=program, folder=folder))
    assert "+2" in repository.text("git_diff")
    repository.text("git_add", paths=["."])
    repository.text("git_commit", message="Second")
    assert not marker.exists() and [path.name for path in folder.iterdir()] == ["program"]
    assert "Ada <ada@example.org>" in repository.text("git_log")
    environment = protected_environment(["/bin"], [])
    names = {name for name in environment if not name.startswith("GIT_")}
    assert (names, environment["PATH"], environment["HOME"]) == ({"PATH", "HOME", "LC_ALL"}, "/bin", str(Path.home()))


def test_program_in_the_repository_is_not_mistaken_for_git(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = GitRepository.make(Path("r").absolute())
    marker = Path("marker").absolute()
    path = repository.write("bin/git", f"#!/bin/sh\ntouch '{marker}'\n")
    path.chmod(0o755)
    usual = os.environ["PATH"]
    for folder in (str(path.parent), ".", "bin", ""):
        monkeypatch.chdir(path.parent if folder != "bin" else repository.folder)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{usual}")
        assert "bin/" in repository.text("git_status")
        assert not marker.exists(), folder


def test_programs_named_by_repository_settings_are_disabled() -> None:
    names = ["filter.a=b.c\nd.clean", "hook.x.command", "submodule.a.b.update", "core.bare", "remote.o.url"]
    chosen = {name: value for name, value in protected_settings(names).items() if name not in protected_settings([])}
    assert chosen == {"filter.a=b.c\nd.clean": "", "hook.x.enabled": "false", "submodule.a.b.update": "none"}
    with pytest.raises(ToolRefused):
        protected_settings([f"filter.{number}.clean" for number in range(MAX_NAMES + 1)])
