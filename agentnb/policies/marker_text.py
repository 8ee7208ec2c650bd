"""Markers: lines with which a model reports that it is done, wants to continue, or is stuck.

A marker counts only if it is alone on its line, outside CommonMark code and quotations: otherwise it is an example. Markers
that count are removed from the stored and displayed text.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Message, Text

_WORD = r"\[(WORKFLOW_COMPLETE|CONTINUE)\]"
_STATUS = r'\{ "status" : "(complete|continue|stop)" \}'.replace(" ", r"[ \t]*")
_LINE = re.compile(rf"^( {{0,3}})(?:{_WORD}|{_STATUS})[ \t]*\r?$\n?", re.MULTILINE)
_SIGNALS = {"WORKFLOW_COMPLETE": "complete", "CONTINUE": "continue"}
_WHOLE = ("[WORKFLOW_COMPLETE]", "[CONTINUE]", *(f'{{"status":"{name}"}}' for name in ("complete", "continue", "stop")))
_SPACE = str.maketrans("", "", " \t\r")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_EXAMPLE = re.compile(r"\s*<(?:!--|(?:pre|script|style|textarea)\b)", re.IGNORECASE)
"""HTML block that shows its text verbatim. In other blocks, such as one that begins with ``</answer>``, markers count."""
_SIGN = "\ue000"
"""Delimiter around the number of a marker in the parsed text: a private-use character."""
_NUMBER = re.compile(f"{_SIGN}(\\d+){_SIGN}")
MAX_PARSES = 20
"""Maximum number of parses of a streamed text; after that, text following a marker is shown at the end of the stream."""


def without_markers(message: Message) -> tuple[Message, tuple[str, ...]]:
    """Return the message without its marker lines, and their signals in order: complete, continue, stop."""
    signals: list[str] = []
    parts: list[AnyPart] = []
    for part in message.parts:
        markers = _find_markers(part.text) if isinstance(part, Text) else []
        if not markers or not isinstance(part, Text):
            parts.append(part)
            continue
        signals += [_signal(marker) for marker in markers]
        # strip only the end: stripping more could turn another line into a marker
        if (text := _cut(part.text, markers).rstrip(" \t\r\n")).strip():
            parts.append(replace(part, text=text))
    return (Message(message.role, tuple(parts)), tuple(signals)) if signals else (message, ())


def _find_markers(text: str) -> list[re.Match[str]]:
    """Return the marker lines of a text that are not examples, in order."""
    lines = [*_LINE.finditer(text)] if "[" in text or "{" in text else []
    if not lines:
        return []
    from markdown_it import MarkdownIt

    numbers = iter(range(len(lines)))
    probe = _LINE.sub(lambda line: f"{line[1]}{_SIGN}{next(numbers)}{_SIGN}\n", text.replace(_SIGN, " "))
    quotations, counting = 0, []
    for block in MarkdownIt("commonmark").parse(probe):
        quotations += block.nesting if block.type.startswith("blockquote") else 0
        words = [part.content for part in block.children or () if part.type == "text"]
        if block.type == "html_block" and not _EXAMPLE.match(block.content):
            words = [block.content]
        counting += [lines[int(number)] for number in _NUMBER.findall("\n".join(words)) if not quotations]
    return counting


def _signal(marker: re.Match[str]) -> str:
    name = marker[2] or marker[3]
    return _SIGNALS.get(name, name)


def _cut(text: str, markers: list[re.Match[str]]) -> str:
    """Return the text without these lines."""
    ends = [0, *[marker.end() for marker in markers]]
    starts = [*[marker.start() for marker in markers], len(text)]
    return "".join([text[end:start] for end, start in zip(ends, starts, strict=True)])


class MarkerFilter:
    """Removes marker lines from streamed text, holding back the start of a line while it may still become a marker.

    A marker waits for the end of its paragraph: a later backtick may turn preceding lines into code.
    """

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._waiting: list[str] = []
        """A possible marker line, and the lines after it."""
        self._line: list[str] = []
        """Pieces of the last line while it waits."""
        self._at_start = True
        self._parses = 0

    def feed(self, text: str) -> str:
        """Return the text that can be shown."""
        return "".join([self._take(piece) for piece in _LINES.findall(text)])

    def rest(self) -> str:
        """Return the text held back at the end of the stream."""
        self._waiting.append("".join(self._line))
        held = self._release()
        self.__init__()  # type: ignore[misc]  # the next stream starts a line
        return held

    def _take(self, piece: str) -> str:
        ends = piece.endswith("\n")
        if self._at_start or self._waiting:
            self._line.append(piece)
            line = "".join(self._line) if ends or not self._waiting else ""
            if not ends and (self._waiting or _may_be_marker(line)):
                return ""
            self._line.clear()
            if self._waiting or _LINE.fullmatch(line):
                self._waiting.append(line)
                return "" if line.strip() or self._parses >= MAX_PARSES else self._release()
            piece = line
        self._shown.append(piece)
        self._at_start = ends
        return piece

    def _release(self) -> str:
        """Return the waiting lines without markers."""
        before, held = "".join(self._shown), "".join(self._waiting)
        self._shown, self._waiting, self._parses = [before, held], [], self._parses + 1
        markers = [marker for marker in _find_markers(before + held) if marker.start() >= len(before)]
        return _cut(before + held, markers)[len(before) :]


def _may_be_marker(line: str) -> bool:
    begun = line.translate(_SPACE)
    if line[:4].isspace() and (len(line) > 3 or "\t" in line):
        return False  # indented as code
    return any(whole.startswith(begun) for whole in _WHOLE)
