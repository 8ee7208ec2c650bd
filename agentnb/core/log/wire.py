"""Events as lines of JSON, and back.

One event per line; ``kind`` comes first, so that a reader can skip a line without parsing it. Events are redacted as they are
read, once for all readers: a file may hold keys that its writer did not know.
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
from agentnb.core.log.older_logs import brought_up
from agentnb.core.log.work_events import OtherEvent
from agentnb.core.redaction import FileRedactor
from agentnb.core.request import ToolSpec
from agentnb.errors import TraceError

T = TypeVar("T")
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(cast("type[AnyEvent]", AnyEvent))


class _Start(RunStarted, frozen=True, kw_only=True, tag="run_started"):
    """A `RunStarted` with its largest parts as JSON: the runs of an agent share them."""

    system: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    tools: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    guidance: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


_log_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(
    cast("type[AnyEvent]", Union[tuple([_Start if kind is RunStarted else kind for kind in KINDS])])  # noqa: UP007
)
_start_fields = attrgetter(*_Start.__struct_fields__)


MAX_SHARED, MAX_SHARED_BYTES = 32, 200_000
"""Values of each kind that are kept for the next logs, and bytes of JSON of one, at most."""


class _SharedValues(Generic[T]):
    """Values that many logs hold, by their JSON: each is decoded once. They are not changed, as events are not."""

    def __init__(self, kind: type[T], missing: T) -> None:
        """``missing``: the value where there is no JSON."""
        self._decode = msgspec.json.Decoder(kind).decode
        self._missing = missing
        self._known: dict[int, tuple[bytes, T]] = {}
        """The last value whose JSON has this length: to compare takes less time than to hash."""

    def decode(self, raw: msgspec.Raw) -> T:
        """Return the value of this JSON. Raises what decoding it raises."""
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
    """Return the event with its parts decoded. Raises what decoding them raises."""
    fields = dict(zip(_Start.__struct_fields__, _start_fields(start), strict=True))
    fields["system"], fields["tools"] = _systems.decode(fields["system"]), _tools.decode(fields["tools"])
    fields["guidance"] = {**_guidance.decode(fields["guidance"])}
    return RunStarted(**fields)


MARK = "_mark"
"""The field at the end of a line with the mark of its writer (`agentnb.store.own_logs`). It belongs to no event."""
DAMAGED = "The log was changed or is damaged; the lines before it are sound"
_anything = msgspec.json.Decoder()
_KNOWN = frozenset(kind.__struct_config__.tag for kind in KINDS)
_SPECIAL = frozenset({OtherEvent, RunRecovered, _Start})
"""Events that change how the lines around them are read, or that a log holds under another name or only at its beginning."""


class _Base(msgspec.Struct):
    """The fields that all events carry."""

    seq: int
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None
    run_id: Annotated[str, msgspec.Meta(min_length=1)]
    parent_id: str | None = None


_BASE = _Base.__struct_fields__


class _Kind(msgspec.Struct):
    """The part of each line that names its kind."""

    kind: str


class _Head(_Kind):
    """The part of a log's first line that is the same in every version."""

    schema: int


_head = msgspec.json.Decoder(_Head)


class TooDeep(TraceError):
    """A log is nested too deep to be read. Its line was not cut off, so no part of it may be removed."""

    def __init__(self, source: str = "The line") -> None:
        super().__init__(
            f"{source} is nested too deep to be read", "Move the file elsewhere; the other runs are not touched by it"
        )


def kind_of(event: AnyEvent) -> str:
    """Return the word for the kind of an event."""
    return event.name if type(event) is OtherEvent else str(event.__struct_config__.tag)


def encode(event: AnyEvent) -> bytes:
    """Return the event as one line, including the line end."""
    if type(event) is OtherEvent:
        first = {"kind": event.name, **_base(event)}
        return _encoder.encode({**first, **event.data, **first}) + b"\n"
    return _encoder.encode(event) + b"\n"


def _base(event: Event) -> dict[str, Any]:
    """Return the fields that all events carry, as they stand in a log."""
    base: dict[str, Any] = {"seq": event.seq, "at": event.at, "run_id": event.run_id}
    return base if event.parent_id is None else {**base, "parent_id": event.parent_id}


def decode(line: bytes) -> AnyEvent:
    """Return the event of one line; raise `TraceError` if it is not an event of agentnb."""
    return FileRedactor(line).redact(_decoded(line), line)


def _decoded(line: bytes) -> AnyEvent:
    try:
        event = _decoder.decode(line)
        if type(event) is OtherEvent:  # it is written under the name that it came with
            raise TraceError("Not an event of agentnb: 'other' is not a kind of event")
        return event
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        unknown = _of_unknown_kind(line)
        if unknown is not None:
            return unknown
        raise TraceError(f"Not an event of agentnb: {error}") from error
    except RecursionError as error:
        raise TooDeep from error


def _of_unknown_kind(line: bytes) -> OtherEvent | None:
    """Return an event whose kind this version does not know; None if it is not an event at all, or a known kind gone wrong."""
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
    """Return what `decode_lines` returns for the lines of a whole log; several times as fast for one that one version wrote."""
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
    return [brought_up(event, schema) for event in events] if schema < SCHEMA else events


def decode_new(lines: list[bytes]) -> list[AnyEvent]:
    """Return the events of lines just encoded from the trace of another product."""
    data = b"".join(lines)
    try:
        events = _decoder.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        events = []
    if len(events) != len(lines) or not _is_plain(events):
        events = [_decoded(line) for line in lines]
    return FileRedactor(lines[0]).redact(events, data)


def _is_plain(events: list[AnyEvent]) -> bool:
    """Return whether these events are a log of a known version, which no other may have continued."""
    return bool(events) and _schema_of(events[0]) <= SCHEMA and not _SPECIAL & {*map(type, events)}


def _schema_of(first: AnyEvent) -> int:
    """Return the schema of a log by its first event; one above all that are known if another event comes first."""
    return first.schema if type(first) is RunStarted else SCHEMA + 1


def decode_lines(
    lines: Iterable[bytes], source: str, keep: Callable[[AnyEvent, bytes], AnyEvent] = lambda event, line: event
) -> list[AnyEvent]:
    """Return all events of a log. A last line that was cut off (no line end, or no whole event) is left out; one that is
    whole, with a value that its field cannot have, is an error.

    ``keep`` returns what is kept of an event, which is in this line. Raise `TraceError` with ``source`` and the line number
    for anything else.
    """
    events: list[AnyEvent] = []
    remaining = iter(lines)
    schema = SCHEMA
    redactor: FileRedactor | None = None
    for number, line in enumerate(remaining, 1):
        if redactor is None:
            schema, redactor = _checked_head(line, source), FileRedactor(line)
        try:
            event = redactor.redact(_decoded(line), line)
        except TooDeep as error:
            raise TooDeep(f"{source}, line {number}") from error
        except TraceError as error:
            is_last = next(remaining, None) is None
            if is_last and (number > 1 or not line.endswith(b"\n")) and not _is_whole(line):
                break
            raise TraceError(f"{source}, line {number}: {error.what}", DAMAGED) from error
        if isinstance(event, RunRecovered):
            schema = _checked_schema(event.schema, source)  # another version may have continued the log
        events.append(keep(brought_up(event, schema) if schema < SCHEMA else event, line))
    if not events:
        raise TraceError(f"{source} holds no whole event", "The run was cut off before it began: nothing is lost")
    return events


def _is_whole(line: bytes) -> bool:
    """Return whether this is an object with the kind of an event: nothing of it was cut off."""
    try:
        return msgspec.json.decode(line, type=_Kind).kind in _KNOWN
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _checked_head(line: bytes, source: str) -> int:
    try:
        head = _head.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not line.endswith(b"\n") and line.startswith(b'{"kind":"run_started"'):
            return SCHEMA
        raise TraceError(
            f"{source} is not a run log of agentnb: its first line is not a run_started event",
            "Run logs are JSON Lines files, as they lie in .agentnb/runs",
        ) from error
    except RecursionError as error:
        raise TooDeep(f"{source}, line 1") from error
    if head.kind != "run_started":
        raise TraceError(f"{source} is not a whole run log: it begins with {head.kind}, not with run_started")
    return _checked_schema(head.schema, source)


def _checked_schema(schema: int, source: str) -> int:
    """Return the schema; raise `TraceError` if it is newer than this version."""
    if schema > SCHEMA:
        raise TraceError(
            f"{source} was written by a newer agentnb (schema {schema}, this version reads up to {SCHEMA})",
            Install("agentnb", upgrade=True, lead="Upgrade with"),
        )
    return schema
