"""Markers: lines with which a model says that it is done, wants to go on, or is stuck.

A marker counts only if it is alone on its line, outside code and quotes: in a code fence, indented by four or more, between
backticks or quotation marks, in ``<pre>``, or in a quotation it is an example. A marker that counts is removed from what is
stored and shown.
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
_HTML = re.compile(r" {0,3}<(?P<tag>!--|(?:pre|script|style|textarea)(?=[\s>]|\Z))", re.IGNORECASE)
"""A line that begins a block of HTML whose text may hold blank lines."""
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_NO_PARAGRAPH = re.compile(r" {4}|\t| {0,3}(?:#{1,6}(?:\s|\Z)|`{3}|~{3}|(?:[-*+]|[0-9]{1,9}[.)])\s|(?:[-_*][ \t]*){3,}\s*\Z)")
"""A line that begins a block other than a paragraph, and so continues none."""
_BACKTICKS = re.compile(r"\\?(`+)")
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
    examples = _Examples()
    kept = "".join([examples.take(line) for line in _LINES.findall(part.text)]) + examples.rest()
    signals += examples.signals
    if not examples.signals:
        return part
    text = kept.rstrip(" \t\r\n")  # no more than that: it could turn another line into a marker
    return replace(part, text=text) if text.strip() else None


class _Examples:
    """The code, quotations and HTML of a text, line by line, as in CommonMark: a marker in them is an example.

    A marker after an opening backtick waits until the closing one comes, or the paragraph ends without it.
    """

    def __init__(self) -> None:
        self.signals: list[str] = []
        self._closed = False
        """Whether the last line has closed the code span that was open before it."""
        self._fence = ""
        """The characters that began the fence that is open; empty outside."""
        self._tag = ""
        """The end of the block of HTML that is open; empty outside."""
        self._in_quote = False
        """Whether the next line continues the paragraph of a quotation, with or without its ``>``."""
        self._in_paragraph = False
        """Whether an indented line continues the text before it, instead of being code."""
        self._backticks = 0
        """The number of backticks that opened the code span; 0 outside."""
        self._waiting: list[str] = []
        """A marker that may be in a code span, and the lines after it."""

    @property
    def is_waiting(self) -> bool:
        """Whether lines were taken that `take` has not returned yet."""
        return bool(self._waiting)

    def take(self, line: str) -> str:
        """Take the next line; return the lines that are decided by now, without markers. Each signal is added to `signals`."""
        was_open, is_example, is_marker = self._backticks, self._hold(line), _LINE.fullmatch(line) is not None
        if not (was_open and (self._waiting or is_marker)):
            return self._kept(line, is_example)
        if self._backticks == was_open:
            self._waiting.append(line)
            return ""
        return self._decided(is_example=self._closed) + self._kept(line, is_example)

    def rest(self) -> str:
        """Return the lines that wait, without markers, as the text has ended and with it any code span."""
        return self._decided(is_example=False)

    def _decided(self, *, is_example: bool) -> str:
        lines, self._waiting = self._waiting, []
        return "".join([self._kept(line, is_example) for line in lines])

    def _kept(self, line: str, is_example: bool) -> str:
        marker = None if is_example else _LINE.fullmatch(line)
        if marker is None:
            return line
        name = marker[1] or marker[2]
        self.signals.append(_SIGNALS.get(name, name))
        return ""

    def _hold(self, line: str) -> bool:
        """Track the examples that the line opens and closes; return whether it is in one other than a code span."""
        self._closed = False
        if self._tag or (not self._fence and self._opens_html(line)):
            if self._tag in line.lower():
                self._tag = ""
            return True
        before, fence = self._fence, _FENCE.match(line)
        if fence is not None:
            if not before:
                self._fence = fence["fence"]
            elif fence["fence"].startswith(before) and not fence["more"].strip():
                self._fence = ""
        if before or self._fence:
            self._end_paragraph()
            return True
        return self._holds_in_paragraph(line)

    def _end_paragraph(self) -> None:
        self._in_quote, self._in_paragraph, self._backticks = False, False, 0

    def _opens_html(self, line: str) -> bool:
        opening = _HTML.match(line)
        if opening is not None:
            self._tag = "-->" if opening["tag"] == "!--" else f"</{opening['tag'].lower()}>"
            self._end_paragraph()
        return opening is not None

    def _holds_in_paragraph(self, line: str) -> bool:
        if not line.strip():
            self._end_paragraph()
            return False
        quoted = _QUOTE.match(line)
        if quoted is not None:
            rest = line[quoted.end() :]
            self._in_quote, self._backticks = bool(rest.strip()) and not _NO_PARAGRAPH.match(rest), 0
            return True
        if self._in_quote and not _NO_PARAGRAPH.match(line):
            return True
        self._in_quote = False
        if not self._in_paragraph and line.startswith(("    ", "\t")):
            return False  # code, and no marker: backticks in it open no code span
        self._in_paragraph = True
        for run in _BACKTICKS.finditer(line) if "`" in line else ():
            length = len(run[1])
            if self._backticks == length:
                self._backticks, self._closed = 0, True
            elif not self._backticks and run[0][0] == "`":  # escaped, it opens nothing
                self._backticks = length
        return False


class MarkerFilter:
    """Removes marker lines from streamed text, holding back the start of a line while it may still become one."""

    def __init__(self) -> None:
        self._line = ""
        """The text held back, from the beginning of its line."""
        self._at_start = True
        self._examples = _Examples()
        self._shown: list[str] = []
        """The pieces of a line whose beginning was shown already."""

    def feed(self, text: str) -> str:
        """Return the text that may be shown now."""
        if not self._at_start and "\n" not in text:
            self._shown.append(text)
            return text
        return "".join([self._take(piece) for piece in _LINES.findall(text)])

    def rest(self) -> str:
        """Return the text still held back when the stream has ended."""
        held = (self._examples.take(self._line) if self._line else "") + self._examples.rest()
        self._line, self._at_start, self._examples, self._shown = "", True, _Examples(), []
        return held

    def _take(self, piece: str) -> str:
        ends = piece.endswith("\n")
        if not self._at_start:
            self._at_start = ends
            self._shown.append(piece)
            if ends:
                self._examples.take("".join(self._shown))
                self._shown = []
            return piece
        self._line += piece
        if ends:
            held, self._line = self._line, ""
            return self._examples.take(held)
        if self._examples.is_waiting or _may_be_marker(self._line):
            return ""
        held, self._line, self._at_start = self._line, "", False
        self._shown = [held]
        return held


def _may_be_marker(line: str) -> bool:
    begun = line.translate(_SPACE)
    if line[:4].isspace() and (len(line) > 3 or "\t" in line):
        return False  # as deep as code
    return any(whole.startswith(begun) for whole in _WHOLE)
