"""Markers: lines with which a model says that it is done, wants to go on, or is stuck.

A marker counts only if it is alone on its line. It is removed from what is stored and shown.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Message, Text

_WORD = r"\[(WORKFLOW_COMPLETE|CONTINUE)\]"
_STATUS = r'\{ "status" : "(complete|continue|stop)" \}'.replace(" ", r"[ \t]*")
_LINE = re.compile(rf"^[ \t]*(?:{_WORD}|{_STATUS})[ \t]*\r?$\n?", re.MULTILINE)
_SIGNALS = {"WORKFLOW_COMPLETE": "complete", "CONTINUE": "continue"}
_WHOLE = ("[WORKFLOW_COMPLETE]", "[CONTINUE]", *(f'{{"status":"{name}"}}' for name in ("complete", "continue", "stop")))
_SPACE = str.maketrans("", "", " \t\r")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def without_markers(message: Message) -> tuple[Message, tuple[str, ...]]:
    """Return the message without its marker lines, and their signals in order: complete, continue, stop."""
    for part in message.parts:
        if type(part) is Text and ("[" in part.text or "{" in part.text) and _LINE.search(part.text):
            break
    else:
        return message, ()
    signals: list[str] = []
    parts: list[AnyPart] = []
    for part in message.parts:
        kept = _stripped(part, signals) if isinstance(part, Text) else part
        if kept is not None:
            parts.append(kept)
    return Message(message.role, tuple(parts)), tuple(signals)


def _stripped(part: Text, signals: list[str]) -> Text | None:
    found = [name for groups in _LINE.findall(part.text) for name in groups if name]
    if not found:
        return part
    signals += [_SIGNALS.get(name, name) for name in found]
    text = _LINE.sub("", part.text).rstrip(" \t\r\n")  # no more than that: it could turn another line into a marker
    return replace(part, text=text) if text.strip() else None


class MarkerFilter:
    """Removes marker lines from streamed text, holding back the start of a line while it may still become one."""

    def __init__(self) -> None:
        self._line = ""
        """The text held back, from the beginning of its line."""
        self._at_start = True

    def feed(self, text: str) -> str:
        """Return the text that may be shown now."""
        if not self._at_start and "\n" not in text:
            return text
        return "".join([self._take(piece) for piece in _LINES.findall(text)])

    def rest(self) -> str:
        """Return the text still held back when the stream has ended."""
        held, self._line, self._at_start = self._line, "", True
        return "" if _LINE.fullmatch(held) else held

    def _take(self, piece: str) -> str:
        ends = piece.endswith("\n")
        if not self._at_start:
            self._at_start = ends
            return piece
        self._line += piece
        if ends:
            held, self._line = self._line, ""
            return "" if _LINE.fullmatch(held) else held
        if _may_be_marker(self._line):
            return ""
        held, self._line, self._at_start = self._line, "", False
        return held


def _may_be_marker(line: str) -> bool:
    begun = line.translate(_SPACE)
    return any(whole.startswith(begun) for whole in _WHOLE)
