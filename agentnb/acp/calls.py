"""The tool calls of an agent as its messages tell of them: merged by id, and brought to an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentnb.core.messages import Image, Text, ToolCall
from agentnb.tools.subject import Flag, Subject
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

ENDED = ("completed", "failed")
BEGUN = ("in_progress", *ENDED)


class Kind(NamedTuple):
    """What agentnb takes a kind of call for: the name and the effects that rules and modes judge."""

    name: str
    effects: frozenset[Effect] | None
    subject: str = ""
    """The kind of its subject."""
    arguments: tuple[str, ...] = ()
    """Names of the argument that is the subject, as different agents write it."""
    flag: Flag | None = None


UNKNOWN_KIND = Kind("other", frozenset({"write", "execute", "network"}))
KINDS: Mapping[str, Kind] = {
    "read": Kind("read_file", frozenset({"read"}), "path", ("path", "filePath", "file_path", "absolute_path"), "file_read"),
    "search": Kind("search", frozenset({"read"})),
    "edit": Kind("write_file", frozenset({"write"}), "path", ("path", "filePath", "file_path", "absolute_path"), "file_write"),
    "delete": Kind("delete", frozenset({"write"})),
    "move": Kind("move", frozenset({"write"})),
    "execute": Kind("bash", frozenset({"execute"}), "command", ("command", "cmd"), "bash"),
    "fetch": Kind("web_fetch", frozenset({"network"}), "url", ("url",), "network"),
    "think": Kind("think", frozenset({"read"})),
}
"""By the kinds of the protocol. What maps to none may do anything, and is asked about."""


class ForeignCall:
    """A call of the agent, from its announcement to its end."""

    def __init__(self, call_id: str, function: str = "") -> None:
        self.id = call_id
        self.function = function
        """The function of the notebook that it calls, through the door."""
        self.is_at_door = False
        """Whether it is the agent's own word for a call that comes through the door: that one is judged."""
        self.is_own = bool(function)
        """Whether agentnb makes it for the agent: it does not begin before it was judged."""
        self.title = ""
        self.kind = ""
        self.status = "pending"
        self.input: Any = None
        self.output: Any = None
        self.content: Sequence[Any] = ()
        self.locations: Sequence[Any] = ()
        self.options: Sequence[Mapping[str, Any]] | None = None
        """The answers to the agent's question whether it may run; None before it asks."""
        self.made: ToolCall | None = None
        """The call as the reply has it in which it was made; None before."""
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Whether it may run."""
        self.context: asyncio.Future[ToolContext] = asyncio.get_running_loop().create_future()
        """The context in which it runs, once it does."""
        self.end = asyncio.Event()
        self.given: ToolOutcome | None = None
        """What a function of the notebook returned."""

    def merge(self, update: Mapping[str, Any]) -> None:
        """Take what a message says of it: fields that are there replace those before."""
        for name, field in (("title", "title"), ("kind", "kind"), ("status", "status")):
            if isinstance(update.get(field), str):
                setattr(self, name, update[field])
        for name, field in (("input", "rawInput"), ("output", "rawOutput")):
            if update.get(field) is not None:
                setattr(self, name, update[field])
        for name in ("content", "locations"):
            if isinstance(update.get(name), list):
                setattr(self, name, update[name])
        if self.status in ENDED:
            self.end.set()

    @property
    def is_ready(self) -> bool:
        """Whether it may be judged: the agent asks about it, or runs it."""
        return self.options is not None or self.status in BEGUN

    def writes(self, path: str) -> bool:
        """Return whether it is running, and changes this file."""
        is_open = self.made is not None and not self.end.is_set()
        return is_open and self.kind == "edit" and self.arguments.get("path") == path

    @property
    def form(self) -> Kind:
        """What rules and modes take it for."""
        return KINDS.get(self.kind, UNKNOWN_KIND)

    @property
    def arguments(self) -> dict[str, Any]:
        """Its arguments as the agent tells them, with the argument that rules are about under one name.

        Where it tells none, its title and the places that it names.
        """
        if self.function:
            return self.input  # type: ignore[no-any-return]
        told = dict(self.input) if isinstance(self.input, dict) else {} if self.input is None else {"input": self.input}
        form, places = self.form, [place["path"] for place in self.locations if isinstance(place, dict) and "path" in place]
        if form.subject and form.subject not in told:
            value = next((told[name] for name in form.arguments if isinstance(told.get(name), str)), None)
            if value is None and form.subject == "path" and places:
                value = places[0]
            if value is not None:
                told[form.subject] = value
        return told or {"title": self.title, **({"paths": places} if places else {})}

    def take(self) -> ToolCall:
        """Return the call for a reply: what it says from then on changes nothing of it."""
        self.made = ToolCall(self.function or self.form.name, self.arguments, self.id)
        return self.made

    @property
    def outcome(self) -> ToolOutcome:
        """What the agent tells of its end."""
        parts = tuple(part for block in self.content for part in _parts(block)) or _parts_of_output(self.output)
        if self.status == "completed":
            return ToolOutcome(True, parts)
        if self.status == "failed":
            return ToolOutcome(False, parts or (Text("The agent says that the call failed."),), error_code="tool_error")
        return failure("no_result", "The agent ended its turn without a result of this call.")


def _parts(block: Any) -> tuple[Text | Image, ...]:
    if not isinstance(block, dict):
        return ()
    if block.get("type") == "diff":
        return (Text(f"{block.get('path', '')}\n{block.get('newText', '')}"),)
    content = block.get("content") if block.get("type") == "content" else None
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("text"), str):
        return (Text(content["text"]),)
    return ()


def _parts_of_output(output: Any) -> tuple[Text, ...]:
    if isinstance(output, dict):
        output = output.get("output", output)
    return () if output is None else (Text(output if isinstance(output, str) else str(output)),)


def subject_of_kind(form: Kind) -> Subject | None:
    """Return the argument that rules about calls of this kind are about."""
    kind: Any = form.subject
    return Subject(kind, form.subject) if form.subject else None
