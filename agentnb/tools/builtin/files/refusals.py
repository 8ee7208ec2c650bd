"""Refusals by the file tools: the reason, and what to try instead."""

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
"""Maximum number of names in a folder that are compared with a missing name."""
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
        advice = "Nothing is lost. Ask the person to free disk space for the run log, then try again."
        raise ToolRefused("not_kept", error.what, advice) from error
    except OSError as error:
        raise _of_system(error, shown) from error


def outside_work_dir(shown: str) -> ToolRefused:
    """Return the refusal for a path outside the working directory."""
    advice = "Use a path in the working directory, such as . or data/table.csv. Links are resolved first."
    return ToolRefused("outside_work_dir", f"path is outside working directory: {shown}", advice)


def before_images(shown: str) -> ToolRefused:
    """Return the refusal for a path in a folder of files saved before changes."""
    advice = "Read the file itself. Only the person can undo a change."
    return ToolRefused("protected_path", f"{shown} is a backup of a changed file, for the person only", advice)


def personal(shown: str) -> ToolRefused:
    """Return the refusal for a path in the person's agentnb folder."""
    advice = "Work without it. Only the person decides what agentnb is allowed to do."
    return ToolRefused("protected_path", f"{shown} is in the folder of the person's agentnb permissions", advice)


def no_work_dir(why: str) -> ToolRefused:
    """Return the refusal for any path in a run without an accessible working directory."""
    advice = "File tools are unavailable in this run. Tell the person that work_dir= must name an existing directory."
    return ToolRefused("no_work_dir", f"working directory not set: {why}", advice)


def invalid_path(shown: str) -> ToolRefused:
    """Return the refusal for text that cannot be a path."""
    return ToolRefused("invalid_path", f"{shown!a} is not a valid path", "Use list_files to see the existing names.")


def missing(folder: int, before: str, name: str, shown: str) -> ToolRefused:
    """Return the refusal for a path whose component ``name`` is missing in an open folder. ``before``: path of that folder."""
    names = {entry.casefold(): entry for entry, _ in zip(os.listdir(folder), range(MAX_COMPARED), strict=False)}
    near = [os.path.join(before, names[match]) for match in get_close_matches(name.casefold(), names)]  # noqa: PTH118
    if near:
        return ToolRefused("not_found", f"There is no {shown}", f"Similar names: {', '.join(near)}")
    return ToolRefused("not_found", f"There is no {shown}", f"Use list_files to see what exists: path={before or '.'}")


def leads_elsewhere(shown: str) -> ToolRefused:
    """Return the refusal for a link in a resolved path: a circular link, or one created since the path was resolved."""
    problem = f"{shown} was not opened: part of the path is a circular link or a link that was just created"
    return ToolRefused("link_changed", problem, "Look at the directory with list_files, then try again.")


def not_a_directory(shown: str, part: str) -> ToolRefused:
    """Return the refusal for a path that leads through a file."""
    return ToolRefused("not_a_directory", f"{part} is a file, not a directory", f"Change the path {shown}.")


def not_regular(mode: int, shown: str) -> ToolRefused:
    """Return the refusal for anything but a regular file."""
    kind = KINDS.get(stat.S_IFMT(mode), "not a file")
    advice = "Use list_files for a directory." if stat.S_ISDIR(mode) else "Only regular files can be read and written."
    return ToolRefused("not_regular", f"{shown} is {kind}", advice)


def not_text(data: bytes, error: UnicodeDecodeError, shown: str) -> ToolRefused:
    """Return the refusal for a file that is not valid UTF-8."""
    problem = f"{shown} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start:,} of {len(data):,} bytes"
    return ToolRefused("not_text", problem, "Read it with a tool or a library for its format or encoding.")


def too_large(size: int, most: int, shown: str) -> ToolRefused:
    """Return the refusal for a file over the size limit."""
    advice = "Use search_files to find lines in files up to this size, or read part of it with a command or code."
    return ToolRefused("too_large", f"{shown} is {size:,} bytes, over the limit of {most:,}", advice)


def not_unicode(what: str) -> ToolRefused:
    """Return the refusal for text that UTF-8 cannot encode."""
    problem = f"{what} contains a lone surrogate, which UTF-8 cannot encode"
    return ToolRefused("not_text", problem, "Write the complete character.")


def _of_system(error: OSError, shown: str) -> ToolRefused:
    number, words = error.errno or 0, os.strerror(error.errno or 0)
    if number == errno.ELOOP:
        return leads_elsewhere(shown)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ToolRefused("not_permitted", f"{shown}: permission denied ({words})", "Use another path.")
    if number in (errno.ENAMETOOLONG, errno.EINVAL):
        return invalid_path(shown)
    if number == errno.ENXIO:
        return not_regular(stat.S_IFSOCK, shown)
    if number == errno.ENOENT:
        return ToolRefused("not_found", f"There is no {shown}", "Use list_files to see what exists.")
    return ToolRefused("system_error", f"{shown}: {words}", "Try again, or report the problem.")
