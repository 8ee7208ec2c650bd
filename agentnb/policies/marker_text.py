"""Markers: lines with which a model says that it is done, wants to go on, or is stuck.

A marker counts only if it is alone on its line, outside code and quotes: in a code fence, indented by four or more, between
backticks or quotation marks, or behind ``>`` it is an example. A marker that counts is removed from what is stored and shown.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Message, Text

_WORD = r"\[(WORKFLOW_COMPLETE|CONTINUE)\]"
_STATUS = r'\{ "status" : "(complete|continue|stop)" \}'.replace(" ", r"[ \t]*")
_LINE = re.compile(rf"^ {{0,3}}(?:{_WORD}|{_STATUS})[ \t]*\r?$\n?", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*\Z)|~{3,})(?P<more>.*)", re.DOTALL)
"""A line that begins a code fence as Markdown has it, or ends one if nothing follows."""
_MAY_BE_FENCE = re.compile(r" {0,3}[`~]")
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
    fences, kept, found = _Fences(), [], False
    for line in _LINES.findall(part.text):
        marker = None if fences.holds(line) else _LINE.fullmatch(line)
        if marker is None:
            kept.append(line)
        else:
            found = True
            name = marker[1] or marker[2]
            signals.append(_SIGNALS.get(name, name))
    if not found:
        return part
    text = "".join(kept).rstrip(" \t\r\n")  # no more than that: it could turn another line into a marker
    return replace(part, text=text) if text.strip() else None


class _Fences:
    """The code fences of a text, line by line: they begin and end as in CommonMark."""

    def __init__(self) -> None:
        self.open = ""
        """The characters that began the fence that is open; empty outside."""

    def holds(self, line: str) -> bool:
        """Take the next line; return whether it belongs to a code fence, its first and last line included."""
        before, found = self.open, _FENCE.match(line)
        if found is not None:
            if not before:
                self.open = found["fence"]
            elif found["fence"].startswith(before) and not found["more"].strip():
                self.open = ""
        return bool(before or self.open)


class MarkerFilter:
    """Removes marker lines from streamed text, holding back the start of a line while it may still become one."""

    def __init__(self) -> None:
        self._line = ""
        """The text held back, from the beginning of its line."""
        self._at_start = True
        self._fences = _Fences()
        self._of_fence: list[str] | None = None
        """The pieces of a line that was shown already and may begin or end a code fence; None for any other line."""

    def feed(self, text: str) -> str:
        """Return the text that may be shown now."""
        if not self._at_start and "\n" not in text and self._of_fence is None:
            return text
        return "".join([self._take(piece) for piece in _LINES.findall(text)])

    def rest(self) -> str:
        """Return the text still held back when the stream has ended."""
        held = self._line
        is_marker = not self._fences.holds(held) and _LINE.fullmatch(held)
        self._line, self._at_start, self._fences, self._of_fence = "", True, _Fences(), None
        return "" if is_marker else held

    def _take(self, piece: str) -> str:
        ends = piece.endswith("\n")
        if not self._at_start:
            self._at_start = ends
            if self._of_fence is not None:
                self._of_fence.append(piece)
                if ends:
                    self._fences.holds("".join(self._of_fence))
                    self._of_fence = None
            return piece
        self._line += piece
        if ends:
            held, self._line = self._line, ""
            return "" if not self._fences.holds(held) and _LINE.fullmatch(held) else held
        if _may_be_marker(self._line):
            return ""
        held, self._line, self._at_start = self._line, "", False
        self._of_fence = [held] if _MAY_BE_FENCE.match(held) else None
        return held


def _may_be_marker(line: str) -> bool:
    begun = line.translate(_SPACE)
    if line[:4].isspace() and (len(line) > 3 or "\t" in line):
        return False  # as deep as code
    return any(whole.startswith(begun) for whole in _WHOLE)
