"""Saved rules: calls that the person has allowed in all runs in a working folder, until withdrawn.

The person's own folder has a small file for each rule, written in one piece, so that processes do not lose each
other's rules. A file that is damaged, or that someone else can write to, allows nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from agentnb import settings
from agentnb.core.messages import encodable
from agentnb.core.questions import rule_parts
from agentnb.core.redaction import redact
from agentnb.core.run.approvals import allows_all, may_be_saved
from agentnb.errors import SettingsError
from agentnb.personal_files import replace_file
from agentnb.policies.permissions.path_rules import is_within, path_beginning, written_beginning
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.runtime.questions.model_code import check_person
from agentnb.tools.mcp.mcp_server import PREFIX, digest

FOLDER = "saved-rules"
MAX_BYTES = 20_000
_ID = "saved-"
"""Prefix of the ids of grants that come from saved rules."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class SavedRule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A rule that allows calls in all runs in a working folder."""

    folder: str
    """The working folder, resolved."""
    saved_at: datetime
    tool: str
    rule: str
    leads_to: str
    """The resolved beginning of its pattern, as a path: the rule no longer counts if a link leads elsewhere."""
    by: str = "person"
    server_identity: str = ""
    tool_identity: str = ""

    @property
    def grant_id(self) -> str:
        """The id of the rule's grant."""
        named = [self.tool, self.rule, self.server_identity, self.tool_identity]
        return f"{_prefix(self.folder)}{digest(named)}"

    @property
    def counts(self) -> bool:
        """True if the rule still means what it meant when it was saved, and could be saved now."""
        try:
            tools = Rule.read(self.rule, "allow").tools
        except SettingsError:
            return False
        is_narrow = self.rule.startswith(PREFIX) or (tools == self.tool and not allows_all(self.rule))
        return is_narrow and may_be_saved(self.rule) and self.leads_to == leads_to(self.rule, self.folder)


class SavedRules(NamedTuple):
    """The saved rules that were found, by the ids of their grants."""

    rules: dict[str, SavedRule]
    refused: tuple[str, ...] = ()
    """Names of files that allow nothing."""


def rules_folder() -> Path:
    """Return the folder of the rule files, which may not exist yet."""
    return settings.personal_folder() / FOLDER


def may_save(folder: str) -> bool:
    """Return whether rules may be saved for a working folder. The rule files must be outside it, so that a project
    cannot supply them, and their folder must not be a link, since tools may write to its target. The folder's name must
    not contain a key or undecodable bytes.
    """
    own = os.path.realpath(settings.personal_folder())
    is_apart = not (is_within(own, folder) or is_within(folder, own) or rules_folder().is_symlink())
    return is_apart and redact(encodable(folder)) == folder


def leads_to(rule: str, folder: str) -> str:
    """Return the resolved beginning of a rule's pattern, as a path in the working folder."""
    return str(path_beginning(rule_parts(rule)[1], Path(folder))[0])


def save(folder: str, tool: str, rule: str, by: str, server_identity: str, tool_identity: str, *, is_path: bool = False) -> str:
    """Save a rule for a working folder, and return the id of its grant. ``is_path``: whether its pattern matches paths.

    Raises OSError if it cannot be saved or would not count, and `SettingsError` if called by a model's code.
    """
    check_person("Saving a rule", is_lasting=True)
    now, place = datetime.now(UTC), leads_to(rule, folder)
    if is_path and str(written_beginning(rule_parts(rule)[1], Path(folder))[0]) != place:
        raise OSError(f"it leads to {place}")  # maybe by a link made since the person read it
    saved = SavedRule(folder, now, tool, rule, place, by, server_identity, tool_identity)
    path = rules_folder() / f"{saved.grant_id}.json"
    replace_file(path, msgspec.json.format(msgspec.json.encode(saved)) + b"\n")
    if _read(path) is None:
        path.unlink(missing_ok=True)
        others = "" if _is_own(path.parent.stat()) else f", as others may write {path.parent}"
        raise OSError(f"the rule would have no effect{others}")
    return saved.grant_id


def withdraw_saved(grant_id: str) -> None:
    """Delete a saved rule: from the next call on, such calls need approval again. Raises `SettingsError` if that fails."""
    path = rules_folder() / f"{grant_id}.json"
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"{path} cannot be deleted: {error.strerror or error}") from None


def saved_rules(folder: str | None = None) -> SavedRules:
    """Return the saved rules, by default for all working folders; empty for a folder for which rules may not be saved."""
    paths = sorted(_files())
    if not paths or (folder is not None and not may_save(folder)):  # most people have none, and each judged call looks
        return SavedRules({})
    prefix = _ID if folder is None else _prefix(folder)
    rules, refused = dict[str, SavedRule](), list[str]()
    for path in (path for path in paths if path.name.startswith(prefix)):
        with suppress(FileNotFoundError):  # withdrawn meanwhile
            saved = _read(path)
            if saved is None or not may_save(saved.folder):
                refused.append(path.name)
            else:
                rules[path.stem] = saved
    return SavedRules(rules, tuple(refused))


def _prefix(folder: str) -> str:
    return f"{_ID}{digest([folder])}-"


def _files() -> Iterator[Path]:
    with suppress(OSError), os.scandir(rules_folder()) as entries:
        yield from [Path(entry) for entry in entries if entry.name.startswith(_ID)]


def _read(path: Path) -> SavedRule | None:
    """Return the rule in a file, or None if it does not count. Raises FileNotFoundError."""
    try:
        descriptor = os.open(path, _FLAGS)
        try:
            status = os.fstat(descriptor)
            is_own = stat.S_ISREG(status.st_mode) and _is_own(status) and _is_own(path.parent.stat())
            data = os.read(descriptor, MAX_BYTES) if is_own else b""
        finally:
            os.close(descriptor)
        saved = msgspec.json.decode(data, type=SavedRule)
    except FileNotFoundError:
        raise
    except (OSError, msgspec.MsgspecError):
        return None
    return saved if path.name == f"{saved.grant_id}.json" and saved.counts else None


def _is_own(status: os.stat_result) -> bool:
    """Return whether only the person may write to a file or folder."""
    owner = getattr(os, "getuid", lambda: status.st_uid)()
    return status.st_uid == owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
