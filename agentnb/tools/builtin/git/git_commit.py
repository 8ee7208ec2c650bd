"""The tool ``git_commit``."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agentnb.core.messages import encodable
from agentnb.tools.builtin.git.changes import Status, read_status, shorten_lines, shown_paths
from agentnb.tools.builtin.git.omissions import COMMIT_HOOKS, hooks_note, signing_note, with_notes
from agentnb.tools.builtin.git.path_text import join_names
from agentnb.tools.builtin.git.work_tree import GitConfig, Repository, open_repository
from agentnb.tools.tool import ToolContext, ToolRefused

MAX_SHOWN = 50
SAFE = ("--no-verify", "--no-gpg-sign", "--no-edit", "--no-status", "--cleanup=whitespace", "--quiet")


async def git_commit(context: ToolContext, message: Annotated[str, msgspec.Meta(min_length=1)]) -> str:
    """Commit the staged changes of the git repository. Hooks are not run, and the commit is not signed.

    :param message: Commit message
    """
    message = encodable(message)
    if not message.strip() or "\0" in message:
        raise ToolRefused("invalid_arguments", "The message is blank, or contains a null character.", "Write a text message.")
    repository = await open_repository(context.work_dir)
    status = await read_status(repository, untracked="no")
    _check_staged(repository, status)
    identity = identity_of(repository.config)
    arguments = ("commit", "--file=-", *SAFE)
    await repository.output(*arguments, stdin=message.encode(), is_reading=False, variables=identity)
    commit = (await repository.output("rev-parse", "--short", "HEAD")).decode().strip()
    staged = [change for change in status.changes if change.is_staged]
    lines = shorten_lines(staged, MAX_SHOWN, lambda change: f"{change.in_index} {shown_paths(repository, change)}")
    subject = message.strip().partition("\n")[0]
    heading = f"[{status.branch or 'detached HEAD'} {commit}] {subject}"
    text = "\n".join([heading, *lines])
    return with_notes(text, hooks_note(repository, COMMIT_HOOKS), signing_note(repository))


def _check_staged(repository: Repository, status: Status) -> None:
    """Raise `ToolRefused` if no changes are staged, or if some of them are outside the working folder."""
    if conflicts := [repository.display_path(change.path) for change in status.changes if change.is_conflict]:
        advice = "Edit these files, stage them with git_add, then commit."
        raise ToolRefused("conflicts", f"Nothing was committed: {join_names(conflicts)} has conflicts.", advice)
    staged = [change for change in status.changes if change.is_staged]
    if not staged and not (repository.git_dir / "MERGE_HEAD").exists():
        raise ToolRefused("nothing_to_commit", "Nothing to commit: no changes are staged.", "Stage files with git_add first.")
    outside = [
        change
        for change in staged
        if not repository.is_inside(change.path) or (change.origin and not repository.is_inside(change.origin))
    ]
    if outside:  # the person approved a commit of this folder only
        count = f"{len(outside)} staged {'change is' if len(outside) == 1 else 'changes are'}"
        problem = f"Nothing was committed: {count} outside the working directory and would be part of the commit."
        raise ToolRefused(
            "staged_outside", problem, "Ask the person to commit them, or to unstage them with git restore --staged."
        )


def identity_of(config: GitConfig) -> dict[str, str]:
    """Return the author and committer environment variables. Raises `ToolRefused` if they are not configured."""
    variables: dict[str, str] = {}
    for role in ("author", "committer"):
        name, address = config.text(f"{role}.name", "user.name"), config.text(f"{role}.email", "user.email")
        if not name or not address:
            problem = "Nothing was committed: git does not know the person's name and address (user.name, user.email)."
            commands = 'git config --global user.name "NAME" and git config --global user.email "ADDRESS"'
            raise ToolRefused("no_identity", problem, f"Ask the person to set them in a terminal: {commands}.")
        variables |= {f"GIT_{role.upper()}_NAME": name, f"GIT_{role.upper()}_EMAIL": address}
    return variables
