"""Makes docs/commands.md from the table of programs, the ordinary commands and the grammar of the test with bash."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from agentnb import tool
from agentnb.commands.programs import ProgramForm, program_forms
from agentnb.policies.permissions.approval_mode import ApprovalMode
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.tools.function import as_tool

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "commands.md"
COMMANDS = Path(__file__).with_name("ordinary_commands.txt")
DENY = {"bash(git push *)": "deny"}
FOLDERS = ("src", "docs", "vendor", "build")
HEAD = """# Rules about commands

Made by `python tests/commands/commands_page.py`; a test fails when it is out of date.

A command is read as bash reads it and taken apart into its *parts*: each program or builtin with its words, also in loops,
substitutions and functions, and what a part starts in sight: `env`, `nice`, `timeout`, `xargs`, `sudo`, `find -exec`, `sh -c
'text'`. A test draws commands from [a grammar](#the-grammar) and runs them in bash: no program starts and no file is opened
that was not named.

**`allow`, and *Always*.** A pattern allows the program in the form that it shows: `bash(git diff *)` only reads. ` *` stands
for operands and options, but not for those that start a program, run a text or name a file to write ([the
table](#programs)), also abbreviated, unless the pattern has them: `bash(sed -i *)`. It stands for no command of another
program (`timeout 60 pytest *`, not `timeout *`), nor for a word that the shell computes (`$X`, `*.py`) and that could be
such an option: write `--` before it. Variables set before the program, files of redirections, and a relative program after
`cd` are outside too. Parts joined by `&&`, `||`, `;`, `|` or a line break run where a rule allows each; `cd` to a folder in
the working folder needs none. `/dev/null` and `2>&1` are the only redirections, and there is no substitution.

**`deny`, and `ask`.** A pattern holds for each part, behind a path, quoted, beside other options and words. Options count in
each order and spelling: `bash(rm -rf *)` is also `rm x --force -R`, `bash(git push --force *)` is also `git -C d push origin
-f`. A pattern with options of a program that is not in the table is refused: write `bash(PROGRAM *)`. Where words are
computed (`rm $X`), or what starts cannot be taken apart (`tmux`, `sh` without a text, `$X`), you are asked each time.

**While a rule denies commands** of a tool, a part asks, also under `auto`, unless it is known as harmless: its program is in
the table, in this form starts nothing, and writes only what it names, in the working folder and not in `.git` or `.agentnb`,
nor a `config` or `HEAD` of git. An `allow` rule or *Always* that names the program (`bash(pytest *)`; not `bash` alone)
settles this for its part, and the question offers it. Where nobody is asked, the call is denied, and the denial names the
rule.

Not looked at: what your own configuration starts (hooks and filters of git, `.curlrc`), and what a program
that you allow does then.
"""
TABLE = """## Programs

*Outside* are the options that ` *` does not stand for. *Harmless*: without these; with one of the options named; or never.

| program | outside ` *` | harmless | source |
|---|---|---|---|
"""
OF_OPERANDS = {
    "command": "the command that it starts",
    "shell": "the command that it starts",
    "trap": "the command that it starts",
    "text": "the text that it runs",
    "sed": "programs with `e`, `w`, labels and what else is not plain editing",
    "awk": "programs with `system`, `getline`, pipes, files that they print to",
    "names": "variables that may change programs",
    "assignments": "`NAME=value`",
    "opaque": "all: what it starts is not taken apart",
}
NEEDS = {"written": "what it writes is in the folder", "last": "what it writes is in the folder", "none": "it has no operands"}


@tool(effects=["execute"], command="command")
def bash(command: str) -> None:
    """Run a command."""


def text() -> str:
    """Return the page."""
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows())
    grammar = f"## The grammar\n\nThe test draws commands from it and runs them in bash:\n\n{_grammar()}"
    return f"{HEAD}\n{TABLE}{rows}\n{_ordinary()}\n{grammar}"


def _grammar() -> str:
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    block: str = import_module("shell_grammar").grammar_block()
    return block


def _rows() -> Iterator[tuple[str, ...]]:
    seen: dict[tuple[str, ...], list[str]] = {}
    for form in program_forms().values():
        seen.setdefault((_outside(form), _harmless(form), form.source), []).append(form.name)
    for (outside, harmless, source), names in seen.items():
        yield ", ".join(f"`{_cell(name)}`" for name in names), outside, harmless, source


def _outside(form: ProgramForm) -> str:
    named = dict.fromkeys((*form.starts, *form.writes))
    options = [f"`{_cell('/'.join(_spellings(form, name)) + (f' {value}' if value else ''))}`" for name, value in named]
    return ", ".join([*options, *([OF_OPERANDS[form.operands]] if form.operands in OF_OPERANDS else [])])


def _spellings(form: ProgramForm, name: str) -> list[str]:
    return [name, *(spelling for spelling, spec in form.options.items() if spec.name == name and spelling != name)]


def _harmless(form: ProgramForm) -> str:
    if isinstance(form.harmless, frozenset):
        return ", ".join(f"`{name}`" for name in sorted(form.harmless))
    needs = NEEDS.get(form.operands, "")
    return "" if not form.harmless else f"if {needs}" if needs else "yes"


def _ordinary() -> str:
    """Return which of the ordinary commands ask, and why."""
    lines = [line.replace("\\n", "\n") for line in COMMANDS.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for inner in FOLDERS:
            (folder / inner).mkdir()
        judging = Permissions.of(ApprovalMode.of("auto"), RuleList.of(DENY)).for_tool("bash", as_tool(bash), folder)
        judged = {line: judging.judge({"command": line}) for line in lines}
    asking = {line: one for line, one in judged.items() if one.verdict == "ask"}
    rows = [f"| `{_cell(line)}` | {_why(one.unsettled)} |\n" for line, one in asking.items()]
    count = f"Under `bash(git push *)=deny` and `auto`, {len(asking)} of {len(lines)} ordinary commands ask"
    return f"## Ordinary commands\n\n{count}:\n\n| command | asks about |\n|---|---|\n{''.join(rows)}"


def _why(parts: tuple[str, ...]) -> str:
    return ", ".join(f"`{_cell(part)}`" for part in parts) or "what it starts cannot be taken apart"


def _cell(value: str) -> str:
    return value.replace("\n", "⏎").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(text().splitlines())} lines")
