"""Renders streaming Markdown: each block becomes HTML once, as soon as later text can no longer change it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

from agentnb.display.markdown.markdown import MAX_CHARACTERS, fragment, left_out
from agentnb.display.markdown.markdown_parser import top_blocks
from agentnb.display.markup import Html
from agentnb.display.texts.labels import clean

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_CODE = re.compile(r"(?: {4}| {0,3}\t)")
_LIST = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:\s|$)")
_CROSSES_BLANK_LINES = ("bullet_list_open", "ordered_list_open", "code_block", "fence")
"""Blocks that may continue after a blank line."""

_Kind = Literal["", "text", "list", "code", "fence"]


class Blocks:
    """The blocks of a streaming text.

    ``feed`` only stores the text. ``settle`` (called some 30 times a second) returns the blocks that have become final since
    the last call, and parses only after a line that can end a block. ``finish`` returns the remaining blocks. Joined in
    `markdown_box`, they equal `markdown_html` of the complete text, except for reference links whose address comes in a later
    block.
    """

    def __init__(self, most: int = MAX_CHARACTERS) -> None:
        self._most = most
        self._fed: list[str] = []
        self._held = ""
        self._start()

    def _start(self, tail: str = "") -> None:
        """Continue with the unsettled text, whose first line starts a block."""
        self._tail = tail
        self._scanned = 0
        self._kind: _Kind = ""
        self._fence = ""
        self._after_blank = False
        self._not_before = 0

    def feed(self, delta: str) -> None:
        """Add the next part of the text."""
        self._fed.append(delta)

    @property
    def tail(self) -> str:
        """The unsettled text, cleaned."""
        self._take()
        return self._tail

    @property
    def tail_kind(self) -> Literal["text", "code"]:
        """``code`` if the tail starts with a fence or indented code."""
        line = self.tail.lstrip("\n").partition("\n")[0] if not self._kind else ""
        return "code" if (self._kind or _kind(line)) in ("code", "fence") else "text"

    def settle(self) -> list[Html]:
        """Return the blocks that have become final since the last call."""
        self._take()
        if not self._saw_an_end() or len(self._tail) < self._not_before:
            return []
        return self._settled_blocks()

    def finish(self) -> list[Html]:
        """Return the remaining blocks at the end of the text."""
        self._take(last=True)
        remaining = fragment(self._tail)
        self._start()
        return [block for block in (remaining, left_out(-self._most)) if block]

    def _take(self, *, last: bool = False) -> None:
        """Move text that was fed to the tail. Half a line end or half a character waits for the other half."""
        if not self._fed and not last:
            return
        text = self._held + "".join(self._fed)
        self._fed.clear()
        length = len(text) - (bool(text) and not last and (text[-1] == "\r" or "\ud800" <= text[-1] <= "\udbff"))
        self._held = text[length:]
        shown = clean(text[:length])
        self._tail += shown[: max(self._most, 0)]
        self._most -= len(shown)

    def _saw_an_end(self) -> bool:
        """True if a line that can end a block has arrived since the last call. Checks each line only once."""
        end = self._tail.rfind("\n") + 1
        lines = self._tail[self._scanned : end].split("\n")[:-1]
        self._scanned = max(end, self._scanned)
        return sum(self._can_end(line) for line in lines) > 0  # not any(): each line must be checked

    def _can_end(self, line: str) -> bool:
        blank, after_blank = not line.strip(" \t"), self._after_blank
        self._after_blank = blank
        if not self._kind:
            self._kind = _kind(line)
            self._fence = _fence(line)
            return False
        if self._kind == "fence":
            return _closes(line, self._fence)
        if self._kind == "text":
            return blank or bool(_fence(line))
        at_the_margin = not blank and not line[0].isspace()
        return at_the_margin and ((after_blank and not _LIST.match(line)) or bool(_fence(line)))

    def _settled_blocks(self) -> list[Html]:
        end = self._tail.rfind("\n") + 1
        lines = self._tail[:end].split("\n")[:-1]
        blocks = _top_blocks(self._tail[:end])
        starts = [0, *(first for _, first, _ in blocks[1:])]
        if blocks and _is_final(blocks[-1], lines):
            starts.append(len(lines))
        settled = [fragment(_join_lines(lines[first:after])) for first, after in pairwise(starts)]
        if settled:
            self._start(_join_lines(lines[starts[-1] :]) + self._tail[end:])
            self._saw_an_end()  # for the open block, so that its lines are not checked again
        else:
            self._not_before = 2 * len(self._tail)
        return [block for block in settled if block]


def _top_blocks(text: str) -> list[tuple[str, int, int]]:
    try:
        return top_blocks(text)
    except Exception:  # unparsable text stays in the tail
        return []


def _is_final(block: tuple[str, int, int], lines: list[str]) -> bool:
    """True if the last block of these lines can no longer change."""
    kind, first, after = block
    if kind == "fence":
        return after - 1 > first and _closes(lines[after - 1], _fence(lines[first]))
    return kind not in _CROSSES_BLANK_LINES and not lines[-1].strip(" \t")


def _join_lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _kind(line: str) -> _Kind:
    """Return the kind of block that starts with this line; empty for a blank line."""
    if not line.strip(" \t"):
        return ""
    if _FENCE.match(line):
        return "fence"
    if _CODE.match(line):
        return "code"
    return "list" if _LIST.match(line) else "text"


def _fence(line: str) -> str:
    """Return the fence marks that open on this line, or ""."""
    match = _FENCE.match(line)
    return match.group(1) if match else ""


def _closes(line: str, fence: str) -> bool:
    marks = line.strip(" \t")
    return len(marks) >= len(fence) > 0 and not marks.strip(fence[0]) and _CODE.match(line) is None
