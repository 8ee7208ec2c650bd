"""Detection of tool calls written as text: nothing runs, but the model believes that something did.

Small models and careless servers do this, each in its own notation. Only typical positions of a call are searched: the
beginning of a line outside a code block, or the entire reply. Mentioning a tool is not a call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

MAX_CHARACTERS = 100_000
"""Maximum number of characters searched in a reply."""
MAX_TAGS = 20
"""Maximum number of candidate positions examined in a reply."""
REACH = 4_000
"""Characters after such a position within which the tool's name must appear."""

_NAME = r"[A-Za-z0-9_-]{1,64}"
_TAG = re.compile(
    r" {0,3}(?:<[A-Za-z_:]{1,40}>[ \t]*){0,4}"  # wrappers on the same line
    rf"(?:<function=\"?(?P<function>{_NAME})\"?>|<(?:[a-z]{{1,20}}:)?invoke name=\"(?P<invoke>{_NAME})\""
    r"|(?P<open><tool_calls?>|\[TOOL_CALLS\]))"
)
_BEGUN = re.compile(rf"[\s\[]{{0,40}}(?P<name>{_NAME})(?=[\s\[{{(<]|$)")
"""Tool name directly after the tag, as some models write it."""
_NAMED = re.compile(rf"\"(?:name|tool|tool_name|function)\"[ \t\r\n]{{0,40}}:[ \t\r\n]{{0,40}}\"(?P<name>{_NAME})\"")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_FENCED = re.compile(r"(?P<fence>```|~~~)[\w-]{0,20}[ \t]*\r?\n(?P<body>.*)\n[ \t]*(?P=fence)", re.DOTALL)
_WRITTEN = re.compile(rf"(?P<name>{_NAME})\(")
_OF_TOOL = ("name", "tool", "tool_name", "function")
_OF_ARGUMENTS = ("arguments", "parameters", "input", "args")


def claimed_call(text: str, tool_names: Collection[str]) -> str | None:
    """Return the tool that the text calls, or None. Runs in time linear in the length of the text."""
    if not tool_names or not (text := text.strip()):
        return None
    whole = _whole(text, tool_names) if len(text) <= MAX_CHARACTERS else None
    return whole or next((name for name in _tagged_names(text[:MAX_CHARACTERS]) if name in tool_names), None)


def _tagged_names(text: str) -> Iterator[str]:
    """Yield the tool names of tags at the beginning of a line."""
    if "<" not in text and "[TOOL_CALLS]" not in text:
        return
    remaining = MAX_TAGS
    for start in _line_starts(text):
        tag = _TAG.match(text, start)
        if tag is None:
            continue
        yield from filter(None, (tag["function"], tag["invoke"]))
        if tag["open"] is not None:
            behind = text[tag.end() : tag.end() + REACH]
            named = _BEGUN.match(behind) or _NAMED.search(behind)
            yield named["name"] if named else ""
        remaining -= 1
        if not remaining:
            return


def _line_starts(text: str) -> Iterator[int]:
    """Yield the start of each line outside code blocks."""
    start, fenced = 0, False
    while start < len(text):
        if _FENCE.match(text, start):
            fenced = not fenced
        elif not fenced:
            yield start
        start = text.find("\n", start) + 1 or len(text)


def _whole(text: str, tool_names: Collection[str]) -> str | None:
    """Return the tool that the entire text calls, as JSON or Python, with or without a code block."""
    fenced = _FENCED.fullmatch(text)
    if fenced:
        text = fenced["body"].strip()
    elif text.startswith("`") and text.endswith("`"):
        text = text.strip("`").strip()
    if text.startswith(("{", "[")):
        name = _in_json(text)
        return name if name in tool_names else None
    written = _WRITTEN.match(text)
    if written is None or written["name"] not in tool_names or not _closes_at_end(text, written.end() - 1):
        return None
    return written["name"]


def _in_json(text: str) -> str | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    return _tool_of_call(value) if isinstance(value, dict) else None


def _tool_of_call(value: dict[str, Any]) -> str | None:
    """Return the tool named by an object that has the form of a call: a tool name, and an object of arguments."""
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = next((value[key] for key in _OF_TOOL if isinstance(value.get(key), str)), None)
    arguments = next((value[key] for key in _OF_ARGUMENTS if key in value), None)
    has_arguments = isinstance(arguments, dict) or (isinstance(arguments, str) and arguments.lstrip().startswith("{"))
    return name if has_arguments else None


def _closes_at_end(text: str, start: int) -> bool:
    """True if the bracket opened at ``start`` closes with the last character, ignoring brackets in strings."""
    depth, quote, position = 0, "", start
    for position in range(start, len(text)):
        character = text[position]
        if quote:
            if character == quote and text[position - 1] != "\\":
                quote = ""
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if not depth:
                break
    return not depth and not quote and position == len(text) - 1
