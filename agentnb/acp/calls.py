"""The tool calls of an agent: its messages about each, merged by id, up to an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agentnb.acp.terminals import Terminal
from agentnb.core.messages import Image, Text, ToolCall
from agentnb.tools.builtin.files.nature import nature_of_reading
from agentnb.tools.builtin.group import NatureOf
from agentnb.tools.subject import Flag, SubjectKind
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

ENDED = ("completed", "failed")


class Kind(NamedTuple):
    """A kind of calls, with the name and the effects by which rules and modes judge it."""

    name: str
    effects: frozenset[Effect]
    subject: SubjectKind | None = None
    """Also the name of the argument that is the subject, in the log."""
    arguments: tuple[str, ...] = ()
    """Names of that argument in the messages of different agents."""
    flag: Flag | None = None
    nature: NatureOf | None = None


_PATHS = ("path", "filePath", "file_path", "absolute_path")
UNKNOWN_KIND = Kind("other", frozenset({"write", "execute", "network"}))
KINDS: Mapping[str, Kind] = {
    "read": Kind("read_file", frozenset({"read"}), "path", _PATHS, "file_read", nature_of_reading),
    "search": Kind("search", frozenset({"read"})),
    "edit": Kind("write_file", frozenset({"write"}), "path", _PATHS, "file_write"),
    "delete": Kind("delete", frozenset({"write"})),
    "move": Kind("move", frozenset({"write"})),
    "execute": Kind("bash", frozenset({"execute"}), "command", ("command", "cmd"), "bash"),
    "fetch": Kind("web_fetch", frozenset({"network"}), "url", ("url",), "network"),
    "think": Kind("think", frozenset({"read"})),
}
"""By the kinds of the protocol. A kind that is not here may do anything, and is asked about."""
KINDS_BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in (*KINDS.values(), UNKNOWN_KIND)}
_FIELDS: tuple[tuple[str, str, type], ...] = (
    ("title", "title", str),
    ("kind", "kind", str),
    ("status", "status", str),
    ("input", "rawInput", object),
    ("output", "rawOutput", object),
    ("content", "content", list),
    ("locations", "locations", list),
)
"""The fields of a message about a call: attribute, name in the message, type."""


within: ContextVar[ForeignCall | None] = ContextVar("within", default=None)
"""The call that agentnb makes for the agent within one that runs."""


class ForeignCall:
    """A call of the agent, from its announcement to its end."""

    def __init__(self, call_id: str, function: str = "") -> None:
        self.id = call_id
        self.function = function
        """The function of the notebook that it calls, through the door."""
        self.is_at_door = False
        """Whether the agent announces a call that also comes through the door, where it is judged."""
        self.is_own = bool(function)
        """Whether agentnb makes it for the agent, once it was judged."""
        self.title = ""
        self.kind = ""
        self.status = "pending"
        self.input: Any = None
        self.output: Any = None
        self.content: Sequence[Any] = ()
        self._pieces: list[str] = []
        """The output of a terminal of its own, as it comes."""
        self.locations: Sequence[Any] = []
        self.options: Sequence[Mapping[str, Any]] | None = None
        """The answers to the agent's question whether it may run; None before it asks. Whoever asks by a request for work
        has none."""
        self.asks_anew = False
        """Whether the agent has asked about something else than was judged, or after its end: nothing allows that."""
        self._asked: dict[str, Any] | None = None
        """Its arguments when the agent asked last."""
        self.made: ToolCall | None = None
        """The call in its reply; None before the reply."""
        self._reported: Any = None
        """Its input in the reports about it, which counts: a question may show it in another form, such as a diff."""
        self._judged: Any = None
        """That input when the reply was made."""
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """The decision about it: True lets the agent run it."""
        self.context: asyncio.Future[ToolContext] = asyncio.get_running_loop().create_future()
        """The context in which it runs, once it does."""
        self.end = asyncio.Event()
        self.inner: set[asyncio.Task[None]] = set()
        """Calls that are made within it."""
        self.given: ToolOutcome | None = None
        """The outcome of a function of the notebook, or why agentnb refuses the call."""
        self.terminal: Terminal | None = None
        """The terminal in which agentnb runs its command."""

    def merge(self, update: Mapping[str, Any], *, is_question: bool = False) -> None:
        """Take a message about it, whose fields replace earlier ones. ``is_question``: it asks whether it may run."""
        if is_question and not self.input:
            self._read_arguments()
        for name, field, kind in _FIELDS:
            value = update.get(field)
            if value is not None and isinstance(value, kind) and not (is_question and name == "input" and self._reported):
                setattr(self, name, value)
        if piece := _piece_of_output(update):
            self._pieces.append(piece)
        if not is_question:
            self._reported = update.get("rawInput") or self._reported
        if self.status in ENDED:
            self.end.set()

    def ask(self, question: Mapping[str, Any], options: Any, folder: Path) -> None:
        """Take the agent's question whether it may run, which is merged already. ``folder``: from which its paths are named."""
        self.options = [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []
        raw_input, places = question.get("rawInput", self.input), question.get("locations") or self.locations
        asked, before = _arguments(self.form, raw_input, places, self.title), self._asked
        name, judged = (self.form.name, self.arguments) if self.made is None else (self.made.name, self.made.arguments)
        subjects = [arguments.get(self.form.subject or "") for arguments in (judged, asked)]
        is_other = name != self.form.name or not (
            None in subjects or _are_same(subjects[0], subjects[1], self.form.subject, folder)
        )
        self.asks_anew |= self.end.is_set() or is_other or before not in (None, asked)
        self._asked = asked

    @property
    def is_ready(self) -> bool:
        """Whether the agent asks about it, or runs it with arguments (kimi says so while these come): it can be judged."""
        is_running = self.status == "in_progress" and (self.is_own or bool(self.input))
        return self.options is not None or is_running or self.status in ENDED

    def _read_arguments(self) -> None:
        """Take its text for its arguments: before a call may run, kimi sends them as JSON there."""
        text = "".join(part.text for block in self.content for part in _parts(block) if isinstance(part, Text))
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            self.input = msgspec.json.decode(text, type=dict[str, Any])

    def covers(self, kind: str, subject: str, folder: Path) -> bool:
        """Return whether it is open, and work of this kind is part of it: on a file of the folder, or by a command.

        A change of a file that was judged covers that the file is read.
        """
        is_of_kind = self.kind == kind or (kind == "read" and self.kind == "edit" and self.made is not None)
        if not is_of_kind or self.end.is_set() or self.is_own or self.terminal is not None:
            return False
        arguments = self.arguments if self.made is None else self.made.arguments  # what was judged counts
        named = arguments.get(self.form.subject or "")
        return _are_same(named, subject, self.form.subject, folder)

    def reject(self) -> None:
        """Tell the agent that it is not allowed; no-op if that was decided."""
        if not self.answer.done():
            self.answer.set_result(False)
            if self.function:
                self.end.set()

    async def wait(self) -> None:
        """Wait for its end, and for that of the calls within it: they would be given up with it."""
        await self.end.wait()
        while self.inner:
            await asyncio.wait(self.inner)

    def close(self, status: str, text: str) -> None:
        """End it, if it is agentnb that makes it."""
        if self.is_own:
            self.merge({"status": status, "content": [{"type": "content", "content": {"type": "text", "text": text}}]})

    @property
    def form(self) -> Kind:
        """Its kind for rules and modes."""
        return KINDS.get(self.kind, UNKNOWN_KIND)

    @property
    def arguments(self) -> dict[str, Any]:
        """The reported arguments, with the subject of rules under one name; without any, its title and its files."""
        if self.function:
            return self.input  # type: ignore[no-any-return]
        return _arguments(self.form, self.input, self.locations, self.title)

    def take(self) -> ToolCall:
        """Return the call for a reply. Later messages do not change it."""
        self.made, self._judged = ToolCall(self.function or self.form.name, self.arguments, self.id), self._reported
        return self.made

    @property
    def is_changed(self) -> bool:
        """Whether the agent has reported other input since the call was judged; not if it had reported none."""
        return self._judged is not None and self._reported != self._judged

    @property
    def outcome(self) -> ToolOutcome:
        """Its outcome: that of its terminal, else as the agent reported it."""
        if self.terminal is not None:
            return self.terminal.outcome
        parts = tuple(part for block in self.content for part in _parts(block))
        parts = parts or _parts_of_output("".join(self._pieces) or self.output)
        if self.status == "completed":
            return ToolOutcome(True, parts)
        if self.status == "failed":
            return ToolOutcome(False, parts or (Text("The agent says that the call failed."),), error_code="tool_error")
        return failure("no_result", "The agent ended its turn without a result of this call.")


def _are_same(first: Any, second: Any, kind: SubjectKind | None, folder: Path) -> bool:
    """Return whether two subjects are the same, paths from this folder."""
    if kind == "path" and isinstance(first, str) and isinstance(second, str):
        return folder / first == folder / second
    return bool(first == second)


def _arguments(form: Kind, given: Any, locations: Any, title: str) -> dict[str, Any]:
    """Return arguments with the subject of rules under one name; without any, the title and the files."""
    reported = dict(given) if isinstance(given, dict) else {} if given is None else {"input": given}
    of_places = (
        [location.get("path") for location in locations if isinstance(location, dict)] if isinstance(locations, list) else []
    )
    places = [path for path in of_places if isinstance(path, str)]
    if form.subject and form.subject not in reported:
        value = next((reported[name] for name in form.arguments if isinstance(reported.get(name), str)), None)
        if value is None and form.subject == "path" and places:
            value = places[0]
        if value is not None:
            reported[form.subject] = value
    return reported or {"title": title, **({"paths": places} if places else {})}


def _parts(block: Any) -> tuple[Text | Image, ...]:
    if not isinstance(block, dict):
        return ()
    if block.get("type") == "diff":
        return (Text(f"{block.get('path', '')}\n{block.get('newText', '')}"),)
    content = block.get("content") if block.get("type") == "content" else None
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("text"), str):
        return (Text(content["text"]),)
    return ()


def own_fields(update: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an agent's own, beside those of the protocol."""
    fields = update.get("_meta")
    return fields if isinstance(fields, dict) else {}


def _piece_of_output(update: Mapping[str, Any]) -> str:
    """Return the new output of a terminal, which codex sends beside the content; empty if there is none."""
    piece = own_fields(update).get("terminal_output_delta")
    return str(piece.get("data", "")) if isinstance(piece, dict) else ""


def _parts_of_output(output: Any) -> tuple[Text, ...]:
    if isinstance(output, dict):
        output = output.get("output", output)
    return () if output is None else (Text(output if isinstance(output, str) else str(output)),)
