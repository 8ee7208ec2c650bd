"""Files with requests and responses of a single API: a document, a list, or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from agentnb.detect.run import Run
from agentnb.interchange.formats.conversations import runs_of
from agentnb.interchange.formats.exchanges import REQUEST_KEYS, RESPONSE_KEYS, Api, Exchange, exchange_of, find
from agentnb.interchange.trace_file import TraceFile


def sniff_records(file: TraceFile, api: Api) -> str:
    """Return an empty string if a file contains exchanges or conversations of the API, otherwise what is missing."""
    return "" if any(_holds(api, record) for record in _looked_at(file)) else api.lacks


def _looked_at(file: TraceFile) -> list[Any]:
    """Return the parts used to identify a file: the document or first record and, if that is a list, its first item."""
    first = file.first
    if file.kind == "json" and isinstance(first, list):
        return [first, *first[:1]]
    return [first, _first_lines(file)] if file.kind == "lines" else [first]


def _first_lines(file: TraceFile) -> list[Any]:
    """Return the first records of JSON Lines (possibly single messages) that are complete within the file's start."""
    lines = (line for line in file.start.split(b"\n")[:-1] if line.strip())
    records: list[Any] = []
    with suppress(ValueError, RecursionError):
        records.extend(map(json.loads, lines))
    return records


def _holds(api: Api, record: Any) -> bool:
    if api.is_conversation(record):
        return True
    if not isinstance(record, dict):
        return False
    request = find(record, api.is_request, REQUEST_KEYS)
    return request is not None or find(record, api.is_response, RESPONSE_KEYS) is not None


def read_records(file: TraceFile, api: Api) -> Iterator[Run]:
    """Yield the runs in a file: a conversation, a list of them, or JSON Lines; or exchanges, if there are responses."""
    if file.kind == "lines":
        if api.is_conversation(_first_lines(file)):  # one message per line
            messages = [record for _, record in file.records()]
            yield from runs_of(file, api.name, _exchanges(file, api, [("", messages)]))
        else:
            yield from runs_of(file, api.name, _exchanges(file, api, file.positioned_records()), several=True)
        return
    document = file.document
    if isinstance(document, list) and not api.is_conversation(document) and _holds(api, document[0]):
        items = ((str(index), record) for index, record in enumerate(document))
        yield from runs_of(file, api.name, _exchanges(file, api, items))
    else:
        yield from runs_of(file, api.name, _exchanges(file, api, [("", document)]))


def _exchanges(file: TraceFile, api: Api, items: Iterable[tuple[str, Any]]) -> Iterator[Exchange]:
    for position, record in items:
        with file.guard(position):
            exchange = exchange_of(api, record, position)
            if exchange is None:
                file.problem(f"It is not an exchange with {api.name}", position)
            else:
                yield exchange
