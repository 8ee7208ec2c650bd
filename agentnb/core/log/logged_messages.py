"""The stored conversation of a log, read without the rest of its run.

This is three times as fast as folding a complete run, and a table may hold messages from thousands of logs. A property test
checks that both return the same messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from agentnb.core.log import events as e
from agentnb.core.log.handlers import Handlers
from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult, join_parts, user

handles = Handlers()


class LoggedMessages:
    """Messages and completion state of a run, under the same names as in `RunFacts`."""

    __slots__ = (
        "_calls",
        "_in_round",
        "_results",
        "_streamed",
        "_suspended",
        "id",
        "inherited",
        "messages",
        "parent_id",
        "pending",
        "should_continue",
        "started_at",
    )

    def __init__(self, events: Iterable[e.AnyEvent]) -> None:
        """Read all events of a well-formed log."""
        self.id = ""
        self.parent_id: str | None = None
        self.started_at: datetime | None = None
        self.inherited = 0
        """Number of messages from the continued conversation."""
        self.messages: list[Message] = []
        self.should_continue = True
        """True until the run has ended."""
        self.pending: list[Message] = []
        """Messages from the person not yet sent to the model."""
        self._in_round = self._suspended = False
        self._calls: list[str] = []
        """Ids of the open round's calls, in order."""
        self._results: dict[str, ToolResult] = {}
        self._streamed: list[Text | Thinking] = []
        """Parts of an incomplete reply."""
        handler_for = handles.get
        for event in events:
            handler = handler_for(type(event))
            if handler is not None:
                handler(self, event)

    @handles
    def _run_started(self, event: e.RunStarted) -> None:
        self.id, self.parent_id, self.started_at = event.run_id, event.parent_id, event.at
        self.messages += [*event.history, event.prompt]
        self.inherited = len(event.history)

    @handles
    def _round_started(self, event: e.RoundStarted) -> None:
        self._calls, self._in_round = [], True
        if self.pending:
            self._take_pending()
        if event.continuation:
            self.messages.append(user(event.continuation))

    @handles
    def _reply_streamed(self, event: e.ReplyStreamed) -> None:
        self._streamed += event.parts

    @handles
    def _retry_scheduled(self, event: e.RetryScheduled) -> None:
        self._streamed = []

    @handles
    def _model_replied(self, event: e.ModelReplied) -> None:
        message = event.message
        self._streamed = []
        self.messages.append(message)
        self._calls = [part.id for part in message.parts if type(part) is ToolCall]

    @handles
    def _result_came(self, event: e.CallEnd) -> None:
        if not event.parent_call:
            self._results[event.result.call_id] = event.result

    @handles
    def _round_finished(self, event: e.RoundFinished) -> None:
        self._streamed = []
        self._in_round = False
        if self._calls:
            self.messages.append(Message("tool", self._results_so_far()))

    def _results_so_far(self) -> tuple[ToolResult, ...]:
        results = self._results
        return tuple([results[call] for call in self._calls if call in results])

    @handles
    def _command_received(self, event: e.CommandReceived) -> None:
        if (message := event.user_message) is not None:
            self.pending.append(message)

    @handles
    def _run_suspended(self, event: e.RunSuspended) -> None:
        self._suspended = True

    @handles
    def _run_recovered(self, event: e.RunRecovered) -> None:
        self._suspended = False

    @handles
    def _run_finished(self, event: e.RunFinished) -> None:
        self._close()
        self.should_continue = False

    def _close(self) -> None:
        """Add the messages still pending at the end of the run, as `fold.close_conversation` does."""
        if self._in_round and (results := self._results_so_far()):
            self.messages.append(Message("tool", results))
        self._take_pending()

    def _take_pending(self) -> None:
        self.messages += self.pending
        self.pending.clear()

    def mark_interrupted(self) -> None:
        """Record that no process is writing the log."""
        if self.should_continue and not self._suspended:
            if self._streamed:
                self.messages.append(Message("assistant", join_parts(self._streamed)))
            self._close()
        self.should_continue = False
