"""Refusals of the file tools: the reason and what to try instead."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from agentnb.errors import StoreError
from agentnb.tools.tool import ToolRefused

MAX_COMPARED = 2_000
"""Maximum names of a folder compared with a missing name."""
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}


@contextmanager
def refusing(shown: str) -> Iterator[None]:
    """Turn system errors about a path into refusals. ``shown``: the path as the model wrote it."""
    try:
        yield
    except StoreError as error:  # also an OSError
        advice = "Nothing is lost. Tell the person, who can make room where the log of this run is kept; then try again."
        raise ToolRefused("not_kept", error.what, advice) from error
    except OSError as error:
        raise _of_system(error, shown) from error


def outside_work_dir(shown: str) -> ToolRefused:
    """Return the refusal of a path outside the working directory."""
    advice = "Give a path in the working directory, such as . or data/table.csv; links are followed before this is checked."
    return ToolRefused("outside_work_dir", f"path is outside working directory: {shown}", advice)


def before_images(shown: str) -> ToolRefused:
    """Return the refusal of a path in a folder of before-images."""
    advice = "Read the file itself. Only the person can undo a change."
    return ToolRefused("protected_path", f"{shown} is a backup of a changed file, for the person only", advice)


def personal(shown: str) -> ToolRefused:
    """Return the refusal of a path in the person's agentnb folder."""
    advice = "Work without it. Only the person decides what agentnb is allowed to do."
    return ToolRefused("protected_path", f"{shown} is in the folder where agentnb keeps what the person has allowed", advice)


def no_work_dir(why: str) -> ToolRefused:
    """Return the refusal of all paths of a run without an accessible working directory."""
    advice = "File tools cannot work in this run. Tell the person: work_dir= has to name a directory that exists."
    return ToolRefused("no_work_dir", f"working directory not set: {why}", advice)


def invalid_path(shown: str) -> ToolRefused:
    """Return the refusal of a text that cannot be a path."""
    return ToolRefused("invalid_path", f"{shown!a} cannot be a path", "list_files shows the names that are there.")


def missing(folder: int, before: str, name: str, shown: str) -> ToolRefused:
    """Return the refusal of a path whose component ``name`` is missing in an open folder. ``before``: path of that folder."""
    names = {entry.casefold(): entry for entry, _ in zip(os.listdir(folder), range(MAX_COMPARED), strict=False)}
    near = [os.path.join(before, names[match]) for match in get_close_matches(name.casefold(), names)]  # noqa: PTH118
    if near:
        return ToolRefused("not_found", f"There is no {shown}", f"Names near it: {', '.join(near)}")
    return ToolRefused("not_found", f"There is no {shown}", f"list_files shows what is there: path={before or '.'}")


def leads_elsewhere(shown: str) -> ToolRefused:
    """Return the refusal of a link in a resolved path: a circular link, or one created since then."""
    problem = f"{shown} was not opened: part of it is a circular link, or a link that was just created"
    return ToolRefused("link_changed", problem, "Look at the directory with list_files, then try again.")


def not_a_directory(shown: str, part: str) -> ToolRefused:
    """Return the refusal of a path through a file."""
    return ToolRefused("not_a_directory", f"{part} is a file, not a directory", f"Change the path {shown}.")


def not_regular(mode: int, shown: str) -> ToolRefused:
    """Return the refusal of anything but a regular file."""
    kind = KINDS.get(stat.S_IFMT(mode), "not a file")
    advice = "list_files lists a directory." if stat.S_ISDIR(mode) else "Only ordinary files can be read and written."
    return ToolRefused("not_regular", f"{shown} is {kind}", advice)


def not_text(data: bytes, error: UnicodeDecodeError, shown: str) -> ToolRefused:
    """Return the refusal of a file that is not valid UTF-8."""
    problem = f"{shown} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start:,} of {len(data):,} bytes"
    return ToolRefused("not_text", problem, "Read it with a tool or a library for its format or encoding.")


def too_large(size: int, most: int, shown: str) -> ToolRefused:
    """Return the refusal of a file over the size limit."""
    advice = "search_files shows matching lines of files up to the same size; a command or code can read a part of it."
    return ToolRefused("too_large", f"{shown} has {size:,} bytes, more than {most:,}", advice)


def not_unicode(what: str) -> ToolRefused:
    """Return the refusal of a text that UTF-8 cannot encode."""
    problem = f"{what} contains a lone surrogate, which UTF-8 cannot encode"
    return ToolRefused("not_text", problem, "Write the whole character.")


def _of_system(error: OSError, shown: str) -> ToolRefused:
    number, words = error.errno or 0, os.strerror(error.errno or 0)
    if number == errno.ELOOP:
        return leads_elsewhere(shown)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ToolRefused("not_permitted", f"{shown}: the system does not permit it ({words})", "Use another path.")
    if number in (errno.ENAMETOOLONG, errno.EINVAL):
        return invalid_path(shown)
    if number == errno.ENXIO:
        return not_regular(stat.S_IFSOCK, shown)
    if number == errno.ENOENT:
        return ToolRefused("not_found", f"There is no {shown}", "list_files shows what is there.")
    return ToolRefused("system_error", f"{shown}: {words}", "Try again, or say what is wrong.")
