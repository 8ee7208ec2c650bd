"""Redaction: keeps keys out of everything logged, sent and shown. `redact` replaces each with ``[key]``.

Applied to events and deltas on entering the log, to events read from a file (`FileRedactor`), to values that must equal their
log entries (the first event, a reply, the list on a todo board), and to errors. Everything sent to a model comes from the log.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from agentnb import settings
from agentnb.errors import AgentnbError

T = TypeVar("T")
MASK = "[key]"
BEGINNING = 20
"""Minimum length at which a truncated key is masked as well."""
IDS = frozenset({"run_id", "parent_id", "continued_from"})
"""Fields set by agentnb itself: they link events and runs, and never contain keys."""
_NO_TEXT = (
    inspect.IntType,
    inspect.FloatType,
    inspect.BoolType,
    inspect.NoneType,
    inspect.LiteralType,  # fixed words: the log would be unreadable if they were replaced
    inspect.DateTimeType,
    inspect.BytesType,
)
_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})|\\+([!-/:-@\[-`{-~])|&#?[0-9A-Za-z]{1,31};")
"""An escaped character that a page would display unescaped, as in JSON (or JSON within JSON), Markdown and HTML."""

_ESCAPE_BEGUN = re.compile(r"(?:\\{1,64}(?:u[0-9a-fA-F]{0,3})?|&#?[0-9A-Za-z]{0,31})\Z")
"""The beginning of an escape at the end of the text."""
_ESCAPED_LETTER = re.compile(rb"\\u00(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])")
_CHARACTER_REFERENCE = re.compile(b"&#(?:[xX]0*[3-7][0-9a-fA-F]|0*(?:4[89]|[5-9][0-9]|1[01][0-9]|12[0-2]));")
_LETTERS = re.compile("[A-Za-z0-9]*")
_NAMED_KEY = re.compile(rb"(?:[?&]|u0026)key=([A-Z][A-Z0-9_]{1,63})(?![A-Za-z0-9_])")
"""The variable of a key within a model name."""

_ITEMS = ("",)
"""Marker for classes that contain text but have no fields: subclasses of str, a dict, a list, a tuple, a set."""
_FIELDS: dict[type, tuple[str, ...]] = {}
"""Fields that may contain text, by class."""


def redact(value: T, secrets: tuple[str, ...] | None = None) -> T:
    """Replace each known key in all text within a value (a str, plain data, or a Struct) with ``[key]``.

    Returns the same object if it contains no key. ``secrets``: the known keys, if the caller already has them. Bytes and
    agentnb's fixed terms (a status, a role) are unchanged.
    """
    if secrets is None:
        secrets = settings.secrets()
    return _walk(value, _finder(secrets).mask) if secrets else value


def holds_key(data: bytes) -> bool:
    """True if a file's content contains a known key in a spelling that `redact` masks, or in wide characters."""
    secrets = settings.secrets()
    text = data.replace(b"\0", b"").decode("utf-8", "surrogateescape") if secrets else ""
    return redact(text, secrets) is not text


class FileRedactor:
    """Redacts data from a file, which may contain keys unknown to its writer.

    Most files contain none, and searching their bytes is much faster than searching every string.
    """

    __slots__ = ("_finder",)

    def __init__(self, first_line: bytes = b"") -> None:
        """``first_line``: names the models, and possibly the variables of their keys."""
        if b"=" in first_line and b"key=" in first_line:  # searching for a single byte is several times as fast
            for variable in _NAMED_KEY.findall(first_line):
                settings.expect_key(variable.decode())
        secrets = settings.secrets()
        self._finder = _finder(secrets) if secrets else None

    def finds_key(self, data: bytes) -> bool:
        """True if this JSON or text contains a known key, unescaped."""
        return self._finder is not None and self._finder.may_be_in(data, with_escapes=False)

    def redact(self, value: T, data: bytes, *, is_log: bool = False) -> T:
        """Redact a value that was read from this JSON.

        ``is_log``: agentnb wrote the JSON and masked keys written with escapes, so the search for these is skipped.
        """
        if self._finder is None or not self._finder.may_be_in(data, with_escapes=not is_log):
            return value
        return _walk(value, self._finder.mask)  # type: ignore[no-any-return]  # of the same type


def change_texts(value: T, change: Callable[[str], str]) -> T:
    """Apply ``change`` to all text within a value, except agentnb's fixed terms and the ids of runs."""
    return _walk(value, change)  # type: ignore[no-any-return]  # of the same type


def redact_error(error: AgentnbError) -> None:
    """Redact the error in place, and drop its causes, which tracebacks display, if one of them contains a key."""
    error.replace(*redact((error.what, error.advice)))
    try:
        texts = [str(cause) for cause in _causes(error)]
        is_clean = redact(texts) is texts
    except Exception:  # an exception of another library whose text cannot be read
        is_clean = False
    if not is_clean:
        error.__cause__ = error.__context__ = None


AgentnbError.redact = staticmethod(redact)


class StreamRedactor:
    """Redacts streamed text: if its end may be the start of a key, that part is held back until the next piece."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str, secrets: tuple[str, ...]) -> str:
        """Add the next piece and return the text that can be shown so far."""
        text = self._held + text
        end = _end_to_show(text, secrets) if secrets else len(text)
        self._held = text[end:]
        return redact(text[:end], secrets)

    def rest(self, secrets: tuple[str, ...]) -> str:
        """Return the text still held back; the stream has ended."""
        text, self._held = self._held, ""
        return redact(text, secrets) if text else ""


def _end_to_show(text: str, secrets: tuple[str, ...]) -> int:
    """Return the position from which the rest of the text may be the start of a key, even if written with escapes."""
    cut = _ESCAPE_BEGUN.search(text)
    end = len(text) if cut is None else cut.start()
    plain, positions = _unescape_text(text[:end])
    length = max(_overlap(plain, secret) for secret in secrets)
    end = positions[len(plain) - length]
    for start, stop in _finder(secrets).spans(plain):
        if positions[start] < end < positions[stop]:  # the apparent beginning of a key is the end of a complete one
            end = positions[stop]
    return end


class _Finder:
    """Finds the given secrets in text."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._beginnings = tuple(dict.fromkeys(secret[:BEGINNING] for secret in secrets))
        signs = {char for secret in secrets for char in secret if char in string.punctuation}
        self._hints = ("\\u", "&", *[f"\\{char}" for char in sorted(signs)])
        """Text with an escaped secret contains at least one of these."""
        self._in_json = tuple([msgspec.json.encode(beginning)[1:-1] for beginning in self._beginnings])
        words = [max(_LETTERS.findall(beginning), key=len) for beginning in self._beginnings]
        self._words = tuple(dict.fromkeys(word.encode() for word in words))
        """The longest word of each secret: unchanged in JSON, unless one of its letters is escaped."""

    def may_be_in(self, data: bytes, *, with_escapes: bool) -> bool:
        """Return False if no text in this JSON contains a secret, unescaped or ``with_escapes``; True if one might."""
        if not with_escapes:
            return any(beginning in data for beginning in self._in_json)
        if any(word in data for word in self._words):
            return True
        # Escaped letters are rare.
        return _CHARACTER_REFERENCE.search(data) is not None or (b"\\u00" in data and _ESCAPED_LETTER.search(data) is not None)

    def mask(self, text: str) -> str:
        """Mask each secret in the text. Returns the same object if there is no match."""
        for beginning in self._beginnings:
            if beginning in text:
                return self._mask_spans(text)
        if "\\" in text or "&" in text:
            for hint in self._hints:
                if hint in text:
                    return self._mask_spans(text)
        return text

    def _mask_spans(self, text: str) -> str:
        return mask_spans(text, self.spans, MASK)

    def spans(self, text: str) -> Iterable[tuple[int, int]]:
        """Yield the start and end of each secret in the text, even if truncated: the longest match at each position."""
        for beginning in self._beginnings:
            start = text.find(beginning)
            while start >= 0:
                yield start, start + max(_in_common(text, start, secret) for secret in self._secrets)
                start = text.find(beginning, start + 1)


def mask_spans(text: str, find: Callable[[str], Iterable[tuple[int, int]]], mask: str) -> str:
    """Mask the spans that ``find`` returns for the text and for its unescaped form.

    Returns the same object if there is no match.
    """
    spans = sorted([*find(text), *_escaped_spans(text, find)])
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        if start >= position:
            pieces += (text[position:start], mask)
        position = max(position, end)  # overlapping spans share one mask
    return "".join([*pieces, text[position:]]) if spans else text


def _escaped_spans(text: str, find: Callable[[str], Iterable[tuple[int, int]]]) -> Iterable[tuple[int, int]]:
    plain = _ESCAPE.sub(_unescape, text) if "\\" in text or "&" in text else text
    spans = () if plain == text else tuple(find(plain))
    if not spans:
        return ()
    _, positions = _unescape_text(text)
    return [(positions[start], positions[end]) for start, end in spans]


def _unescape_text(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without escapes and, for each of its characters and its end, the position in ``text``."""
    if "\\" not in text and "&" not in text:
        return text, range(len(text) + 1)
    positions: list[int] = []
    position = 0
    for escape in _ESCAPE.finditer(text):
        positions += range(position, escape.start())
        length = len(_unescape(escape))
        positions += [escape.start()] if length == 1 else range(escape.start(), escape.end())
        position = escape.end()
    positions += range(position, len(text) + 1)
    return _ESCAPE.sub(_unescape, text), positions


@lru_cache(maxsize=4)
def _finder(secrets: tuple[str, ...]) -> _Finder:
    return _Finder(secrets)


def _walk(value: Any, masked: Callable[[str], str]) -> Any:
    # One frame per level, in plain steps: this runs for every event, and arguments may be nested deeply.
    kind = type(value)
    if kind is str:
        return masked(value)
    fields = _FIELDS.get(kind)
    if fields is None:
        fields = _FIELDS[kind] = _fields_with_text(kind)
    if fields is not _ITEMS:
        changes = {}
        for field in fields:
            before = getattr(value, field)
            if (after := _walk(before, masked)) is not before:
                changes[field] = after
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, str):
        return masked(value)
    is_dict = isinstance(value, dict)
    items: list[Any] = []
    changed = False
    for before in [*value, *value.values()] if is_dict else value:
        after = _walk(before, masked)
        changed = changed or after is not before
        items.append(after)
    if not changed:
        return value
    if is_dict:
        return dict(zip(_distinct(items[: len(value)]), items[len(value) :], strict=True))
    return tuple(items) if isinstance(value, tuple) else type(value)(items)


def _distinct(names: list[Any]) -> list[Any]:
    """Number a dict's names that have become equal, so that no value is lost."""
    names_: dict[Any, None] = {}
    for name in names:
        distinct, number = name, 1
        while distinct in names_:
            number += 1
            distinct = f"{name} {number}"
        names_[distinct] = None
    return [*names_]


def _fields_with_text(kind: type) -> tuple[str, ...]:
    if issubclass(kind, str | dict | list | tuple | set | frozenset):
        return _ITEMS
    if not issubclass(kind, msgspec.Struct):
        return ()
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]  # the type info of a Struct has them
    return tuple([field.name for field in fields if field.name not in IDS and _may_hold_text(field.type)])


def _may_hold_text(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(map(_may_hold_text, kind.types))
    if isinstance(kind, inspect.StructType):
        return bool(_fields_with_text(kind.cls))
    return not isinstance(kind, _NO_TEXT)


def _unescape(escape: re.Match[str]) -> str:
    """Return the single character of an escape, or the escape itself if invalid."""
    if escape[1]:
        return chr(int(escape[1], 16))
    plain = escape[2] or html.unescape(escape[0])
    return plain if len(plain) == 1 else escape[0]


def _in_common(text: str, start: int, secret: str) -> int:
    """Return the number of characters from ``start`` that match the secret; 0 if too few for a truncated secret."""
    if text.startswith(secret, start):
        return len(secret)
    if not text.startswith(secret[:BEGINNING], start):
        return 0
    length = BEGINNING
    while text.startswith(secret[length], start + length):  # ends before the secret does, which is incomplete here
        length += 1
    return length


def _overlap(text: str, secret: str) -> int:
    """Return how many characters at the end of the text form the start of this secret, but not all of it."""
    start = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while start >= 0:
        if secret.startswith(text[start:]):
            return len(text) - start
        start = text.find(secret[0], start + 1)
    return 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    cause = error.__cause__ or error.__context__
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
