"""The complete call that a person is asked about, as text: its command, its file change, its arguments.

Blanks and invisible characters are made visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.advice import AcceptServer
from agentnb.commands.shell_command import shell_command
from agentnb.core.questions import JudgedCall, ToolOrigin, WaitingOnUser
from agentnb.display.texts.visible_text import visible, visible_name
from agentnb.tools.subject import READ_TOOL

MAX_WITH_CALL = 600
"""Maximum characters of a question that contains its complete call: a longer question may be cut where it is shown."""
MAX_INDENT = 40
"""Number of spaces at the start of a file's line that are left unchanged."""
CANNOT_UNDO = "This change cannot be undone: the file contains a key, and agentnb does not copy keys."
ASKED_FOR = "Asked for this call"
NAMES_FILE, NO_FILE = "+++ ", "--- /dev/null"
"""The prefix of the diff line that names the file after the change, and of a diff that creates a file."""
MAX_DEPTH = 8
"""Maximum levels of objects and lists within arguments that are shown line by line."""
CallPartKind: TypeAlias = Literal["command", "code", "diff", "arguments", "news", "description"]


class CallPart(NamedTuple):
    """A part of the call that a question concerns."""

    kind: CallPartKind
    title: str
    """Title of the part; empty for the arguments of a gated call, which begin with the tool's name."""
    text: str


def question_text(question: WaitingOnUser) -> str:
    """Return the question as it is shown, with blanks made visible if it asks for approval."""
    return visible(question.message) if question.kind == "approval" else question.message


def call_title(about: JudgedCall) -> str:
    """Return a description of a call, as the title of the question about it."""
    by = f" with {visible_name(about.tool)}"
    if about.command:
        return f"Run a command{'' if about.tool in ('bash', 'shell') else by}{_named_keys(about)}"
    if about.tool == READ_TOOL and isinstance(path := _argument(about, "path"), str):
        return f"Read {visible(path)}"
    if _code(about):
        return "Run Python in your kernel" if about.tool == "run_python" else f"Run code{by}"
    does = "Create" if about.diff.startswith(NO_FILE) else "Change"
    return f"{does} {visible(_changed_file(about))}" if about.diff else f"Call {visible_name(about.tool)}"


def call_parts(question: WaitingOnUser) -> list[CallPart]:
    """Return the parts of the call that a question concerns, or that asks the question: command, code, file change,
    other arguments.

    For an MCP server's tool, includes what has changed about the tool and the server's description of it. Omits arguments that
    the question itself, the command, the code or the change shows in full.
    """
    origin = question.about or question.caller
    if origin is None:
        return []
    tool = visible_name(origin.tool)
    command = CallPart("command", f"{tool} runs this command{_named_keys(origin)}", visible(origin.command))
    code = CallPart("code", f"{tool} runs this code", "\n".join(map(code_line, _code(origin).split("\n"))))
    diff = CallPart("diff", "The change", "\n".join(map(diff_line, origin.diff.rstrip("\n").split("\n"))))
    is_in_question = origin.arguments in question.message and len(question.message) <= MAX_WITH_CALL
    title = "" if question.about else ASKED_FOR
    arguments = CallPart("arguments", title, "" if is_in_question else _arguments(origin))
    return [part for part in (command, code, diff, arguments, *_origin_parts(tool, origin.origin)) if part.text]


def _origin_parts(tool: str, origin: ToolOrigin | None) -> list[CallPart]:
    if origin is None:
        return []
    news = "\n".join(map(diff_line, origin.diff.split("\n")))
    return [
        CallPart("news", f"Changed since {tool} was first seen", news),
        CallPart("description", f"The MCP server {visible_name(origin.server)} says of {tool}", visible(origin.description)),
    ]


def undo_note(question: WaitingOnUser) -> str:
    """Return the note that the change cannot be undone; empty if it can be, or if there is no change."""
    return CANNOT_UNDO if question.about is not None and question.about.cannot_undo else ""


def accept_advice(question: WaitingOnUser) -> tuple[AcceptServer, ...]:
    """Return advice on making rules apply again to an MCP server's tool that has changed; empty for any other tool."""
    origin = None if question.about is None else question.about.origin
    if origin is None or not origin.changed:
        return ()
    return (AcceptServer(visible_name(origin.server), lead="To apply rules to its current version"),)


def call_text(question: WaitingOnUser) -> str:
    """Return the complete call that a question concerns; empty if there is no call, or if the question contains it."""
    parts = [part.text if not part.title else f"{part.title}:{_block(part.text)}" for part in call_parts(question)]
    return "\n".join(filter(None, [undo_note(question), *parts]))


def _arguments(about: JudgedCall) -> str:
    """Return the arguments that neither command, code nor diff shows; empty if these show everything."""
    arguments = _decode_arguments(about)
    if not isinstance(arguments, dict):
        return f"{visible_name(about.tool)}: {visible(msgspec.json.encode(arguments).decode())}"
    code, shown = _code(about), {about.command, *_sides(about.diff)} - {"", "\n"}
    others = {
        name: value
        for name, value in arguments.items()
        if not (isinstance(value, str) and (value in shown or (name == "code" and value == code)))
    }
    if (shown or code) and [*others.values()] in ([], [_changed_file(about)]):
        return ""
    tool = visible_name(about.tool)
    return "\n".join(
        [
            f"Other arguments of {tool}:" if shown or code else tool,
            *(f"  {visible_name(name)}: {_value(value)}" for name, value in others.items()),
        ]
    )


def _decode_arguments(about: JudgedCall) -> Any:
    """Return the arguments of a call, or their text if they are not JSON."""
    try:
        return msgspec.json.decode(about.arguments)
    except (msgspec.DecodeError, RecursionError):
        return about.arguments


def _argument(about: JudgedCall, name: str) -> Any:
    arguments = _decode_arguments(about)
    return arguments.get(name) if isinstance(arguments, dict) else None


def _named_keys(about: JudgedCall) -> str:
    """Return the key files that a command names, as text to append to it."""
    names = shell_command(about.command).key_files if about.command else ()
    return f" that uses {', '.join(map(visible, names))}, which may contain keys" if names else ""


def _changed_file(about: JudgedCall) -> str:
    """Return the path of the file that a call changes; empty if the change is unknown."""
    return next((line.removeprefix(NAMES_FILE) for line in about.diff.split("\n") if line.startswith(NAMES_FILE)), "")


def _code(about: JudgedCall) -> str:
    """Return the code that a call runs; empty if it runs no code."""
    code = _argument(about, "code") if "execute" in (about.effects or "") and not about.command else None
    return code if isinstance(code, str) else ""


def _sides(diff: str) -> Iterable[str]:
    """Yield the old and the new text that the diff of a change shows, with and without a final line break."""
    lines = diff.rstrip("\n").split("\n@@", 1)[-1].split("\n")[1:] if "\n@@" in diff else []
    for signs in ("+", "-", "+ ", "- "):
        side = "\n".join(line[1:] for line in lines if line[:1] in tuple(signs))
        yield from (side, f"{side}\n")


def diff_line(line: str) -> str:
    """Return a line of a diff, keeping its indentation."""
    return f"{visible(line[:1])}{code_line(line[1:])}"


def code_line(line: str) -> str:
    """Return a line of code, keeping its indentation."""
    indent = len(line) - len(line.lstrip(" "))
    kept = indent if indent <= MAX_INDENT and indent < len(line) else 0
    return f"{line[:kept]}{visible(line[kept:])}"


def _value(value: Any, depth: int = 2) -> str:
    """Return a value, with lists, objects and multi-line texts indented so that no line can pass for another argument."""
    indent = "\n" + "  " * depth
    if value and depth < MAX_DEPTH and isinstance(value, dict):
        return "".join(f"{indent}{visible_name(name)}: {_value(item, depth + 1)}" for name, item in value.items())
    if value and depth < MAX_DEPTH and isinstance(value, list):
        return "".join(f"{indent}- {_value(item, depth + 1)}" for item in value)
    if isinstance(value, str) and "\n" in value:
        return indent.join(["", *visible(value).split("\n")])
    return visible(value if isinstance(value, str) and _is_plain(value) else msgspec.json.encode(value).decode())


def _is_plain(text: str) -> bool:
    """Return whether a text needs no quotation marks: it has no leading or trailing blanks and is not JSON, such as a
    number.
    """
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return bool(text) and text == text.strip()
    return False


def _block(text: str) -> str:
    return "".join(f"\n    {line}" for line in text.split("\n"))
