"""Captures the output of code that a call runs: printed text, displays and figures, within limits."""

from __future__ import annotations

import binascii
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from agentnb.core.messages import Image, Text, as_shown, encodable
from agentnb.core.redaction import redact
from agentnb.tools.builtin.notebook.diverted_stream import DivertedStream
from agentnb.tools.pictures import picture_of

MAX_TEXT = 20_000
"""Maximum number of characters of text, half from its beginning and half from its end."""
MAX_PICTURES = 10
LEFT_OUT = "\n[{:,} characters left out]\n"
PICTURES = ("image/png", "image/jpeg")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Output:
    """Text and pictures of a call. Thread-safe, because the code may start threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may print in between
        self._pieces: list[str] = []
        self._size = self._dropped = 0
        self._head = ""
        self._displays: dict[str, str] = {}
        """Text of updatable displays, by id."""
        self.pictures: list[Text | Image] = []
        self._picture_count = 0

    def write(self, text: str) -> bool:
        """Append text. Returns True."""
        with self._lock:
            self._pieces.append(text)
            self._size += len(text)
            if self._size > 4 * MAX_TEXT:  # rarely, so that many short texts stay cheap
                self._shorten()
        return True

    def display(self, data: Mapping[str, Any], display_id: str = "", *, is_update: bool = False) -> None:
        """Append a display as text and picture. An update of a captured display replaces its text."""
        text = data.get("text/plain")
        kinds = ", ".join(sorted(kind for kind in data if type(kind) is str))
        text = text if isinstance(text, str) else f"[a display of {kinds}]"
        picture = next(filter(None, (_decode_picture(data.get(kind)) for kind in PICTURES)), None)
        with self._lock:
            if is_update and display_id in self._displays:
                before, self._displays[display_id] = self._displays[display_id], text
                self._pieces = ["".join(self._pieces).replace(before, text, 1)]
                return
            if display_id:
                self._displays[display_id] = text
        if picture is None:
            self.write(f"{text}\n")
        else:
            self.draw(picture, text)

    def draw(self, value: Any, words: str = "") -> None:
        """Append the picture of a value, such as a figure; do nothing if it has none."""
        picture = picture_of(value)
        if picture is None:
            return
        with self._lock:
            self._picture_count += 1
            number = self._picture_count
        first, *others = picture.parts(words)
        caption = first.text if isinstance(first, Text) else words
        if number > MAX_PICTURES:
            self.write(f"[picture {number} left out: {caption}]\n")
            return
        self.write(f"[picture {number}]\n")
        with self._lock:
            self.pictures += [Text(f"picture {number}: {encodable(caption)}"), *others]

    def clear(self) -> None:
        """Discard the captured output, as ``clear_output`` does."""
        with self._lock:
            self._pieces, self._size, self._dropped, self._head = [], 0, 0, ""
            self._displays, self.pictures = {}, []

    @property
    def text(self) -> str:
        """The text so far, as a terminal would show it, cut in the middle to `MAX_TEXT` characters."""
        with self._lock:
            whole, head, dropped = as_shown(without_escapes("".join(self._pieces))), self._head, self._dropped
        if not dropped and len(whole) <= MAX_TEXT:
            return encodable(whole)
        head, whole, dropped = _split(head, whole, dropped)
        return encodable(f"{head}{LEFT_OUT.format(dropped)}{whole}")

    def _shorten(self) -> None:
        text = as_shown(without_escapes("".join(self._pieces)))
        if len(text) > 2 * MAX_TEXT:
            self._head, text, self._dropped = _split(self._head, text, self._dropped)
        self._pieces, self._size = [text], len(text)


def _split(head: str, text: str, dropped: int) -> tuple[str, str, int]:
    """Return the beginning, the end, and the number of characters omitted between them."""
    text = redact(text)  # before cutting: a partial key would not be recognized
    if not dropped:
        head, text = text[: MAX_TEXT // 2], text[MAX_TEXT // 2 :]
    cut = max(0, len(text) - MAX_TEXT // 2)
    return head, text[cut:], dropped + cut


def without_escapes(text: str) -> str:
    """Remove colours and other terminal escapes."""
    return _ESCAPES.sub("", text)


def _decode_picture(data: Any) -> bytes | None:
    """Return the bytes of a picture in a display, decoding base64, or None for other data."""
    try:
        content = binascii.a2b_base64(data) if isinstance(data, str) else data
    except ValueError:
        return None
    return content if isinstance(content, bytes) else None


@contextmanager
def capture_output(shell: Any, output: Output, is_inside: Callable[[], bool]) -> Iterator[None]:
    """Within the block, capture what code prints and displays while ``is_inside`` returns True; pass on other output."""
    with ExitStack() as stack:
        for name in ("stdout", "stderr"):
            stack.enter_context(_stream(name, output, is_inside))
        stack.enter_context(_publisher(shell.display_pub, output, is_inside))
        yield


@contextmanager
def _stream(name: str, output: Output, is_inside: Callable[[], bool]) -> Iterator[None]:
    before = getattr(sys, name)
    if before is None:
        yield
        return
    diverted = DivertedStream(before, lambda text: is_inside() and output.write(text))
    setattr(sys, name, diverted)
    try:
        yield
    finally:
        _remove(name, diverted)


def _remove(name: str, diverted: DivertedStream) -> None:
    """Remove a stream from the chain, even if another has been put in front of it."""
    stream = getattr(sys, name)
    if stream is diverted:
        setattr(sys, name, diverted.stream)
        return
    while isinstance(stream, DivertedStream):
        if stream.stream is diverted:
            stream.stream = diverted.stream
            return
        stream = stream.stream


@contextmanager
def _publisher(publisher: Any, output: Output, is_inside: Callable[[], bool]) -> Iterator[None]:
    """Replace two methods of IPython's publisher, because its hooks are per thread and the code may start threads."""
    publish, clear = publisher.publish, publisher.clear_output
    own = {name: vars(publisher)[name] for name in ("publish", "clear_output") if name in vars(publisher)}

    def publish_inside(data: Any, metadata: Any = None, *args: Any, **rest: Any) -> None:
        if is_inside():
            display_id = (rest.get("transient") or {}).get("display_id", "")
            output.display(data, display_id, is_update=bool(rest.get("update")))
        else:
            publish(data, metadata, *args, **rest)

    def clear_inside(wait: bool = False) -> None:
        (output.clear if is_inside() else partial(clear, wait))()

    publisher.publish, publisher.clear_output = publish_inside, clear_inside
    try:
        yield
    finally:
        for name in ("publish", "clear_output"):
            vars(publisher).pop(name, None)
        vars(publisher).update(own)
