"""What a tool returned, shown as what it is: tables as tables, pictures as pictures, data as data, else its words.

Nothing of it is ever taken for markup, not even for Markdown: it is somebody else's text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentnb.core.messages import Image, Text, ToolResult
from agentnb.core.rounds import CallRecord
from agentnb.display.data_table import pretty, table_html, table_of_objects
from agentnb.display.labels import clean, cut, state
from agentnb.display.long_text import MAX_AT_ONCE, MAX_OF_ALL, Way, long_html
from agentnb.display.markup import NOTHING, Html, joined, tag, words
from agentnb.tools.pictures import media_type

LONGEST_ON_ITS_LINE = 80
"""Characters of an argument that stands beside its name."""
MAX_READ = 200_000
"""Characters of a text that is looked at as JSON."""
MAX_WHILE_RUNNING = 40_000
"""Characters of an argument of a call that runs."""
MAX_IN_ALT = 200

_DESCRIBED = re.compile(r"a (?:figure of|picture of|picture \()")
"""How words begin that only describe the picture behind them."""


class Shown(NamedTuple):
    """A picture with the words before it."""

    image: Image
    alt: str
    caption: str


def result_html(
    record: CallRecord,
    *,
    pictures: bool = True,
    whole: bool = False,
    live: bool = False,
    where: str = "",
    key: str = "",
) -> Html:
    """The result of a call; nothing while there is none.

    ``where`` is the Python expression of its text, for saying where all of a long one is; ``live`` if a button can ask for it;
    ``whole`` gives everything. ``key`` is what the names of its folds begin with.
    """
    if record.result is None:
        return NOTHING
    way = Way(record.call.id, live, where, key, MAX_OF_ALL if whole else MAX_AT_ONCE)
    if record.result.is_error:
        return joined(
            *_blocks(record.result, way, pictures, "tool-output tool-problem" if state(record) == "failed" else "tool-output"),
            _traceback(record, way),
        )
    if record.display is not None:
        pieces = list(_pieces(record.result, pictures))
        read = [long_html(piece, way) for piece in pieces if isinstance(piece, str)]
        shown = [_picture(piece) for piece in pieces if isinstance(piece, Shown)]
        return joined(table_html(record.display), *shown, _folded("What the model read", way.key and f"{way.key}:read", *read))
    return joined(*_blocks(record.result, way, pictures, "tool-output"))


def arguments_html(record: CallRecord, *, whole: bool = False, live: bool = False, where: str = "") -> Html:
    """Each argument with its value: texts with their own lines, as code and SQL have them, else JSON."""
    waits = live and record.result is None  # no button yet: what it brought would soon be old
    most = MAX_OF_ALL if whole else MAX_WHILE_RUNNING if waits else MAX_AT_ONCE
    way = Way(record.call.id, live and not waits, in_record(where, "call.arguments"), most=most)
    return joined(*[_argument(name, value, way) for name, value in given(record).items()])


def given(record: CallRecord) -> dict[str, Any]:
    """The arguments by their names, also where a careless model sent no object."""
    arguments = record.call.arguments
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def is_pictured(record: CallRecord) -> bool:
    """Whether its result has a picture that can be shown."""
    return record.result is not None and any(
        isinstance(part, Image) and media_type(part.data) is not None for part in record.result.parts
    )


def is_tabular(record: CallRecord) -> bool:
    """Whether its result is shown as a table."""
    if record.display is not None or record.result is None or record.result.is_error:
        return record.display is not None
    return any(table_of_objects(_data(part.text)) is not None for part in record.result.parts if isinstance(part, Text))


def _argument(name: str, value: Any, way: Way) -> Html:
    label = tag("span", "tool-argument-name", words(name))
    text = value if isinstance(value, str) else as_json(value)
    if len(text) <= LONGEST_ON_ITS_LINE and "\n" not in text:
        return tag("div", "tool-argument", label, " ", tag("code", "tool-code", words(text)))
    return tag("div", "tool-argument", label, long_html(text, way))


def as_json(value: Any) -> str:
    """A value as JSON for the eye, else as Python shows it."""
    try:
        return pretty(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _blocks(result: ToolResult, way: Way, pictures: bool, kind: str) -> Iterator[Html]:
    for piece in _pieces(result, pictures):
        if isinstance(piece, Shown):
            yield _picture(piece)
        else:
            yield long_html(piece, way, kind) if result.is_error else _text(piece, way)


def _pieces(result: ToolResult, pictures: bool) -> Iterator[str | Shown]:
    """Texts and pictures in their order. Words that only describe a picture go with it."""
    text = ""
    for part in result.parts:
        if isinstance(part, Text):
            text = f"{text}\n{part.text}" if text else part.text
        elif pictures and media_type(part.data) is not None:
            before, _, last = text.rpartition("\n")
            described = bool(_DESCRIBED.match(last))
            if told := before if described else text:
                yield told
            yield Shown(part, last, last if described else "")
            text = ""
    if text or not any(isinstance(part, Image) for part in result.parts):
        yield text


def _text(text: str, way: Way) -> Html:
    if text.strip() == "":
        return tag("div", "tool-left-out", "(an empty text)")
    value = _data(text)
    if value is None:
        return long_html(text, way)
    table = table_of_objects(value)
    return table_html(table) if table is not None else long_html(_laid_out(value, text), way)


def _data(text: str) -> Any:
    """The object or array that a text is in JSON; None for any other text."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > MAX_READ:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _laid_out(value: Any, text: str) -> str:
    """The data a line for each value, where that does not make much of little."""
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
    return tag("figure", "tool-figure", Html(image.removesuffix("</img>")), caption)


def _traceback(record: CallRecord, way: Way) -> Html:
    if not record.traceback:
        return NOTHING
    told = long_html(record.traceback, way._replace(where=in_record(way.where, "traceback")))
    return _folded("Traceback of your code", way.key and f"{way.key}:traceback", told)


def in_record(where: str, field: str) -> str:
    """The Python expression of another part of a call than the text of its result."""
    return f"{where.removesuffix('.text').replace('.results[', '.records[')}.{field}" if where else ""


def _folded(title: str, key: str, *body: Html) -> Html:
    if not body:
        return NOTHING
    return tag("details", "tool-fold", tag("summary", "tool-fold-title", title), *body, data_fold=key or None)
