"""The whole call that a person is asked about, as text: its command, its change of a file, its arguments.

Blanks and invisible characters are made visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.advice import AcceptServer
from agentnb.core.questions import JudgedCall, ToolOrigin, WaitingOnUser
from agentnb.display.texts.visible_text import visible, visible_name

MAX_WITH_CALL = 600
"""Characters of the longest question that shows a whole call by itself: a longer one may be cut where it is shown."""
MAX_INDENT = 40
"""Spaces at the beginning of a line of a file that are left as they are."""
CANNOT_UNDO = "This change cannot be undone: the file has a key in it, and agentnb keeps no copies of keys."
ASKED_FOR = "Asked for this call"
CallPartKind: TypeAlias = Literal["command", "diff", "arguments", "news", "description"]


class CallPart(NamedTuple):
    """A part of the call that a question is about."""

    kind: CallPartKind
    title: str
    """What it is; empty for the arguments of a call that a gate asks about: they begin with the name of the tool."""
    text: str


def question_text(question: WaitingOnUser) -> str:
    """Return the question as it is shown: with blanks made visible if it asks for approval."""
    return visible(question.message) if question.kind == "approval" else question.message


def call_parts(question: WaitingOnUser) -> list[CallPart]:
    """Return the parts of the call that a question is about, or that asks it: command, change of a file, other arguments.

    Of a tool of an MCP server also what has changed of it, and what the server says of it. Arguments that the question itself,
    the command or the change holds in full are left out.
    """
    about = question.about or question.caller
    if about is None:
        return []
    tool = visible_name(about.tool)
    command = CallPart("command", f"{tool} runs this command", visible(about.command))
    diff = CallPart("diff", f"{tool} changes a file", "\n".join(map(diff_line, about.diff.rstrip("\n").split("\n"))))
    is_in_question = about.arguments in question.message and len(question.message) <= MAX_WITH_CALL
    title = "" if question.about else ASKED_FOR
    arguments = CallPart("arguments", title, "" if is_in_question else _arguments(about))
    return [part for part in (command, diff, arguments, *_origin_parts(tool, about.origin)) if part.text]


def _origin_parts(tool: str, origin: ToolOrigin | None) -> list[CallPart]:
    if origin is None:
        return []
    news = "\n".join(map(diff_line, origin.diff.split("\n")))
    return [
        CallPart("news", f"Changed since {tool} was first seen", news),
        CallPart("description", f"The MCP server {visible_name(origin.server)} says of {tool}", visible(origin.description)),
    ]


def undo_note(question: WaitingOnUser) -> str:
    """Return the note that the change cannot be undone; empty if it can, or is none."""
    return CANNOT_UNDO if question.about is not None and question.about.cannot_undo else ""


def accept_advice(question: WaitingOnUser) -> tuple[AcceptServer, ...]:
    """Return how rules count again for a tool of an MCP server that has changed; nothing for any other."""
    origin = None if question.about is None else question.about.origin
    if origin is None or not origin.changed:
        return ()
    return (AcceptServer(visible_name(origin.server), lead="To let rules count for it as it is now"),)


def call_text(question: WaitingOnUser) -> str:
    """Return the whole call that a question is about; empty if there is none, or if the question holds all of it."""
    parts = [part.text if not part.title else f"{part.title}:{_block(part.text)}" for part in call_parts(question)]
    return "\n".join(filter(None, [undo_note(question), *parts]))


def _arguments(about: JudgedCall) -> str:
    """Return the arguments that neither command nor diff shows; empty if there are no others."""
    try:
        arguments = msgspec.json.decode(about.arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = about.arguments  # not plain data
    if not isinstance(arguments, dict):
        return f"{visible_name(about.tool)}: {_value(arguments)}"
    shown = {about.command, *_sides(about.diff)} - {"", "\n"}
    others = {name: value for name, value in arguments.items() if not (isinstance(value, str) and value in shown)}
    if shown and not others:
        return ""
    return "\n".join(
        [visible_name(about.tool), *(f"  {visible_name(name)}: {_value(value)}" for name, value in others.items())]
    )


def _sides(diff: str) -> Iterable[str]:
    """Return the texts before and after a change, as far as its diff shows them, with and without a last line break."""
    lines = diff.rstrip("\n").split("\n@@", 1)[-1].split("\n")[1:] if "\n@@" in diff else []
    for signs in ("+", "-", "+ ", "- "):
        side = "\n".join(line[1:] for line in lines if line[:1] in tuple(signs))
        yield from (side, f"{side}\n")


def diff_line(line: str) -> str:
    """Return a line of a diff, in which the indentation stays as it is."""
    sign, rest = line[:1], line[1:]
    indent = len(rest) - len(rest.lstrip(" "))
    kept = indent if indent <= MAX_INDENT and indent < len(rest) else 0
    return f"{visible(sign)}{rest[:kept]}{visible(rest[kept:])}"


def _value(value: Any) -> str:
    """Return a value, with several lines as an indented block, so that none of them can pass for another argument."""
    if isinstance(value, str) and "\n" in value:
        return _block(visible(value))
    return visible(msgspec.json.encode(value).decode())


def _block(text: str) -> str:
    return "".join(f"\n    {line}" for line in text.split("\n"))
