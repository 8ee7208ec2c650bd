"""Program that searches files, in its own process so that a slow expression can be stopped. Its argument is the folder's
descriptor, its standard input a JSON request, and its output a JSON report. Links are not followed. Standard library only:
agentnb is not importable there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

MAX_DEPTH = 60
MAX_ENTRIES = 100_000
MAX_KEY_FILES_FROM = 20_000
"""Maximum number of files examined to find key files."""
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
GLOB_TOKEN = re.compile(r"\*\*/|/\*\*\Z|\*\*|\[(?:[!^][^/]|[^/!^])[^]/]*\]|\{[^{}]*\}|.", re.DOTALL)
GLOB_MEANING = {"**/": "(?:[^/]+/)*", "/**": "/.+", "**": ".*", "*": "[^/]*", "?": "[^/]"}
FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

Identity: TypeAlias = tuple[int, int]
"""Device and inode of a file or folder, the same under all of its names."""


class TimeUp(BaseException):
    """The search reached its time limit."""


class Full(Exception):
    """The search reached its maximum number of matches or files."""


class Search:
    """A search. ``report`` holds the matches, and counts of truncated and skipped files."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request, self.limits = request, request["limits"]
        self.pattern = re.compile(request["pattern"]) if request["pattern"] else None
        self.glob = re.compile(glob_pattern(request["glob"]), re.DOTALL) if request["glob"] else None
        self.glob_has_folders = "/" in request["glob"].strip("/")
        self.is_key_name = re.compile(request["key_names"], re.IGNORECASE | re.DOTALL).match
        self.folder, hidden = request["folder"], request["hidden_by_rules"]
        self.is_hidden_by_rules = re.compile(hidden or "(?!)", re.DOTALL).fullmatch
        self.left_out = frozenset(request["left_out"])
        self.hidden = request["hidden"]
        self.forbidden = {(device, inode) for device, inode in request["forbidden"]}
        self.report: dict[str, Any] = {"matches": [], "files": 0, "seen": 0, "stopped": "", "at": ""}
        self.report |= {"keys": [], "rules": [], "folders": []}
        self.report |= dict.fromkeys(("not_text", "too_large", "links", "special", "unreadable", "long_lines", "too_deep"), 0)

    def run(self, folder: int) -> None:
        """Search the folder, or only the requested file in it."""
        only = self.request["only"]
        try:
            for name, path, within in [(only, only, folder)] if only else self.walk(folder, "", 0):
                self.report["at"] = path
                self.look(name, path, within)
        except Full as full:
            self.report["stopped"] = str(full)

    def walk(self, folder: int, before: str, depth: int) -> Iterator[tuple[str, str, int]]:
        """Yield the name, the path and the open folder of each file."""
        with os.scandir(folder) as entries:
            listed = sorted(islice(entries, MAX_ENTRIES), key=lambda entry: entry.name)
        for entry in listed:
            path = before + entry.name
            if entry.is_symlink():
                self.report["links"] += 1
            elif not entry.is_dir(follow_symlinks=False):
                yield entry.name, path, folder
            elif entry.name.casefold() in self.left_out or entry.name.casefold().startswith(self.hidden):
                self._note("folders", path + "/")
            elif depth >= MAX_DEPTH:
                self.report["too_deep"] += 1
            else:
                yield from self._walk_inner(entry.name, folder, path + "/", depth + 1)

    def _walk_inner(self, name: str, folder: int, path: str, depth: int) -> Iterator[tuple[str, str, int]]:
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            self.report["unreadable"] += 1
            return
        try:
            if identity_of(os.fstat(inner)) in self.forbidden:
                self._note("folders", path)
                return
            yield from self.walk(inner, path, depth)
        finally:
            os.close(inner)

    def look(self, name: str, path: str, folder: int) -> None:
        """Search a single file."""
        self.report["seen"] += 1
        if self.report["seen"] > self.limits["files"]:
            raise Full("files")
        if self.glob is not None and not self.glob.fullmatch(path if self.glob_has_folders else name):
            return
        if self.is_key_name(name):
            self._note("keys", path)
            return
        if self.is_hidden_by_rules(self.folder + path):
            self._note("rules", path)
            return
        self.report["files"] += 1
        if self.pattern is None:
            self._add([path])
            return
        text = self.text_of(name, folder)
        if text is None:
            return
        for number, line in enumerate(text.split("\n"), 1):
            match = self.pattern.search(line.removesuffix("\r"))
            if match is not None:
                self._add([path, number, match.start() + 1, self._cut(line.removesuffix("\r"))])

    def text_of(self, name: str, folder: int) -> str | None:
        """Return the text of a file with known keys masked, or None if it has no readable text."""
        try:
            file = os.open(name, FILE, dir_fd=folder)
        except OSError:
            self.report["unreadable"] += 1
            return None
        with os.fdopen(file, "rb") as opened:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                self.report["special"] += 1
                return None
            if status.st_nlink > 1 and identity_of(status) in self.forbidden | self.keys:
                self._note("keys", self.report["at"])
                return None
            data = opened.read(self.limits["bytes"] + 1) if status.st_size <= self.limits["bytes"] else None
        if data is None or len(data) > self.limits["bytes"]:
            self.report["too_large"] += 1
            return None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.report["not_text"] += 1
            return None
        for key in self.request["keys"]:  # otherwise an expression could probe a key letter by letter
            text = text.replace(key, self.request["mask"])
        return text

    @cached_property
    def keys(self) -> set[Identity]:
        """Identities of the key files, to recognize hard links to them."""
        return key_identities(self.request["root"], self.is_key_name)

    def _cut(self, line: str) -> str:
        if len(line) <= self.limits["line"]:
            return line
        self.report["long_lines"] += 1
        return line[: self.limits["line"]] + "…"

    def _note(self, kind: str, path: str) -> None:
        if len(self.report[kind]) <= self.limits["noted"]:
            self.report[kind].append(path)

    def _add(self, match: list[Any]) -> None:
        if len(self.report["matches"]) >= self.limits["matches"]:
            raise Full("matches")
        self.report["matches"].append(match)


def key_identities(root: str, is_key_name: Callable[[str], object]) -> set[Identity]:
    """Return the identities of the key files below a folder, among its first `MAX_KEY_FILES_FROM` files."""
    names = ((at, name) for at, _, files in os.walk(root) for name in files)
    identities = set()
    for at, name in islice(names, MAX_KEY_FILES_FROM):
        if is_key_name(name):
            with suppress(OSError):
                identities.add(identity_of(os.stat(os.path.join(at, name))))  # noqa: PTH116, PTH118
    return identities


def identity_of(status: os.stat_result) -> Identity:
    """Return the identity of a file or folder."""
    return status.st_dev, status.st_ino


def glob_pattern(glob: str) -> str:
    """Translate a glob to a regular expression: ``*``, ``?`` within a name, ``**`` across folders, ``[...]`` and ``{a,b}``."""
    return _pattern_of(glob.removeprefix("./").strip("/") + ("/**" if glob.endswith("/") else ""))


def _pattern_of(glob: str) -> str:
    pattern = ""
    for token in GLOB_TOKEN.findall(glob):
        if token in GLOB_MEANING:
            pattern += GLOB_MEANING[token]
        elif len(token) == 1:
            pattern += re.escape(token)
        elif token[0] == "{":
            pattern += f"(?:{'|'.join(map(_pattern_of, token[1:-1].split(',')))})"
        else:  # [...]
            inner = re.sub(r"[&~|\[\\]|--", lambda sign: re.escape(sign[0]), token[1:-1])
            pattern += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
    return pattern


def main() -> None:
    """Run the requested search and print its report."""
    request = json.load(sys.stdin)

    def end(*_: object) -> None:
        raise TimeUp

    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (request["limits"]["memory"],) * 2)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, request["limits"]["seconds"])
    search = None
    try:
        search = Search(request)
        search.run(int(sys.argv[1]))
        report = search.report
    except TimeUp:
        report = {"matches": [], "at": ""} if search is None else search.report
        report["stopped"] = "seconds"
    except (re.error, OverflowError, RecursionError) as error:
        report = {"wrong": str(error)}
    except MemoryError:
        report = {"wrong": "it uses too much memory"}
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()
