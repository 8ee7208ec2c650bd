"""Shell commands, taken apart for the rules about them."""

from __future__ import annotations

import re
from typing import NamedTuple

from agentnb.policies.permissions.globs import star_glob
from agentnb.tools.builtin.shell.syntax import OPERATORS, QUOTED, RESERVED, simple_commands, tokens_of

NEVER_SIMPLE = re.compile(r"[;&|<>`\x00-\x08\x0a-\x1f\x7f]|\$[({\[]")
"""Signs of more than one simple command: operators, substitutions, redirections, ends of lines."""
EXPANDS = re.compile(r"[$`]|\\\n|[<>][(|]|&>|(?:^|[\s;&|()])#|\{[^{}]*(?:,|\.\.)")
"""Signs outside of single quotes by which the shell makes a command of something else."""
DESCRIPTOR = re.compile(rf"{QUOTED.pattern}|(?<![^\s;&|()<>])\d+(?=[<>])", re.DOTALL)
"""A quotation, or the number of a descriptor before a redirection."""
INDEXED = re.compile(r"\[[^\]]*[$`]")
"""An index that the shell may compute, also within single quotes."""
PLAIN = re.compile(r"[\w ./:@%+,=-]*")
"""Commands whose words are what stands between blanks."""
_INTERPRETERS = """
    ash bash bun csh cscript dash deno elixir fish gawk awk groovy ipython irb julia ksh lua mawk node nodejs osascript perl
    php powershell pwsh python pypy R rbash Rscript ruby scala sed sh sqlite3 tclsh tcsh ts-node vim vi ex ed zsh
"""
INTERPRETERS = frozenset(_INTERPRETERS.split())
"""Programs that run code of their own language."""
_STARTERS = """
    bind busybox choom chronic chrt compgen complete dbus-run-session enable fakeroot fc hash i386 linux64 mapfile prlimit
    readarray run-parts runuser setpriv sg start-stop-daemon taskset toybox unbuffer x86_64
    . alias at batch builtin chroot command coproc crontab doas env eval exec find flock gdb ionice nice nohup npx
    nsenter parallel pipx pkexec script setarch setsid source ssh stdbuf strace su sudo systemd-run time timeout trap
    unshare uvx watch xargs
"""
STARTERS = frozenset(_STARTERS.split())
"""Programs and words of the shell that start other programs."""
_RUNS_MORE = """
    exec x run bisect submodule difftool mergetool foreach filter-branch
"""
RUNS_MORE = frozenset(_RUNS_MORE.split())
"""First words after which a program starts others."""
STARTING_OPTIONS = {
    "git": ("-c", "--config-env", "--exec-path"),
    "rsync": ("-e", "--rsh"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "tar": ("-I", "--checkpoint-action", "--to-command", "--use-compress-program"),
}
"""Options with which a program starts others, whole or their beginning."""


class Parts(NamedTuple):
    """A command taken apart."""

    texts: tuple[str, ...]
    """The command as written, and each simple command in it with single blanks, quotes removed."""
    is_whole: bool
    """Whether these are all that it can run."""


def is_simple(command: str) -> bool:
    """Return whether it is one simple command, without any sign of another, also within quotes."""
    return NEVER_SIMPLE.search(command) is None


def parts_of(command: str) -> Parts:
    """Take a command apart. What it starts in another way than by name is not found: then the parts are not the whole."""
    quoted = [found[0] for found in QUOTED.finditer(command)]
    is_whole = not EXPANDS.search(QUOTED.sub(_unquoted, command)) and "<<" not in command
    is_whole = is_whole and not any(set(text) <= set(OPERATORS + "<>'\"\\") for text in quoted)  # read as an operator below
    is_whole = is_whole and not INDEXED.search(command)
    command, given = DESCRIPTOR.sub(lambda found: "" if found[0].isdigit() else found[0], command), command
    try:
        tokens = command.split() if PLAIN.fullmatch(command) else tokens_of(command)
    except ValueError:  # a quotation that does not end
        return Parts((given,), is_whole=False)
    texts = [given.strip()]
    for words in simple_commands(tokens):
        texts.append(" ".join(words))
        program = words[0].rpartition("/")[2]
        texts.append(" ".join([program, *words[1:]]))
        is_whole = is_whole and not re.search(r"[*?\[{~]", words[0]) and not _starts_others(program)
        is_whole = is_whole and not any(word.startswith(STARTING_OPTIONS.get(program, ())) for word in words[1:])
    return Parts(tuple(dict.fromkeys(texts)), is_whole)


def offered_pattern(command: str) -> str:
    """Return the pattern of a command that "always" offers: its program and first word. Empty if none is offered."""
    words = command.strip().split(" ")
    program = words[0]
    if not is_simple(command) or "*" in command or not re.fullmatch(r"[\w.+-]+", program) or _starts_others(program):
        return ""
    if len(words) == 1 or words[1].startswith("-") or words[1] in RUNS_MORE or not re.fullmatch(r"[\w./:@%+,=-]+", words[1]):
        return command.strip()
    return f"{program} {words[1]} *"


def command_glob(pattern: str) -> str:
    """Return the regular expression of a pattern, in which ``*`` is any text; `` *`` at its end is also nothing."""
    beginning, star = (pattern[:-2], r"(?:\ .*)?") if pattern.endswith(" *") else (pattern, "")
    return star_glob(beginning) + star


def _starts_others(program: str) -> bool:
    name = program.rpartition("/")[2]
    base = name.rstrip("0123456789.") or name
    return name in STARTERS or base in INTERPRETERS or name in RESERVED


def _unquoted(found: re.Match[str]) -> str:
    """Return what the shell still reads in a quotation: all of a double one, but for what is escaped in it."""
    text = found[0]
    if text.startswith("'"):
        return ""
    if text.startswith("\\"):
        return text if text == "\\\n" else ""
    return re.sub(r"\\[$`]", "", text)
