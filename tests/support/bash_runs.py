"""Commands run by bash where every program is a stub, and a comparison with what was read in them."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentnb.commands.shell_script import Script, Word

PATIENCE = 60.0
BASH = shutil.which("bash") or "bash"
STUBS = ("rm", "env")
"""Programs that are files; each other name is caught by bash's own handler, which costs no new process image."""
STUB = '#!/bin/sh\nprintf \'%s\\0\' $(($# + 1)) {name} "$@" >>"$CALLS.$$"\n[ "$STATUS" = 0 ]\n'
HANDLER = """() {
  printf '%s\\0' "$#" "$@" >>"$CALLS.$BASHPID"
  [[ $1 != diff && $STATUS = 0 ]]
}"""
DRIVER = """
number=0
while IFS= read -r -d '' text <&9; do
  export CALLS=$HOME/$number.calls
  (
    cd "$HOME/$number" && HOME=$PWD && exec 9<&- && unset number && eval "$text"
  ) </dev/null >/dev/null 2>"$HOME/$number.errors"
  number=$((number + 1))
done 9<"$HOME/texts"
"""
MISSING = re.compile(r"line \d+: ([^:\n]*): No such file or directory$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BashRun:
    """Programs and files that bash used for a command."""

    calls: tuple[tuple[str, ...], ...]
    written: frozenset[str]
    missing: frozenset[str]
    """Files that bash failed to open."""


def run_in_bash(commands: Sequence[str], folder: Path, *, is_alone: bool = False, status: int = 0) -> list[BashRun]:
    """Run commands, each in a folder and subshell of its own, or ``is_alone``, in a bash of its own."""
    stubs = folder / "stubs"
    stubs.mkdir(parents=True)
    for name in STUBS:
        (stubs / name).write_text(STUB.format(name=name))
        (stubs / name).chmod(0o755)
    for number in range(len(commands)):
        (folder / str(number)).mkdir()
        (folder / str(number) / "in1").write_text("")
    (folder / "texts").write_bytes(b"".join(text.encode() + b"\0" for text in commands))
    environment = {
        "PATH": str(stubs),
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "FUNCNEST": "10",
        "STATUS": str(status),
        "BASH_FUNC_command_not_found_handle%%": HANDLER,
    }
    if is_alone:
        for number, text in enumerate(commands):
            here = folder / str(number)
            with (folder / f"{number}.errors").open("wb") as errors:
                _bash(text, here, environment | {"CALLS": f"{here}.calls", "HOME": str(here)}, errors.fileno())
    else:
        _bash(DRIVER, folder, environment, subprocess.DEVNULL)
    logs: dict[str, list[Path]] = {}
    for log in folder.glob("*.calls.*"):
        logs.setdefault(log.name.partition(".")[0], []).append(log)
    return [_result(folder, number, logs.get(str(number), [])) for number in range(len(commands))]


def _bash(text: str, folder: Path, environment: dict[str, str], errors: int) -> None:
    """Run a text and wait until every process of it has closed its end of a pipe."""
    reading, writing = os.pipe()
    arguments = [BASH, "--norc", "--noprofile", "-c", text]
    files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": errors, "pass_fds": [writing]}
    with subprocess.Popen(arguments, cwd=folder, env=environment, start_new_session=True, **files) as process:
        os.close(writing)
        try:
            assert select.select([reading], [], [], PATIENCE)[0], "a command does not end"
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _result(folder: Path, number: int, logs: Sequence[Path]) -> BashRun:
    fields = (field for log in logs for field in log.read_bytes().decode(errors="surrogateescape").split("\0")[:-1])
    calls = [tuple(next(fields) for _ in range(int(count))) for count in fields]
    errors = (folder / f"{number}.errors").read_text(errors="surrogateescape")
    written = {path.name for path in (folder / str(number)).iterdir() if path.name != "in1"}
    if (folder / str(number) / "in1").stat().st_size:
        written.add("in1")
    return BashRun(tuple(calls), frozenset(written), frozenset(MISSING.findall(errors)))


def unnamed(script: Script, run: BashRun) -> list[str]:
    """Return the calls and files of a run that the script does not name."""
    lines = [command.words for command in script.commands if command.words]
    sourced = [word for words in lines if words[0].value in ("source", ".") for word in words[1:]]
    targets = sourced + [each.target for command in script.commands for each in command.redirections if each.target]
    found = [
        f"call {call}" for call in run.calls if not any(words[0].value is not None and _is_call(words, call) for words in lines)
    ]
    programs = {words[0].value for words in lines}  # one that is not there is missing by its path
    return found + [
        f"file {name!r}"
        for name in sorted(run.written | run.missing)
        if not any(_is_word(word, name) for word in targets) and not (name in run.missing and name in programs)
    ]


def _is_word(word: Word, text: str) -> bool:
    return word.value == text if word.value is not None else text.startswith(word.prefix)


def _is_call(words: Sequence[Word], call: Sequence[str]) -> bool:
    if not words:
        return not call
    first = words[0]
    if not first.may_split:
        return bool(call) and _is_word(first, call[0]) and _is_call(words[1:], call[1:])
    counts = range(len(call) + 1)
    return any(all(_is_word(first, text) for text in call[:count]) and _is_call(words[1:], call[count:]) for count in counts)
