"""Serialization of events as lines of JSON.

Each line holds one event and begins with ``kind``, so that a reader can skip it without parsing. Events are redacted when they
are read, once for all readers: a file may hold keys unknown to its writer.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Generic, TypeVar, Union, cast

import msgspec

from agentnb.advice import Install
from agentnb.core.log.event import Event
from agentnb.core.log.events import KINDS, SCHEMA, AnyEvent, RunRecovered, RunStarted
from agentnb.core.log.older_logs import upgrade_event
from agentnb.core.log.work_events import OtherEvent
from agentnb.core.redaction import FileRedactor
from agentnb.core.request import ToolSpec
from agentnb.errors import TraceError

T = TypeVar("T")
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(cast("type[AnyEvent]", AnyEvent))


class _Start(RunStarted, frozen=True, kw_only=True, tag="run_started"):
    """A `RunStarted` whose largest fields are raw JSON, since the runs of an agent share them."""

    system: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    tools: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    guidance: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


_log_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(
    cast("type[AnyEvent]", Union[tuple([_Start if kind is RunStarted else kind for kind in KINDS])])  # noqa: UP007
)
_start_fields = attrgetter(*_Start.__struct_fields__)


MAX_SHARED, MAX_SHARED_BYTES = 32, 200_000
"""Maximum number of cached values of each kind, and maximum size in bytes of the JSON of a cached value."""


class _SharedValues(Generic[T]):
    """Cache of values shared by many logs, keyed by their JSON, so that each is decoded only once. Values are immutable, like
    events.
    """

    def __init__(self, kind: type[T], missing: T) -> None:
        """``missing``: the value for empty JSON."""
        self._decode = msgspec.json.Decoder(kind).decode
        self._missing = missing
        self._known: dict[int, tuple[bytes, T]] = {}
        """The most recent value for each length of JSON: comparing is faster than hashing."""

    def decode(self, raw: msgspec.Raw) -> T:
        """Return the value of this JSON. Raises the errors of its decoder."""
        data = bytes(raw)
        cached = self._known.get(len(data))
        if cached is not None and cached[0] == data:
            return cached[1]
        if not data:
            return self._missing
        value = self._decode(data)
        if len(data) <= MAX_SHARED_BYTES:
            if len(self._known) >= MAX_SHARED:
                self._known.clear()
            self._known[len(data)] = (data, value)
        return value


_systems = _SharedValues[str](str, "")
_tools = _SharedValues[tuple[ToolSpec, ...]](tuple[ToolSpec, ...], ())
_guidance = _SharedValues[dict[str, str]](dict[str, str], {})


def _with_shared(start: _Start) -> RunStarted:
    """Return the event with its raw fields decoded. Raises the errors of the decoders."""
    fields = dict(zip(_Start.__struct_fields__, _start_fields(start), strict=True))
    fields["system"], fields["tools"] = _systems.decode(fields["system"]), _tools.decode(fields["tools"])
    fields["guidance"] = {**_guidance.decode(fields["guidance"])}
    return RunStarted(**fields)


MARK = "_mark"
"""Field at the end of a line that holds the writer's mark (`agentnb.store.own_logs`). Not part of the event."""
DAMAGED = "The log was edited or is damaged; the lines before this one are intact"
_anything = msgspec.json.Decoder()
_KNOWN = frozenset(kind.__struct_config__.tag for kind in KINDS)
_SPECIAL = frozenset({OtherEvent, RunRecovered, _Start})
"""Events that affect how other lines are read, are stored under another name, or occur only as the first line."""


class _Base(msgspec.Struct):
    """Fields shared by all events."""

    seq: int
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None
    run_id: Annotated[str, msgspec.Meta(min_length=1)]
    parent_id: str | None = None


_BASE = _Base.__struct_fields__


class _Kind(msgspec.Struct):
    """The kind of a line."""

    kind: str


class _Head(_Kind):
    """The part of a log's first line that is the same in every version."""

    schema: int


_head = msgspec.json.Decoder(_Head)


class TooDeep(TraceError):
    """A log is nested too deeply to be read. Its line was not cut off, so it must not be removed."""

    def __init__(self, source: str = "The line") -> None:
        super().__init__(f"{source} is nested too deeply to be read", "Move the file elsewhere; other runs are not affected")


def kind_of(event: AnyEvent) -> str:
    """Return the name of an event's kind."""
    return event.name if type(event) is OtherEvent else str(event.__struct_config__.tag)


def encode(event: AnyEvent) -> bytes:
    """Return the event as one line, including the line end."""
    if type(event) is OtherEvent:
        first = {"kind": event.name, **_base(event)}
        return _encoder.encode({**first, **event.data, **first}) + b"\n"
    return _encoder.encode(event) + b"\n"


def _base(event: Event) -> dict[str, Any]:
    """Return the fields shared by all events, as logged."""
    base: dict[str, Any] = {"seq": event.seq, "at": event.at, "run_id": event.run_id}
    return base if event.parent_id is None else {**base, "parent_id": event.parent_id}


def decode(line: bytes) -> AnyEvent:
    """Parse one line. Raises `TraceError` unless it is an agentnb event."""
    return FileRedactor(line).redact(_decode_line(line), line)


def _decode_line(line: bytes) -> AnyEvent:
    try:
        event = _decoder.decode(line)
        if type(event) is OtherEvent:  # such an event is logged under its original name
            raise TraceError("Not an agentnb event: 'other' is not an event kind")
        return event
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        unknown = _of_unknown_kind(line)
        if unknown is not None:
            return unknown
        raise TraceError(f"Not an agentnb event: {error}") from error
    except RecursionError as error:
        raise TooDeep from error


def _of_unknown_kind(line: bytes) -> OtherEvent | None:
    """Return an event of an unknown kind, or None for an invalid line or a malformed event of a known kind."""
    try:
        data = _anything.decode(line)
        base = msgspec.convert({name: data.pop(name) for name in _BASE if name in data}, _Base)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, AttributeError, RecursionError):
        return None
    name = data.pop("kind", None)
    data.pop(MARK, None)
    if not isinstance(name, str) or name in _KNOWN:
        return None
    return OtherEvent(seq=base.seq, at=base.at, run_id=base.run_id, parent_id=base.parent_id, name=name, data=data)


def decode_log(data: bytes, source: str) -> list[AnyEvent]:
    """Decode a complete log with the same result as `decode_lines`, but several times as fast if one version wrote all of
    it.
    """
    try:
        events = _log_decoder.decode_lines(data)
        if events and type(events[0]) is _Start:
            events[0] = _with_shared(events[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_lines(io.BytesIO(data), source)
    lines = len([*map(len, io.BytesIO(data))])  # twice as fast as counting line ends; blank lines hold no event
    if len(events) != lines or not _is_plain(events):
        return decode_lines(io.BytesIO(data), source)
    schema = _schema_of(events[0])
    events = FileRedactor(data[: data.find(b"\n")]).redact(events, data, is_log=True)
    return [upgrade_event(event, schema) for event in events] if schema < SCHEMA else events


def decode_new(lines: list[bytes]) -> list[AnyEvent]:
    """Decode lines just encoded from another product's trace."""
    data = b"".join(lines)
    try:
        events = _decoder.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        events = []
    if len(events) != len(lines) or not _is_plain(events):
        events = [_decode_line(line) for line in lines]
    return FileRedactor(lines[0]).redact(events, data)


def _is_plain(events: list[AnyEvent]) -> bool:
    """True if these events are the log of a known version and were not continued by another."""
    return bool(events) and _schema_of(events[0]) <= SCHEMA and not _SPECIAL & {*map(type, events)}


def _schema_of(first: AnyEvent) -> int:
    """Return the schema of a log from its first event, or a number above every known schema if that is not `RunStarted`."""
    return first.schema if type(first) is RunStarted else SCHEMA + 1


def decode_lines(
    lines: Iterable[bytes], source: str, keep: Callable[[AnyEvent, bytes], AnyEvent] = lambda event, line: event
) -> list[AnyEvent]:
    """Return all events of a log. Drops a truncated last line (no line end, or an incomplete event); a complete line with an
    invalid value is an error.

    ``keep`` maps each event and its line to the value to keep. Raises `TraceError` with ``source`` and the line number for any
    other invalid line.
    """
    events: list[AnyEvent] = []
    remaining = iter(lines)
    schema = SCHEMA
    redactor: FileRedactor | None = None
    for number, line in enumerate(remaining, 1):
        if redactor is None:
            schema, redactor = _check_head(line, source), FileRedactor(line)
        try:
            event = redactor.redact(_decode_line(line), line)
        except TooDeep as error:
            raise TooDeep(f"{source}, line {number}") from error
        except TraceError as error:
            is_last = next(remaining, None) is None
            if is_last and (number > 1 or not line.endswith(b"\n")) and not _is_whole(line):
                break
            raise TraceError(f"{source}, line {number}: {error.what}", DAMAGED) from error
        if isinstance(event, RunRecovered):
            schema = _check_schema(event.schema, source)  # another version may have continued this log
        events.append(keep(upgrade_event(event, schema) if schema < SCHEMA else event, line))
    if not events:
        raise TraceError(f"{source} contains no complete event", "The run was interrupted before it began; nothing is lost")
    return events


def _is_whole(line: bytes) -> bool:
    """True if the line is a complete JSON object with an event's kind."""
    try:
        return msgspec.json.decode(line, type=_Kind).kind in _KNOWN
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _check_head(line: bytes, source: str) -> int:
    try:
        head = _head.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not line.endswith(b"\n") and line.startswith(b'{"kind":"run_started"'):
            return SCHEMA
        raise TraceError(
            f"{source} is not an agentnb run log: its first line is not a run_started event",
            "Run logs are JSON Lines files, like those in .agentnb/runs",
        ) from error
    except RecursionError as error:
        raise TooDeep(f"{source}, line 1") from error
    if head.kind != "run_started":
        raise TraceError(f"{source} is not a complete run log: it begins with {head.kind}, not with run_started")
    return _check_schema(head.schema, source)


def _check_schema(schema: int, source: str) -> int:
    """Return the schema. Raises `TraceError` if it is newer than this version."""
    if schema > SCHEMA:
        raise TraceError(
            f"{source} was written by a newer agentnb (schema {schema}, this version reads up to {SCHEMA})",
            Install("agentnb", upgrade=True, lead="Upgrade it"),
        )
    return schema
