"""Spans as exporters write them: OTLP as JSON, lists of spans from the SDKs and Phoenix, and JSON Lines of either.

Attributes may be flat (``llm.input_messages.0.message.role``), nested, or a list of keys and values; `nested` converts them to
a tree in which numbered attributes are lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from agentnb.interchange.formats.message_content import as_list, str_at, time_of, value_at
from agentnb.interchange.trace_file import TraceFile

MAX_TRACES = 1_000
"""Maximum number of open traces in JSON Lines; beyond it, the oldest trace that has a root is closed."""
SNIFFED_RECORDS = 50
"""Number of initial JSON Lines records used to recognize their convention."""
_ROOTS = ("gen_ai", "llm", "openinference", "input", "output", "tool", "agent", "traceloop", "message", "session", "tag")
"""First components of the names of attributes read as trees."""
_OPAQUE = frozenset({"arguments", "parameters", "json_schema", "response", "result", "value", "variables", "content"})
"""Names of attributes whose values are data, not attributes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ERRORS = ("2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR", "Error")


@dataclass(slots=True)
class SpanNote:
    """An event in a span, or a log record that refers to the span."""

    name: str
    attributes: dict[str, Any]
    at: datetime | None = None


@dataclass(slots=True)
class Span:
    """A span from any exporter."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int | None
    """Nanoseconds since 1970."""
    end: int | None
    attributes: dict[str, Any]
    events: list[SpanNote] = field(default_factory=list)
    failed: bool = False
    message: str = ""
    """The message of the status."""
    kind: str = ""
    """The kind of the span, recorded next to its attributes."""
    is_local: bool = False
    """True if its times lack a time zone."""
    _tree: dict[str, Any] | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute with this name, unconverted."""
        return self.attributes.get(name, default)

    def at(self, path: str) -> Any:
        """Return the value at a dotted path, whatever the form of the attributes, or None."""
        value: Any = self.attributes.get(path)
        if value is not None and not _has_paths(value):
            return value
        if self._tree is None:
            self._tree = attribute_tree(self.attributes)
        return value_at(self._tree, *path.split("."))

    @property
    def started(self) -> datetime | None:
        """The start time, without a time zone if the file has none."""
        return self._as_written(self.start)

    @property
    def ended(self) -> datetime | None:
        """The end time, without a time zone if the file has none."""
        return self._as_written(self.end)

    def _as_written(self, nanoseconds: int | None) -> datetime | None:
        at = datetime_of(nanoseconds)
        return at.replace(tzinfo=None) if at is not None and self.is_local else at

    @property
    def seconds(self) -> float | None:
        """The duration."""
        return None if self.start is None or self.end is None or self.end < self.start else (self.end - self.start) / 1e9


def datetime_of(nanoseconds: int | None) -> datetime | None:
    """Convert nanoseconds since 1970 to a time."""
    try:
        return None if nanoseconds is None else _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None


# Attributes


def _has_paths(value: Any) -> bool:
    """True if this is a list of objects whose keys are paths such as ``message.role``."""
    return isinstance(value, list) and any("." in str(key) for item in value if isinstance(item, dict) for key in item)


def attribute_tree(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of models, tools and agents as a single tree."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.partition(".")[0] in _ROOTS:
            _put(tree, name, value)
    return {name: _with_lists(value) for name, value in tree.items()}


def _put(tree: dict[str, Any], name: str, value: Any) -> None:
    *above, last = name.split(".")
    for step in above:
        inner = tree.setdefault(step, {})
        if not isinstance(inner, dict):
            inner = tree[step] = {"": inner}  # an attribute has both a value and parts
        tree = inner
    if isinstance(value, dict) and last not in _OPAQUE:
        inner = tree.setdefault(last, {})
        if isinstance(inner, dict):
            for key, item in value.items():
                _put(inner, str(key), item)
    elif isinstance(value, list) and last not in _OPAQUE and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            _put(tree, f"{last}.{number}", item)
    elif isinstance(tree.get(last), dict):
        tree[last][""] = value
    else:
        tree[last] = value


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    converted = {name: inner if name in _OPAQUE else _with_lists(inner) for name, inner in value.items()}
    if converted and all(name.isdecimal() for name in converted):
        return [converted[name] for name in sorted(converted, key=int)]
    return converted


def json_value(value: Any) -> Any:
    """Decode the JSON text of an object or list; other values are returned unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return value
    return value


def as_json(value: Any) -> str:
    """Return plain data as JSON text."""
    return msgspec.json.encode(value).decode()


def list_at(span: Span, path: str) -> list[dict[str, Any]]:
    """Return the objects in a list attribute, which may be JSON text."""
    decoded = json_value(span.at(path))
    items = as_list(decoded)
    return [item for item in items if isinstance(item, dict)]


# Files


def traces_of(file: TraceFile) -> Iterator[tuple[list[Span], bool]]:
    """Yield the spans of each trace, and whether the file holds several traces."""
    records: Iterable[tuple[str, Any]] = [("", file.document)] if file.kind == "json" else _positioned_records(file)
    open_traces: dict[str, list[Span]] = {}
    notes: dict[tuple[str, str], list[SpanNote]] = {}
    flushed = False
    for position, record in records:
        with file.guard(position):
            for span in spans_in(record):
                open_traces.setdefault(span.trace_id, []).append(span)
            for key, note in notes_in(record):
                notes.setdefault(key, []).append(note)
        while len(open_traces) > MAX_TRACES:
            flushed = True
            done = next((key for key, spans in open_traces.items() if any(not member.parent_id for member in spans)), None)
            yield _with_notes(open_traces.pop(next(iter(open_traces)) if done is None else done), notes), True
    several = flushed or len(open_traces) > 1
    for spans in open_traces.values():
        yield _with_notes(spans, notes), several


def _positioned_records(file: TraceFile) -> Iterator[tuple[str, Any]]:
    return ((f"line {number}", record) for number, record in file.records())


def _with_notes(spans: list[Span], notes: dict[tuple[str, str], list[SpanNote]]) -> list[Span]:
    for span in spans:
        span.events += notes.pop((span.trace_id, span.span_id), [])
    return spans


def first_spans(file: TraceFile) -> list[Span]:
    """Return the first spans in a file."""
    if file.kind == "json":
        return spans_in(file.first)
    spans: list[Span] = []
    if file.kind == "lines" and spans_in(file.first) + notes_in(file.first):
        spans = spans_in(file.first)
        for line in file.start.split(b"\n")[1:SNIFFED_RECORDS]:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                spans += spans_in(msgspec.json.decode(line))
    return spans


def spans_in(record: Any) -> list[Span]:
    """Return the spans in a record: a span, a list of spans, or an OTLP document."""
    if isinstance(record, list):
        return [span for item in record if isinstance(item, dict) for span in spans_in(item)]
    if not isinstance(record, dict):
        return []
    for name in ("resourceSpans", "resource_spans", "batches"):
        if isinstance(record.get(name), list):
            return [*_otlp(record[name])]
    if "trace" in record and isinstance(record["trace"], dict):
        return spans_in(record["trace"])
    for name in ("data", "spans"):
        if isinstance(record.get(name), list):
            return spans_in(record[name])
    return [_span(record)] if _is_span(record) else []


def notes_in(record: Any) -> list[tuple[tuple[str, str], SpanNote]]:
    """Return the log records in an OTLP document, each with the ids of its trace and span."""
    notes = []
    for resource in value_at(record, "resourceLogs") or ():
        for scope in resource.get("scopeLogs") or ():
            for log_record in scope.get("logRecords") or ():
                attributes = attributes_of(log_record.get("attributes"))
                body = _value(log_record.get("body") or {})
                name = str(log_record.get("eventName") or attributes.get("event.name") or "")
                fields = {**(body if isinstance(body, dict) else {"body": body}), **attributes}
                note = SpanNote(name, fields, datetime_of(_time(log_record, "timeUnixNano", "observedTimeUnixNano")))
                notes.append(((str_at(log_record, "traceId"), str_at(log_record, "spanId")), note))
    return notes


def _otlp(resources: list[Any]) -> Iterator[Span]:
    for resource in resources:
        scopes: Any = next(
            (resource[name] for name in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans") if name in resource), []
        )
        for scope in scopes:
            for span in scope.get("spans") or ():
                if isinstance(span, dict):
                    yield _span(span)


def _is_span(one: dict[str, Any]) -> bool:
    context = one.get("context", one)
    names = {"trace_id", "traceId"}, {"span_id", "spanId"}
    return isinstance(context, dict) and all(context.keys() & keys for keys in names) and "attributes" in one


def _span(one: dict[str, Any]) -> Span:
    context = one["context"] if isinstance(one.get("context"), dict) else one
    status = one.get("status")
    status_fields = (
        status if isinstance(status, dict) else {"code": status or one.get("status_code"), "message": one.get("status_message")}
    )
    code = status_fields.get("code", status_fields.get("status_code"))
    return Span(
        trace_id=_id(_first(context, "trace_id", "traceId")),
        span_id=_id(_first(context, "span_id", "spanId")),
        parent_id=_id(_first(one, "parentSpanId", "parent_span_id", "parent_id", "parentId")),
        name=str_at(one, "name"),
        start=_time(one, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime"),
        end=_time(one, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime"),
        attributes=attributes_of(one.get("attributes")),
        events=[_note(event) for event in one.get("events") or () if isinstance(event, dict)],
        failed=str(code) in _ERRORS,
        message=str_at(status_fields, "message", "description"),
        kind=str_at(one, "span_kind"),
        is_local=any(_is_local(one.get(name)) for name in ("start_time", "startTime", "end_time", "endTime")),
    )


def _is_local(value: Any) -> bool:
    """True if this is a time in text form without a time zone."""
    at = time_of(value) if isinstance(value, str) and not value.isdecimal() else None
    return at is not None and at.tzinfo is None


def _note(event: dict[str, Any]) -> SpanNote:
    at = datetime_of(_time(event, "timeUnixNano", "time_unix_nano", "timestamp", "time"))
    return SpanNote(str_at(event, "name"), attributes_of(event.get("attributes")), at)


def _first(one: dict[str, Any], *names: str) -> Any:
    return next((one[name] for name in names if one.get(name) is not None), None)


def _id(value: Any) -> str:
    return str(value or "").removeprefix("0x")


def _time(one: dict[str, Any], *names: str) -> int | None:
    """Return the time under the first of these names that is present, in nanoseconds since 1970. The first two names (OTLP)
    have that unit.
    """
    for name in names[:2]:
        if str(one.get(name)).isdecimal():
            return int(one[name])
    return _nanoseconds(_first(one, *names))


def _nanoseconds(value: Any) -> int | None:
    """Convert a time to nanoseconds since 1970; it may be a number, a list of seconds and nanoseconds, or text."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return int(value[0] * 1_000_000_000 + value[1])
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 10**17:
        return value
    time = time_of(value)
    if time is None:
        return None
    passed = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000_000 + passed.microseconds * 1_000


def attributes_of(given: Any) -> dict[str, Any]:
    """Return attributes as a dict, given a dict or OTLP's list of keys and values."""
    if isinstance(given, dict):
        return given
    pairs = given if isinstance(given, list) else []
    return {str(pair["key"]): _value(pair.get("value")) for pair in pairs if isinstance(pair, dict) and "key" in pair}


def _value(given: Any) -> Any:
    """Return the value that OTLP encodes, where integers are strings."""
    if not isinstance(given, dict) or len(given) != 1:
        return given if not isinstance(given, dict) or given else None
    ((kind, value),) = given.items()
    if kind in ("intValue", "int_value"):
        return int(value)
    if kind in ("arrayValue", "array_value"):
        return [_value(item) for item in (value or {}).get("values") or ()]
    if kind in ("kvlistValue", "kvlist_value"):
        return attributes_of((value or {}).get("values"))
    return value
