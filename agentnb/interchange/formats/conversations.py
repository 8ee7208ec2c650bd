"""Groups API requests into conversations, and converts the conversations to runs.

Each request repeats the conversation so far. An exchange therefore adds only the new messages of its request to a run, along
with its reply, whose usage, times and thinking are found only in the response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any

from agentnb.core.log import events as e
from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.conversion.stop_reasons import CUT, REFUSED
from agentnb.interchange.formats.exchanges import Exchange, own_ids
from agentnb.interchange.formats.message_content import texts_of
from agentnb.interchange.formats.steps import Note, Reply, Result, Step, SystemPrompt, signature, write_steps
from agentnb.interchange.trace_file import TraceFile

MAX_OPEN_CONVERSATIONS = 100
"""Maximum number of open conversations in a file; beyond it, the one that has been idle longest is closed."""


@dataclass
class OpenConversation:
    """The exchanges in one conversation so far."""

    first: Exchange
    number: int
    """Number of conversations that started before this one."""
    steps: list[Step] = field(default_factory=list)
    reply: list[Step] | None = None
    error: str = ""
    tools: dict[str, ToolSpec] = field(default_factory=dict)
    keys: set[Any] = field(default_factory=set)
    """Keys by which the next request may identify the conversation."""

    @property
    def is_whole(self) -> bool:
        """True if no request can continue it, because it is a record that ends with a reply but has no response."""
        return self.reply is None and not self.error and bool(self.steps) and isinstance(self.steps[-1], Reply)

    def add(self, exchange: Exchange, steps: list[Step]) -> None:
        """Add a request's new steps and its reply."""
        if self.error:
            self.steps.append(Note(f"The API answered a request with an error: {self.error}"))
        new = _after_echo(steps, self.reply) if self.reply is not None and not exchange.follows else steps
        self.steps += [*new, *(exchange.reply or ())]
        self.reply, self.error = exchange.reply, exchange.error
        self.tools |= {tool.name: tool for tool in exchange.tools}


class Conversations:
    """Groups exchanges into conversations, ordered by when they started. Yields those that are closed."""

    def __init__(self) -> None:
        self._open: dict[Any, list[OpenConversation]] = {}
        self._all: list[OpenConversation] = []
        self._begun = 0

    def add(self, exchange: Exchange) -> Iterator[OpenConversation]:
        """Add an exchange; yield its conversation if that is complete, or the one idle longest if there are too many."""
        start = next((at for at, step in enumerate(exchange.steps) if not isinstance(step, SystemPrompt)), len(exchange.steps))
        history = exchange.steps[start:]
        conversation, held_steps = self._find(exchange, history)
        if conversation is None:
            conversation = OpenConversation(exchange, self._begun)
            self._begun += 1
            conversation.steps += exchange.steps[:start]
        else:
            self._all.remove(conversation)
            self._forget(conversation)
        conversation.add(exchange, history[held_steps:])
        if conversation.is_whole:
            yield conversation
            return
        self._all.append(conversation)
        conversation.keys = {_keys(history)[-1], *({exchange.id, exchange.follows} - {""})}
        for key in conversation.keys:
            self._open.setdefault(key, []).append(conversation)
        if len(self._all) > MAX_OPEN_CONVERSATIONS:
            rested = self._all.pop(0)
            self._forget(rested)
            yield rested

    def open_conversations(self) -> list[OpenConversation]:
        """Return all open conversations."""
        return self._all

    def _forget(self, one: OpenConversation) -> None:
        for key in one.keys:
            self._open[key] = [entry for entry in self._open[key] if entry is not one]
            if not self._open[key]:
                del self._open[key]

    def _find(self, exchange: Exchange, history: list[Step]) -> tuple[OpenConversation | None, int]:
        """Return the conversation that a request continues, and how many of the request's steps it already holds."""
        if exchange.follows in self._open:
            return self._open[exchange.follows][-1], 0
        keys = _keys(history)
        for length in range(len(history), 0, -1):
            for conversation in reversed(self._open.get(keys[length], ())):
                if own_ids(conversation.first) != own_ids(exchange):
                    continue
                if bool(conversation.error) if length == len(history) else _is_continuation(conversation, history[length:]):
                    return conversation, length
        return None, 0


def _keys(history: list[Step]) -> list[int]:
    """Return a key for each number of steps at the start, from none to all of them."""
    return [*accumulate(map(signature, history), lambda key, step: hash((key, step)), initial=0)]


def _is_continuation(one: OpenConversation, new: list[Step]) -> bool:
    """True if the new steps of a request begin with the conversation's last reply."""
    if one.reply is None:
        return not one.error or not isinstance(new[0], Reply)
    echo = new[: _echo_length(new)]
    if not echo:
        return False
    repeated, before = _reply_content(echo), _reply_content(one.reply)
    return repeated == before or not any(before) or not any(repeated)


def _reply_content(steps: Iterable[Step]) -> tuple[str, list[str]]:
    replies = [step for step in steps if isinstance(step, Reply)]
    text = "".join(texts_of(step.parts) for step in replies)
    return "".join(text.split()), [call.name for step in replies for call in step.calls]


def _echo_length(steps: list[Step]) -> int:
    """Return the number of initial steps that are from the model: the previous reply, which the request repeats."""
    own = (isinstance(step, Reply) or (isinstance(step, Result) and step.inside) for step in steps)
    return next((index for index, is_own in enumerate(own) if not is_own), len(steps))


def _after_echo(steps: list[Step], reply: list[Step]) -> list[Step]:
    """Return the steps after the repeated reply. If the client changed its call ids, results are given the reply's ids."""
    length = _echo_length(steps)
    id_pairs = zip(_call_ids(steps[:length]), _call_ids(reply), strict=False)
    ids = {client_id: own for client_id, own in id_pairs if client_id != own}
    return [
        step._replace(call_id=ids.get(step.call_id, step.call_id)) if isinstance(step, Result) else step
        for step in steps[length:]
    ]


def _call_ids(steps: Iterable[Step]) -> list[str]:
    return [call.id for step in steps if isinstance(step, Reply) for call in step.calls]


# Runs


def runs_of(file: TraceFile, name: str, exchanges: Iterable[Exchange], *, several: bool | None = None) -> Iterator[Run]:
    """Yield the runs of exchanges. ``several``: whether to include their positions; by default, if there are several runs.

    If reading fails, the runs read up to then are yielded first.
    """
    conversations, failure = Conversations(), None
    done: list[OpenConversation] = []
    try:
        for exchange in exchanges:
            for conversation in conversations.add(exchange):
                if several is None:
                    done.append(conversation)
                else:
                    yield from _run(file, name, conversation, conversation.first.position if several else "")
    except TraceError as error:
        failure = error
    remaining = sorted([*done, *conversations.open_conversations()], key=lambda one: one.number)
    for conversation in remaining:
        yield from _run(
            file, name, conversation, conversation.first.position if several or (several is None and len(remaining) > 1) else ""
        )
    if failure is not None:
        raise failure


def _run(file: TraceFile, name: str, one: OpenConversation, position: str) -> Iterator[Run]:
    with file.guard(one.first.position):
        yield run_of_conversation(file, name, one, position)


def run_of_conversation(file: TraceFile, name: str, one: OpenConversation, position: str) -> Run:
    """Return the run of a conversation."""
    settings = {"recorded": dict(one.first.recorded)} if one.first.recorded else {}
    tools = tuple(one.tools.values())
    run_id, parent_id = own_ids(one.first)
    fields: dict[str, Any] = {"run_id": run_id, "parent_id": parent_id, "settings": settings}
    writer = file.writer(name, position, model=one.first.model, tools=tools, **fields)
    write_steps(writer, one.steps)
    return finish(writer, one.reply, one.error)


def finish(
    writer: RunWriter,
    reply: list[Step] | None,
    error: str = "",
    *,
    is_over: bool = False,
    at: datetime | None = None,
    seconds: float | None = None,
) -> Run:
    """Return the run, given the reply or error for its last request. Without either, its end is unknown.

    ``is_over``: whether the trace records that the run has ended.
    """
    end = partial(writer.finish, at=at, seconds=seconds)
    if error:
        writer.error(e.RunError("ApiError", error), "model")
        return end("failed", "error")
    last = next((step for step in reversed(reply or ()) if isinstance(step, Reply)), None)
    stop = last.stop_reason if last is not None else ""
    if stop in REFUSED:
        return end("stopped", "refusal")
    if stop in CUT and last is not None and not last.calls:
        cut = e.RunError("ReplyCut", f"The reply was cut off by a token limit ({stop})")
        writer.error(cut, "reply")
        return end("failed", "reply_cut")
    if stop == "cancelled":
        return end("cancelled", "cancelled")
    return writer.finish_without_end(is_over=is_over, at=at, seconds=seconds)
