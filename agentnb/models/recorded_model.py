"""A model that returns the replies of recorded runs: the same request gets the same reply, without a key or a network.

A reply is looked up by its request, ignoring call ids. If replies are returned in order, it is looked up by its number instead,
and its request is checked.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from difflib import unified_diff
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import AnyPart, Image, Text, Thinking, ToolCall
from agentnb.core.request import Request
from agentnb.errors import ReplayDiverged
from agentnb.models.capabilities import NO_LANGUAGE_MODEL, Capabilities
from agentnb.models.model import StreamItem

MAX_DIFF = 14
"""Maximum number of lines of a diff in an error."""
MAX_LINE = 160
_encode = msgspec.json.Encoder(order="sorted").encode


class Piece(NamedTuple):
    """A part of a request to be compared: its kind, and its full text."""

    what: str
    text: str


class Recording(NamedTuple):
    """A request from a recorded run and the model's answer, with the failed attempts before it."""

    run_id: str
    round: int
    """Index of the round."""
    request: Request
    items: tuple[StreamItem, ...]
    error: Exception | None = None
    """The model's exception after these items, if it did not reply."""


def pieces(request: Request) -> list[Piece]:
    """Return the parts that identify a request, in order. Call ids are numbered; provider-specific data is omitted."""
    ids: dict[str, str] = {}
    tools = [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in request.tools]
    compared = [Piece("the system prompt", request.system)]
    for number, message in enumerate(request.messages, 1):
        compared.append(Piece(f"message {number} ({message.role})", "\n".join(_part_text(part, ids) for part in message.parts)))
    compared += [Piece(f"the tool {tool['name']}", _encode(tool).decode()) for tool in tools]
    return [*compared, Piece("the settings", _encode(request.settings).decode())]


def _part_text(part: AnyPart, ids: dict[str, str]) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Thinking):
        return f"[thinking] {part.text}"
    if isinstance(part, ToolCall):
        number = ids.setdefault(part.id, f"call {len(ids) + 1}")
        return f"[{number}] {part.name} {_encode(part.arguments or {}).decode()}"
    if isinstance(part, Image):
        return f"[{part.media_type} {hashlib.sha256(part.data).hexdigest()[:16]}]"
    number = ids.setdefault(part.call_id, f"call {len(ids) + 1}")
    inner = "\n".join(_part_text(inner_part, ids) for inner_part in part.parts)
    return f"[result of {number}, {part.name}{', an error' if part.is_error else ''}] {inner}"


def digest(request: Request) -> str:
    """Return the hash of the request: equal requests have equal hashes, in every process."""
    return hashlib.sha256(_encode([[piece.what, piece.text] for piece in pieces(request)])).hexdigest()


class RecordedModel:
    """Returns the recorded replies of one run, of several runs, or of all runs in a file, folder or archive.

    A reply is found by its request; a request that was made several times gets its replies in order, and then the last one
    repeatedly. With ``in_order``, the replies of a single run are returned in recorded order, and each request is checked. A
    request that was not recorded raises `ReplayDiverged`, which names the first difference from the most similar recorded
    request. ``requests`` holds each `Request` as it was sent.

        Agent(RecordedModel("runs/20261122-190000-1.jsonl"), tools=[...])
    """

    def __init__(self, source: Any, *, in_order: bool = False, name: str = "") -> None:
        """``source``: a run, a list of runs, or a path. ``name``: name of the model in logs."""
        self.name = name or f"recorded:{getattr(source, 'id', None) or (source if isinstance(source, str) else 'runs')}"
        self.requests: list[Request] = []
        self.diverged: ReplayDiverged | None = None
        """The first divergence, if any."""
        self._source, self._in_order = source, in_order
        self._recordings: list[Recording] | None = None
        self._by_digest: dict[str, list[Recording]] = {}
        self._given: dict[str, int] = {}

    def capabilities(self) -> Capabilities:
        """Report no language model (it writes no summaries) and a known price."""
        return NO_LANGUAGE_MODEL

    @property
    def recordings(self) -> Sequence[Recording]:
        """All recorded requests and replies, read on first use."""
        if self._recordings is None:
            self._recordings = [
                *sys.modules["agentnb"].read_recordings(self._source)
            ]  # of a higher room, which only the package may load
            for recording in self._recordings:
                self._by_digest.setdefault(digest(recording.request), []).append(recording)
        return self._recordings

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the model's recorded answer to this request."""
        self.requests.append(request)
        try:
            recording = self._next(request) if self._in_order else self._like(request)
        except ReplayDiverged as error:
            self.diverged = self.diverged or error
            raise
        for item in recording.items:
            yield item
        if recording.error is not None:
            raise recording.error

    def _next(self, request: Request) -> Recording:
        number = len(self.requests) - 1
        if number >= len(self.recordings):
            problem = f"The run continues past its recording: it requests reply {number + 1} of {len(self.recordings)}"
            raise ReplayDiverged(problem, "Its policy, guidance or limits differ from the recording")
        recording = self.recordings[number]
        if digest(request) != digest(recording.request):
            raise ReplayDiverged(f"{_place(recording)}: {difference(recording.request, request)}", HINT)
        return recording

    def _like(self, request: Request) -> Recording:
        recordings, key = self.recordings, digest(request)
        matches = self._by_digest.get(key)
        if matches is None:
            raise _missing_reply(recordings, request, self.name)
        index = self._given[key] = self._given.get(key, -1) + 1
        return matches[min(index, len(matches) - 1)]


HINT = "Record it again with the real model, or undo the change"


def _missing_reply(recordings: Iterable[Recording], request: Request, name: str) -> ReplayDiverged:
    wanted = pieces(request)
    nearest = max(recordings, key=lambda one: _alike(pieces(one.request), wanted), default=None)
    if nearest is None:
        return ReplayDiverged(f"{name} has no recorded requests", "Use a run that has rounds")
    first_difference = difference(nearest.request, request)
    return ReplayDiverged(
        f"{name} has no recorded reply to this request. The closest request is {_place(nearest)}: {first_difference}", HINT
    )


def _place(one: Recording) -> str:
    return f"round {one.round + 1} of run {one.run_id}"


def _alike(recorded: Sequence[Piece], wanted: Sequence[Piece]) -> tuple[int, int]:
    """Count the equal pieces: before the first difference, and in total."""
    same = [first == second for first, second in zip(recorded, wanted, strict=False)]
    return len([*takewhile(bool, same)]), sum(same)


def difference(recorded: Request, now: Request) -> str:
    """Return the first piece of two requests that differs, with a diff; empty if they are the same."""
    before, after = pieces(recorded), pieces(now)
    for old, new in zip(before, after, strict=False):
        if old != new:
            label = old.what if old.what == new.what else f"{old.what} was recorded, but the request contains {new.what}"
            return f"{label} differs:\n{_diff(old.text, new.text)}" if old.what == new.what else label
    extra = (before if len(before) > len(after) else after)[min(len(before), len(after)) :]
    return f"{extra[0].what} is {'missing' if len(before) > len(after) else 'new'}" if extra else ""


def _diff(recorded: str, now: str) -> str:
    lines = [*unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", n=1, lineterm="")]
    shown = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines[:MAX_DIFF]]
    return "\n".join([*shown, f"… {len(lines) - MAX_DIFF} more lines"] if len(lines) > MAX_DIFF else shown)
