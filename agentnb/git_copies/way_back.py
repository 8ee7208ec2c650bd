"""Transfer of changes, after a command, from the copy of a git directory back to the original.

Transfers new objects, verified against their names; refs and logs; the files `HEAD`, `ORIG_HEAD` and `index`. Only
names that the command changed are updated, and only if nobody else has changed them in the meantime. Git itself
writes the refs. A commit that becomes unreachable gets a ref of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentnb.git_copies.copies import (
    COPIED,
    HEX,
    MODULES,
    REF,
    GitCopy,
    Signature,
    entries_of,
    entries_of_git,
    files_below,
    read_logs,
    read_packed_refs,
    read_plain,
    read_refs,
    signature,
)
from agentnb.git_copies.git import Git, links_among

MAX_OBJECT_BYTES = 1_000_000_000
CHUNK_BYTES = 1_000_000
FILES = ("HEAD", "ORIG_HEAD", "index", "packed-refs")
NOTHING = Signature(0, 0, 0)
PACK_PART = re.compile(r"pack-.*|multi-pack-index")
KEPT_REFS = "refs/agentnb/before/"
STASH = "refs/stash"
CACHES = ("packs", "commit-graph", "commit-graphs")
LOG_LINE = re.compile(rb"%b %b [^\n]*> (\d{1,12}) [+-]\d{4}(?:\t[^\n]*)?\n" % (HEX.encode(), HEX.encode()))
DAY = 86_400
ODD_PATH = re.compile(rb"(?i)[\t/](?:\.{0,2}|(?:\.git|git~[0-9])[ .]*(?::[^/\0]*)?)[/\0]")
"""A path in an index that git would not put there: outside the folder, or in a git directory."""


@dataclass
class Returned:
    """The names that were not transferred, and the refs that keep unreachable commits."""

    dropped: list[str] = field(default_factory=list)
    """Changes that commands are not allowed to make."""
    outdated: list[str] = field(default_factory=list)
    """Names that someone else changed in the meantime."""
    kept: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """A line for the model; empty if everything was transferred."""
        parts = {"not kept": self.dropped, "changed elsewhere meanwhile, so not kept": self.outdated, "old commits": self.kept}
        return "; ".join(f"{words}: {', '.join(dict.fromkeys(names))}" for words, names in parts.items() if names)


def transfer_changes(copies: Iterable[GitCopy], program: str, work_dir: Path) -> Returned:
    """Transfer a command's changes from copies of git directories; copies with refs come before those of their worktrees."""
    result = Returned()
    for copy in sorted(copies, key=lambda copy: copy.shared is not None):
        names = Returned()
        try:
            _Return(copy, Git(program, copy.source), names).run()
        except (OSError, ValueError, RecursionError):  # a full disk, or an unexpected format
            names.dropped.append("*")
        label = os.path.relpath(copy.source, work_dir)
        for kind in ("dropped", "outdated", "kept"):
            getattr(result, kind).extend(f"{label}/{name}" for name in getattr(names, kind))
    return result


class _Return:
    """The transfer of a single copy."""

    def __init__(self, copy: GitCopy, git: Git, names: Returned) -> None:
        self._copy, self._git, self._names = copy, git, names
        self._mark = secrets.token_hex(8)
        self._touched: set[str] = set()
        self._lost: set[str] = set()

    def run(self) -> None:
        status = self._copy.source.lstat() if self._copy.source.exists() else None
        if status is None or (status.st_dev, status.st_ino) != self._copy.identity or not self._is_whole():
            self._names.dropped.append("*")
            return
        self._names.dropped += self._odd_names()
        if self._copy.shared is None:
            self._names.dropped += self._bring_objects()
            self._bring_refs()
        self._bring_files()
        self._bring_logs()
        self._keep_lost()

    def _is_whole(self) -> bool:
        """True if git would still accept the copy as a repository, with all its original parts."""
        target = self._copy.target
        if self._copy.shared is not None:
            return read_plain(target / "HEAD") is not None
        folders = all((target / name).is_dir() and not (target / name).is_symlink() for name in ("objects", "refs"))
        return folders and all(read_plain(target / name) is not None for name in ("HEAD", "packed-refs"))

    def _odd_names(self) -> list[str]:
        """Return the names of everything that the command added, changed or removed without permission."""
        copy, entries = self._copy, dict(entries_of_git(self._copy.target))
        names = set(copy.files) - set(entries)
        for name, entry in entries.items():
            original, path = copy.source / name, Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                is_same = name in COPIED or (name.startswith((MODULES, "worktrees/")) and original.is_dir())
            elif entry.is_symlink():
                is_same = path.readlink() == copy.links.get(name)
            elif name in FILES or signature(path) == copy.files.get(name):
                is_same = entry.is_file()
            else:
                is_same = read_plain(path) == read_plain(original.resolve()) is not None
            if not is_same:
                names.add(name)
        inner = [item for folder in ("logs/", "refs/") for item in files_below(copy.target / folder, folder)]
        return sorted(names.union(name for name, entry in inner if not entry.is_file(follow_symlinks=False)))

    def _bring_objects(self) -> list[str]:
        """Transfer new objects. Returns the names of invalid ones."""
        invalid = []
        for folder in entries_of(self._copy.target / "objects"):
            for entry in entries_of(Path(folder.path)):
                name = f"{folder.name}/{entry.name}"
                if not entry.name.startswith(("tmp_", ".tmp-")) and not self._bring_object(name, Path(entry.path)):
                    invalid.append(f"objects/{name}")
            if not folder.is_dir(follow_symlinks=False):
                invalid.append(f"objects/{folder.name}")
        return invalid

    def _bring_object(self, name: str, path: Path) -> bool:
        """Transfer an object, or the objects of a pack, unless already present; return False if the file is neither."""
        target = (self._copy.source / "objects").resolve() / name
        content = read_plain(path, MAX_OBJECT_BYTES)
        folder, _, last = name.partition("/")
        if content is None:
            return folder == "info" and last == "commit-graphs" and not path.is_symlink()
        if folder == "info":
            return last in CACHES or (last == "alternates" and content == f"{self._copy.objects}\n".encode())
        if folder == "pack" and PACK_PART.fullmatch(last):
            return not last.endswith(".pack") or target.exists() or self._git.run("index-pack", "--stdin", given=content)[0]
        if not re.fullmatch(HEX, folder + last) or not _is_object(content, folder + last):
            return False
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            temporary = target.with_name(f"tmp_obj_{self._mark}")
            temporary.write_bytes(content)
            temporary.chmod(0o444)
            temporary.replace(target)
        return True

    def _bring_refs(self) -> None:
        """Let git write the changed refs, either all or none."""
        old, new = self._copy.refs, read_refs(self._copy.target)
        packed: dict[str, str] | None = None
        changes: dict[str, tuple[str | None, str | None]] = {}
        for name in sorted(name for name in {*old, *new} if old.get(name) != new.get(name)):
            packed = read_packed_refs(self._copy.source) if packed is None else packed
            loose = read_plain(self._copy.source / name)
            values = (old.get(name), new.get(name))
            if not REF.fullmatch(name) or not all(value is None or re.fullmatch(HEX, value) for value in values):
                self._names.dropped.append(name)
            elif (packed.get(name) if loose is None else os.fsdecode(loose).strip()) != values[0]:
                self._names.outdated.append(name)
            else:
                changes[name] = values
        if not changes:
            return
        if not self._is_complete(value for _, value in changes.values() if value):
            self._names.dropped += changes
        elif not self._update(changes):
            self._names.outdated += changes
        else:
            self._touched.update(changes, ("HEAD",))
            self._lost.update(value for value, _ in changes.values() if value)

    def _is_complete(self, values: Iterable[str]) -> bool:
        """True if everything reachable from these commits is present; git makes the same check after a fetch."""
        ids = "".join(f"{value}\n" for value in values).encode()
        return not ids or self._git.run("rev-list", "--objects", "--quiet", "--stdin", "--not", "--all", given=ids)[0]

    def _update(self, changes: Mapping[str, tuple[str | None, str | None]]) -> bool:
        lines = []
        for name, (old, new) in changes.items():
            command = "create" if old is None else "delete" if new is None else "update"
            lines += [f"{command} {name}", *filter(None, (new, old))]
        commands = os.fsencode("".join(f"{line}\0" for line in lines))
        return self._git.run("update-ref", "--no-deref", "-m", f"agentnb {self._mark}", "-z", "--stdin", given=commands)[0]

    def _bring_files(self) -> None:
        copy = self._copy
        for name, is_valid in {"ORIG_HEAD": _is_id, "index": self._is_index, "HEAD": self._is_head}.items():
            path = copy.target / name
            if signature(path) == copy.files.get(name, NOTHING):
                continue
            content = read_plain(path)
            if content is None or not is_valid(content):
                self._names.dropped.append(name)
            elif not self._replace(name, content, path.lstat().st_mtime_ns, copy.originals.get(name)):
                self._names.outdated.append(name)
            elif name == "HEAD":
                self._lost.update(re.findall(f"^{HEX}$", copy.head))

    def _replace(self, name: str, content: bytes, changed: int, old: Signature | None) -> bool:
        """Replace a file as git does, under its lock; return False if someone else is writing to it, or has written to it since
        it was copied.
        """
        path = self._copy.source / name
        lock = path.with_name(f"{path.name}.lock")
        try:
            file = lock.open("xb")
        except FileExistsError:
            return False
        try:
            with file:
                file.write(content)
            os.utime(lock, ns=(changed, changed))
            is_current = signature(path) == (old or NOTHING)
            (lock.replace(path) if is_current else lock.unlink())
        except OSError:  # such as a full disk: a leftover lock would block the person's git
            lock.unlink(missing_ok=True)
            raise
        return is_current

    def _is_head(self, content: bytes) -> bool:
        value = os.fsdecode(content).removesuffix("\n")
        if re.fullmatch(HEX, value):
            return self._is_complete([value])
        name = value.removeprefix("ref: ")
        if name == value or not name.startswith("refs/heads/") or not REF.fullmatch(name):
            return False
        is_born = name in read_refs((self._copy.shared or self._copy).target)
        return not is_born or self._git.run("rev-parse", "--verify", "--quiet", name)[0]

    def _is_index(self, content: bytes) -> bool:
        """True if an index contains only paths that git would put there, and no new submodule."""
        path = self._copy.target.with_name(f"index-{self._mark}")
        path.write_bytes(content)
        is_readable, paths = self._git.run("ls-files", "--stage", "-z", GIT_INDEX_FILE=str(path))
        if not is_readable or ODD_PATH.search(paths):
            return False
        links = links_among(paths)
        return not links or links <= links_among(self._git.run("ls-files", "--stage", "-z")[1])

    def _bring_logs(self) -> None:
        """Append the new lines of logs to the original's logs, replacing the lines added when the refs were updated."""
        old, new = self._copy.logs, read_logs(self._copy.target, (name for name, _ in files_below(self._copy.target / "logs")))
        trusted = {line for content in old.values() for line in _lines(content)}
        for name in {name for name in new if new[name] != old.get(name)} | self._touched:
            path = self._copy.source / "logs" / name
            known_signature, current = signature(path), read_plain(path)
            if (name != "HEAD" and not REF.fullmatch(name)) or (current is None and os.path.lexists(path)):
                self._names.dropped.append(f"logs/{name}")
                continue
            lines = [line for line in _lines(current) if self._mark.encode() not in line]
            before, after = _lines(old.get(name)), _lines(new.get(name))
            is_stash = name == STASH and after and lines == before  # git itself removes lines from it
            if is_stash:
                self._lost.update(line.split()[1].decode() for line in set(before) - set(after) if LOG_LINE.fullmatch(line))
                lines = []
            copied = set() if is_stash else set(before)
            lines += [line for line in after if line not in copied and (line in trusted or _is_of_today(line))]
            content = b"".join(lines)
            self._lost -= {value for value in self._lost if value.encode() in content}
            if content != (current or b""):
                path.parent.mkdir(parents=True, exist_ok=True)
                if not self._replace(f"logs/{name}", content, time.time_ns(), known_signature):
                    self._names.outdated.append(f"logs/{name}")

    def _keep_lost(self) -> None:
        """Create a ref for each commit and tag that no ref or log reaches any longer."""
        if not self._lost:
            return
        ids = "".join(f"{value}\n" for value in self._lost).encode()
        words = ("rev-list", "--objects", "--no-object-names", "--stdin", "--not", "--all", "--reflog")
        is_known, unreachable = self._git.run(*words, given=ids)
        lost = sorted(self._lost & set(unreachable.decode().split())) if is_known else sorted(self._lost)
        for value in lost:
            self._git.run("update-ref", KEPT_REFS + value, value)
            self._names.kept.append(KEPT_REFS + value)


def _lines(content: bytes | None) -> list[bytes]:
    return re.findall(rb"[^\n]*\n", content or b"")


def _is_of_today(line: bytes) -> bool:
    """True if git will not expire this log line because of its age."""
    match = LOG_LINE.fullmatch(line)
    return match is not None and abs(time.time() - int(match[1])) < DAY


def _is_id(content: bytes) -> bool:
    return re.fullmatch(HEX, content.decode(errors="replace").removesuffix("\n")) is not None


def _is_object(content: bytes, name: str) -> bool:
    """True if a loose object's content matches its name."""
    digest, size, inflate = (hashlib.sha1 if len(name) == 40 else hashlib.sha256)(), 0, zlib.decompressobj()
    with suppress(zlib.error):
        while content and not inflate.eof and size <= MAX_OBJECT_BYTES:
            data = inflate.decompress(content, CHUNK_BYTES)
            content = inflate.unconsumed_tail
            digest.update(data)
            size += len(data)
    return inflate.eof and not inflate.unused_data and digest.hexdigest() == name
