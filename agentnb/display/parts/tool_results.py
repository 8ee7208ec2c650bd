"""Tool results by type: tables, pictures and data are shown as such, anything else as text.

As third-party text, none of it is treated as markup, not even as Markdown.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentnb.core.messages import Image, Text, ToolResult
from agentnb.core.run.rounds import CallRecord
from agentnb.display.defaults import MAX_AT_ONCE, MAX_OF_ALL
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag
from agentnb.display.parts.data_table import pretty, table_html, table_of_objects
from agentnb.display.parts.long_text import Way, long_html
from agentnb.display.texts.call_labels import arguments_by_name, state
from agentnb.display.texts.labels import clean, cut
from agentnb.tools.pictures import media_type

MAX_INLINE_CHARACTERS = 80
"""Maximum characters of an argument shown next to its name."""
MAX_READ = 200_000
"""Maximum characters of a text that is parsed as JSON."""
MAX_WHILE_RUNNING = 40_000
"""Maximum characters shown of an argument while its call is running."""
MAX_IN_ALT = 200

_DESCRIBED = re.compile(r"a (?:figure of|picture of|picture \()")
"""The beginning of a text that merely describes the picture after it."""


class Shown(NamedTuple):
    """A picture with the text before it."""

    image: Image
    alt: str
    caption: str


def result_html(record: CallRecord, form: Form, *, where: str = "", key: str = "") -> Html:
    """Return the result of a call, if there is one yet.

    ``where``: a Python expression for its text, shown where a long text is cut; ``key``: prefix of its folds' keys.
    """
    if record.result is None:
        return NOTHING
    access, pictures = _way_to(record, form, where, key), form.pictures
    if record.result.is_error:
        return join_html(
            *_blocks(
                record.result, access, pictures, "tool-output tool-problem" if state(record) == "failed" else "tool-output"
            ),
            traceback_html(record.traceback, key, access._replace(where=in_record(where, "traceback"))),
        )
    if record.display is not None:
        pieces = list(_pieces(record.result, pictures))
        read = [long_html(piece, access) for piece in pieces if isinstance(piece, str)]
        shown = [_picture(piece) for piece in pieces if isinstance(piece, Shown)]
        return join_html(
            table_html(record.display), *shown, _fold("What the model read", access.key and f"{access.key}:read", *read)
        )
    return join_html(*_blocks(record.result, access, pictures, "tool-output"))


def arguments_html(record: CallRecord, form: Form, where: str = "") -> Html:
    """Return each argument with its value. Text such as code and SQL keeps its line breaks; other values are shown as JSON."""
    access = _way_to(record, form, in_record(where, "call.arguments"))
    if form.live and record.result is None:  # no button yet: its content would soon be out of date
        access = access._replace(live=False, most=max(access.most, MAX_WHILE_RUNNING))
    return join_html(*[_argument(name, value, access) for name, value in arguments_by_name(record.call.arguments).items()])


def is_pictured(record: CallRecord) -> bool:
    """True if the result has a picture that can be displayed."""
    return record.result is not None and any(
        isinstance(part, Image) and media_type(part.data) is not None for part in record.result.parts
    )


def pictures_html(record: CallRecord) -> list[Html]:
    """Return the pictures of a result, without captions."""
    if record.result is None or record.result.is_error:
        return []
    return [_picture(piece._replace(caption="")) for piece in _pieces(record.result, pictures=True) if isinstance(piece, Shown)]


def is_tabular(record: CallRecord) -> bool:
    """True if the result is shown as a table."""
    if record.display is not None or record.result is None or record.result.is_error:
        return record.display is not None
    return any(table_of_objects(_data(part.text)) is not None for part in record.result.parts if isinstance(part, Text))


def _argument(name: str, value: Any, access: Way) -> Html:
    label = tag("span", "tool-argument-name", name)
    text = as_text(value)
    if len(text) <= MAX_INLINE_CHARACTERS and "\n" not in text:
        return tag("div", "tool-argument", label, " ", tag("code", "tool-code", text))
    return tag("div", "tool-argument", label, long_html(text, access))


def as_json(value: Any) -> str:
    """Return a value as readable JSON, or its repr."""
    try:
        return pretty(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def as_text(value: Any) -> str:
    """Return a string unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else as_json(value)


def _blocks(result: ToolResult, access: Way, pictures: bool, kind: str) -> Iterator[Html]:
    for piece in _pieces(result, pictures):
        if isinstance(piece, Shown):
            yield _picture(piece)
        else:
            yield long_html(piece, access, kind) if result.is_error else _text(piece, access)


def _pieces(result: ToolResult, pictures: bool) -> Iterator[str | Shown]:
    """Yield texts and pictures in order. A text that merely describes a picture becomes its caption."""
    text = ""
    for part in result.parts:
        if isinstance(part, Text):
            text = f"{text}\n{part.text}" if text else part.text
        elif pictures and media_type(part.data) is not None:
            before, _, last = text.rpartition("\n")
            described = bool(_DESCRIBED.match(last))
            if kept_text := before if described else text:
                yield kept_text
            yield Shown(part, last, last if described else "")
            text = ""
    if text or not any(isinstance(part, Image) for part in result.parts):
        yield text


def _text(text: str, access: Way) -> Html:
    if text.strip() == "":
        return tag("div", "tool-left-out", "(empty text)")
    value = _data(text)
    if value is None:
        return long_html(text, access)
    table = table_of_objects(value)
    return table_html(table) if table is not None else long_html(_pretty_data(value, text), access)


def _data(text: str) -> Any:
    """Return the object or array in a JSON text, or None for any other text."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > MAX_READ:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pretty_data(value: Any, text: str) -> str:
    """Return the data with a line for each value, unless that makes it many times longer."""
    try:
        laid_out = pretty(value)
    except (ValueError, RecursionError):
        return text
    return laid_out if len(laid_out) <= 4 * len(text) + 1_000 else text


def _picture(shown: Shown) -> Html:
    kind = media_type(shown.image.data)
    source = f"data:{kind};base64,{b64encode(shown.image.data).decode()}"
    image = tag("img", "tool-picture", src=source, alt=cut(clean(shown.alt), MAX_IN_ALT))
    caption = tag("figcaption", "tool-caption", cut(clean(shown.caption), MAX_IN_ALT)) if shown.caption else NOTHING
    return tag("figure", "tool-figure", image, caption)


def printed_html(record: CallRecord, form: Form, where: str, *, apart: bool) -> Html:
    """Return the tool's output, if any. ``apart``: whether a line separates it from the content above."""
    if not record.printed:
        return NOTHING
    label = tag("div", "tool-label tool-apart" if apart else "tool-label", "printed")
    return join_html(label, long_html(record.printed.rstrip("\n"), _way_to(record, form, in_record(where, "printed"))))


def _way_to(record: CallRecord, form: Form, where: str, key: str = "") -> Way:
    return Way(record.call.id, form.live, where, key, MAX_OF_ALL if form.whole else MAX_AT_ONCE)


def traceback_html(traceback: str, key: str, way: Way, title: str = "Traceback of your code") -> Html:
    """Return the traceback of an error in the person's own code, folded. ``key``: prefix of its fold's key."""
    return _fold(title, key and f"{key}:traceback", *([long_html(traceback, way)] if traceback else []))


def in_record(where: str, field: str) -> str:
    """Return the Python expression for another field of a call, given the expression for the text of its result."""
    return f"{where.removesuffix('.text').replace('.results[', '.records[')}.{field}" if where else ""


def _fold(title: str, key: str, *body: Html) -> Html:
    if not body:
        return NOTHING
    return fold_tag("tool-fold", "tool-fold-title", title, *body, data_fold=key or None)
