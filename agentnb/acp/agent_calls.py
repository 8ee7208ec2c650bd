"""An agent's tool calls. Messages about the same call are merged by id into a single outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agentnb.acp.terminals import PLACES, Terminal, placed_command
from agentnb.core.messages import JsonObject, ResultParts, Text, ToolCall, visible
from agentnb.core.redaction import redact
from agentnb.tools.builtin.files.nature import read_nature
from agentnb.tools.builtin.group import NatureOf
from agentnb.tools.subject import Flag, SubjectKind
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

ENDED = ("completed", "failed")
ALLOW_ONCE, ALLOW_ALWAYS, REJECT_ONCE = "allow_once", "allow_always", "reject_once"
"""Kinds of options of a permission request."""
MAX_WORDS = 80
"""Maximum characters of the agent's own words for an answer."""


class Kind(NamedTuple):
    """A kind of call, with its name and effects for rules and modes."""

    name: str
    effects: frozenset[Effect]
    subject: SubjectKind | None = None
    """Kind of the subject; in the log, also the name of the argument that holds it."""
    arguments: tuple[str, ...] = ()
    """Names of that argument in the messages of various agents."""
    flag: Flag | None = None
    nature: NatureOf | None = None


_PATHS = ("path", "filePath", "file_path", "absolute_path")
UNKNOWN_KIND = Kind("other", frozenset({"write", "execute", "network"}))
KINDS: Mapping[str, Kind] = {
    "read": Kind("read_file", frozenset({"read"}), "path", _PATHS, "file_read", read_nature),
    "search": Kind("search", frozenset({"read"})),
    "edit": Kind("write_file", frozenset({"write"}), "path", _PATHS, "file_write"),
    "delete": Kind("delete", frozenset({"write"})),
    "move": Kind("move", frozenset({"write"})),
    "execute": Kind("bash", frozenset({"execute"}), "command", ("command", "cmd"), "bash"),
    "fetch": Kind("web_fetch", frozenset({"network"}), "url", ("url",), "network"),
    "think": Kind("think", frozenset({"read"})),
}
"""Kinds of calls, by the protocol's name. Any other kind may have any effect, and needs approval."""
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
"""Fields of a message about a call: attribute, name in the message, and type."""


within: ContextVar[ExternalCall | None] = ContextVar("within", default=None)
"""The nested call that agentnb is making for the agent inside a running call."""


class ExternalCall:
    """A call made by the agent, from its announcement to its end."""

    always = ""
    """The agent's words for the option that the person has chosen and the agent remembers; empty to allow the call once."""

    def __init__(self, call_id: str, folder: Path, function: str = "") -> None:
        """``folder``: the working folder."""
        self.id, self._folder = call_id, folder
        self.function = function
        """The notebook function that it calls through the door."""
        self.is_at_door = False
        """True if the announced call also arrives through the door, and is judged there."""
        self.is_own = bool(function)
        """True if agentnb executes it on behalf of the agent after judging it."""
        self.title = ""
        self.kind = ""
        self.status = "pending"
        self.input: Any = None
        self.output: Any = None
        self.content: Sequence[Any] = ()
        self._pieces: list[str] = []
        """Output of the agent's own terminal, as it arrives."""
        self.locations: Sequence[Any] = []
        self.options: Sequence[Mapping[str, Any]] | None = None
        """Answers that the agent's permission request offers; empty after a request for work, None before any request."""
        self.asks_anew = False
        """True if the agent asked about something other than what was judged, or asked after the end: such requests
        are rejected.
        """
        self._asked: JsonObject | None = None
        """Arguments in the latest permission request."""
        self.tool_call: ToolCall | None = None
        """The call as part of a reply, or None before that."""
        self._reported: Any = None
        """The input that counts, from reports: a permission request may show it in another form, such as a diff."""
        self._judged: Any = None
        """The reported input at the time of the reply."""
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """The decision: True lets the agent run the call."""
        self.answering: asyncio.Task[Any] | None = None
        """Sends the decision to the agent."""
        self.context: asyncio.Future[ToolContext] = asyncio.get_running_loop().create_future()
        """Context of the running call."""
        self.end = asyncio.Event()
        self.inner: set[asyncio.Task[None]] = set()
        """Calls made within this one."""
        self.own_outcome: ToolOutcome | None = None
        """Outcome of a notebook function, or of a refusal by agentnb."""
        self.terminal: Terminal | None = None
        """Terminal in which agentnb runs the command."""

    def merge(self, update: Mapping[str, Any], *, is_question: bool = False) -> None:
        """Merge a message; its fields replace earlier ones. ``is_question``: whether it is a permission request."""
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

    def ask(self, question: Mapping[str, Any], options: Any) -> None:
        """Record a permission request that has already been merged."""
        self.options = [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []
        raw_input, places = question.get("rawInput", self.input), question.get("locations") or self.locations
        if isinstance(raw_input, dict) and isinstance(self.input, dict):  # a request may omit where the command runs
            raw_input = {**{name: self.input[name] for name in PLACES if name in self.input}, **raw_input}
        asked, before = _arguments(self.form, raw_input, places, self.title, self._folder), self._asked
        name, judged = (
            (self.form.name, self.arguments) if self.tool_call is None else (self.tool_call.name, self.tool_call.arguments)
        )
        subjects = [arguments.get(self.form.subject or "") for arguments in (judged, asked)]
        is_other = name != self.form.name or not (
            None in subjects or _are_same(subjects[0], subjects[1], self.form.subject, self._folder)
        )
        self.asks_anew |= self.end.is_set() or is_other or before not in (None, asked)
        self._asked = asked

    @property
    def is_ready(self) -> bool:
        """True once the call can be judged, because the agent asks for permission or runs it with arguments (kimi
        reports a call as running while its arguments are still arriving).
        """
        is_running = self.status == "in_progress" and (self.is_own or bool(self.input))
        return self.options is not None or is_running or self.status in ENDED

    def _read_arguments(self) -> None:
        """Parse the arguments in the text of the call, where kimi sends them as JSON before a call may run."""
        text = "".join(part.text for block in self.content for part in _parts(block) if isinstance(part, Text))
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            self.input = msgspec.json.decode(text, type=JsonObject)

    def covers(self, kind: str, subject: str) -> bool:
        """True for an open call that includes work of this kind: on a file in the folder, or by a command.

        Approval to change a file includes reading it.
        """
        is_of_kind = self.kind == kind or (kind == "read" and self.kind == "edit" and self.tool_call is not None)
        if not is_of_kind or self.end.is_set() or self.is_own or self.terminal is not None:
            return False
        arguments = self.arguments if self.tool_call is None else self.tool_call.arguments  # the judged arguments apply
        named = arguments.get(self.form.subject or "")
        return _are_same(named, subject, self.form.subject, self._folder)

    def reject(self) -> None:
        """Reject the call; no-op once it has been decided."""
        if not self.answer.done():
            self.answer.set_result(False)
            if self.function:
                self.end.set()

    def options_of(self, kind: str) -> JsonObject:
        """Return the ids of the options of a kind, by the agent's words for them, on one line and redacted as in the log."""
        ids = JsonObject()
        for option in self.options or ():
            if option.get("kind") == kind and "optionId" in option:
                words = " ".join(visible(str(option.get("name") or "")).split())[:MAX_WORDS]
                ids.setdefault(redact(words), option["optionId"])
        return ids

    @property
    def lacks_once(self) -> bool:
        """True if the agent has asked, but offers no approval for this call alone."""
        return self._asked is not None and not self.options_of(ALLOW_ONCE)

    def select_option(self, *, is_allowed: bool) -> Any:
        """Return the id of the option that expresses a decision, or None. An option that the agent remembers is selected only
        if the person chose it.
        """
        once = next(iter(self.options_of(ALLOW_ONCE if is_allowed else REJECT_ONCE).values()), None)
        return self.options_of(ALLOW_ALWAYS).get(self.always, once) if is_allowed and self.always else once

    async def wait(self) -> None:
        """Wait for the end of the call and of its inner calls, which would otherwise be abandoned."""
        await self.end.wait()
        while self.inner:
            await asyncio.wait(self.inner)

    def close(self, status: str, text: str) -> None:
        """End the call if agentnb executes it."""
        if self.is_own:
            self.merge({"status": status, "content": [{"type": "content", "content": {"type": "text", "text": text}}]})

    @property
    def form(self) -> Kind:
        """Kind of the call, for rules and modes."""
        return KINDS.get(self.kind, UNKNOWN_KIND)

    @property
    def arguments(self) -> JsonObject:
        """The reported arguments, with the subject under a uniform name; if the agent reported none, the title and files."""
        if self.function:
            return self.input  # type: ignore[no-any-return]
        return _arguments(self.form, self.input, self.locations, self.title, self._folder)

    def take(self) -> ToolCall:
        """Return the call in the form for a reply. Later messages do not change it."""
        if self.tool_call is None:
            self.tool_call, self._judged = ToolCall(self.function or self.form.name, self.arguments, self.id), self._reported
        return self.tool_call

    @property
    def is_changed(self) -> bool:
        """True if the agent has reported different input since the call was judged. False if there was no input before."""
        return self._judged is not None and self._reported != self._judged

    @property
    def outcome(self) -> ToolOutcome:
        """Outcome of the terminal, or the one reported by the agent."""
        if self.terminal is not None:
            return self.terminal.outcome
        parts = tuple(part for block in self.content for part in _parts(block))
        parts = parts or _parts_of_output("".join(self._pieces) or self.output)
        if self.status == "completed":
            return ToolOutcome(True, parts)
        if self.status == "failed":
            return ToolOutcome(False, parts or (Text("The agent reported that the call failed."),), error_code="tool_error")
        return failure("no_result", "The agent ended its turn without a result for this call.")


def _are_same(first: Any, second: Any, kind: SubjectKind | None, folder: Path) -> bool:
    """True if two subjects are equal. Paths are taken as relative to this folder."""
    if kind == "path" and isinstance(first, str) and isinstance(second, str):
        return folder / first == folder / second
    return bool(first == second)


def _arguments(form: Kind, given: Any, locations: Any, title: str, folder: Path) -> JsonObject:
    """Return arguments with the subject under a uniform name; title and files if the agent reported none.

    A command includes the folder and the variables named in the arguments.
    """
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
    if form.subject == "command" and isinstance(reported.get("command"), str):
        reported["command"] = placed_command(reported["command"], reported, folder)
    return reported or {"title": title, **({"paths": places} if places else {})}


def _parts(block: Any) -> ResultParts:
    if not isinstance(block, dict):
        return ()
    if block.get("type") == "diff":
        return (Text(f"{block.get('path', '')}\n{block.get('newText', '')}"),)
    content = block.get("content") if block.get("type") == "content" else None
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("text"), str):
        return (Text(content["text"]),)
    return ()


def own_fields(update: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the agent's own fields, which extend the protocol's."""
    fields = update.get("_meta")
    return fields if isinstance(fields, dict) else {}


def _piece_of_output(update: Mapping[str, Any]) -> str:
    """Return new terminal output, which codex sends separately from the content, or ""."""
    piece = own_fields(update).get("terminal_output_delta")
    return str(piece.get("data", "")) if isinstance(piece, dict) else ""


def _parts_of_output(output: Any) -> tuple[Text, ...]:
    if isinstance(output, dict):
        output = output.get("output", output)
    return () if output is None else (Text(output if isinstance(output, str) else str(output)),)
