"""Git repositories for tests, and calls of the git tools in them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.git.git_group import Git
from agentnb.tools.tool import ToolContext, ToolOutcome

TOOLS = {tool.spec.name: tool for tool in Git().tools}
PLAIN = {"PATH": os.environ["PATH"], "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_EDITOR": ""}
"""The environment of git without protection."""


def call_tool(name: str, folder: Path, /, **arguments: Any) -> ToolOutcome:
    """Call a git tool whose working folder is this one."""
    return asyncio.run(TOOLS[name].run(arguments, ToolContext("r-1", "toolu_1", folder, call_in_thread)))


@dataclass(frozen=True)
class GitRepository:
    """A repository in a folder."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, is_configured: bool = True) -> GitRepository:
        """Make an empty repository with the branch ``main``; with a name and an address unless told otherwise."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        made.git("init", "--quiet", "--initial-branch=main", "--template=")
        if is_configured:
            made.configure("user.name", "Ada")
            made.configure("user.email", "ada@example.org")
        return made

    def copy(self, folder: Path) -> GitRepository:
        """Copy it to another folder."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return GitRepository(folder)

    def git(self, *arguments: str, stdin: str = "", is_checked: bool = True, **variables: str) -> str:
        """Run plain git in it and return what it prints."""
        environment = {name: value for name, value in PLAIN.items() if value} | {"HOME": str(Path.home())} | variables
        ended = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not is_checked or ended.returncode == 0, ended.stderr
        return ended.stdout

    def configure(self, name: str, value: str) -> None:
        """Set a value of its configuration."""
        self.git("config", name, value)

    def write(self, path: str | bytes, text: str) -> Path:
        """Write a file."""
        file = self.folder / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self, message: str, **texts: str) -> None:
        """Commit everything, after these files are written (``a_txt`` is ``a.txt``)."""
        for name, text in texts.items():
            self.write(name.replace("_", "."), text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)

    def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """Call a git tool in its folder."""
        return call_tool(name, self.folder, **arguments)

    def text(self, name: str, /, **arguments: Any) -> str:
        """Return the text of a call that succeeds."""
        outcome = self.call(name, **arguments)
        assert outcome.ok, outcome.text
        return outcome.text

    def refusal(self, name: str, /, **arguments: Any) -> str:
        """Return the error code of a call that fails."""
        outcome = self.call(name, **arguments)
        assert not outcome.ok, outcome.text
        return outcome.error_code or ""
