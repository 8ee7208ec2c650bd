"""The tool group ``git``."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.tools.builtin.git.git_add import git_add, nature_of_add
from agentnb.tools.builtin.git.git_branch import git_branch, nature_of_branch
from agentnb.tools.builtin.git.git_commit import git_commit
from agentnb.tools.builtin.git.git_diff import git_diff
from agentnb.tools.builtin.git.git_log import git_log
from agentnb.tools.builtin.git.git_status import git_status
from agentnb.tools.builtin.git.protection import find_git, program_folders
from agentnb.tools.builtin.group import BuiltinTool, ToolGroup


@dataclass(frozen=True)
class Git(ToolGroup):
    """The tools ``git_status``, ``git_diff``, ``git_log``, ``git_add``, ``git_commit`` and ``git_branch``. They have no
    settings.

    The repository cannot make git run any program: no hooks, filters, signing, pagers or external diffs.
    """

    word = "git"
    tool_names = ("git_status", "git_diff", "git_log", "git_add", "git_commit", "git_branch")

    def _make_tools(self) -> tuple[BuiltinTool, ...]:
        return (
            *[BuiltinTool(self, function, flag="git", effects=("read",)) for function in (git_status, git_diff, git_log)],
            BuiltinTool(self, git_add, flag="git", effects=("write",), nature=nature_of_add),
            BuiltinTool(self, git_commit, flag="git", effects=("write",)),
            BuiltinTool(self, git_branch, flag="git", effects=("write",), nature=nature_of_branch),
        )

    def check_usable(self) -> None:
        """Raise `SettingsError` if git is missing or too old."""
        find_git(program_folders())
