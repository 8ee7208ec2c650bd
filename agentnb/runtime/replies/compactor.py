"""Compacts a conversation: requests a summary and logs which messages it replaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from agentnb.context.compaction import (
    is_worth_it,
    plain_summary,
    recent_tokens,
    start_of_recent,
    summary_request,
    summary_text,
    why_due,
)
from agentnb.context.history_settings import History
from agentnb.context.request_builder import RequestBuilder
from agentnb.core.compaction_records import Compacted, WhyCompacted
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, encodable
from agentnb.core.request import Request
from agentnb.core.usage import NOTHING_USED, Usage
from agentnb.detect.run import Run
from agentnb.errors import StoreError
from agentnb.models.capabilities import capabilities_of, used_until_cut
from agentnb.models.model import Reply, Retry
from agentnb.policies.ending import CUT
from agentnb.runtime.defaults import ROUNDS_BETWEEN
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.replies.model_calls import ModelCalls

NO_WORDS = "the model returned no summary"
CUT_OFF = "\n\n[The summary was cut off here.]"


class Compactor:
    """Compacts the conversation of one run."""

    def __init__(
        self,
        calls: ModelCalls,
        request_builder: RequestBuilder,
        history: History,
        log: EventLog,
        keeps: Sequence[Callable[[Run], str]] = (),
    ) -> None:
        """``keeps``: functions that return text to keep verbatim in the conversation."""
        self._calls = calls
        self._request_builder = request_builder
        self._history = history
        self._compacts = history.compacts
        self._log = log
        self._keeps = keeps

    def why_due(self) -> WhyCompacted | None:
        """Return why the conversation must be compacted before the open round's request, or None if there is no need."""
        if not self._compacts:
            return None
        history, run = self._history, self._log.run
        window = history.window or (capabilities_of(self._calls.model).context_window if history.share is not None else None)
        if window is None and history.compact_above is None:
            return None
        self._request_builder.take_in(run)
        tokens = self._request_builder.tokens(run) if window is not None else None
        return why_due(history, len(self._request_builder.messages), tokens, window)

    async def after_overflow(self) -> bool:
        """Compact after the provider has refused the request as too long. Return False if compaction cannot shorten it."""
        if not self._compacts or any(compaction.why == "overflow" for compaction in self._log.run.last_round.compactions):
            return False
        return await self.compact("overflow")

    async def compact(self, why: WhyCompacted) -> bool:
        """Replace older messages with a summary in all later requests. Return False if there is nothing to replace."""
        request_builder, run = self._request_builder, self._log.run
        messages = request_builder.messages
        start = start_of_recent(messages, self._history.keep_recent, recent_tokens(messages) if why != "messages" else None)
        before = run.compacted
        if start is not None and before is not None:  # summarized messages stay summarized
            start = max(start, request_builder.prepared_of(before.kept))
        if start is None or start >= len(messages) or start - 1 <= request_builder.is_summary(messages[1]):
            return False
        if why == "share" and self._was_just_done() and not is_worth_it(messages, start, request_builder.tokens(run)):
            return False
        kept = request_builder.place_of(start)
        first = request_builder.place_of(1)
        if before is not None:  # several messages may precede the summary: those that other settings left out
            first = min(first, before.first)
        count = kept - first
        replaced = messages[0 if before is not None else 1 : start]  # an earlier summary may be merged into the first message
        self._log.emit(e.CompactionStarted, why=why, messages=count)
        started = perf_counter()
        summary, usage, problem = await self._summary(replaced, before.text if before is not None else "")
        if problem:
            self._log.warn_once(f"{count} messages were left out without a summary: {problem}")
        self._log.emit(
            e.ContextCompacted,
            why=why,
            compacted=Compacted(first, kept, count, self._text(summary, count)),
            usage=usage,
            seconds=perf_counter() - started,
            problem=problem,
        )
        return True

    def _text(self, summary: str, count: int) -> str:
        """Return the summary as it is sent, including the text kept verbatim."""
        run = self._log.run
        kept = [encodable(text) for keep in self._keeps if (text := keep(run))]
        return "\n\n".join(filter(None, (summary_text(summary, count, run.conversation_todos), *kept)))

    def _was_just_done(self) -> bool:
        """Return whether one of the most recent rounds compacted; if so, the prompt or the kept messages are too long."""
        return any(
            event.compacted is not None for record in self._log.run.rounds[-ROUNDS_BETWEEN:] for event in record.compactions
        )

    async def _summary(self, messages: Sequence[Message], earlier: str) -> tuple[str, Usage, str]:
        """Return the summary, its usage and, if there is no summary, the reason."""
        if not capabilities_of(self._calls.model).language_model:
            return plain_summary(messages, self._log.run.prompt), NOTHING_USED, ""
        request = summary_request(messages, earlier)
        pieces: list[str] = []
        reply: Reply | None = None
        try:
            async for item in self._calls.side_request(request):
                if isinstance(item, Reply):
                    reply = item
                elif isinstance(item, Retry):
                    pieces.clear()
                elif isinstance(item, e.TextDelta | e.ThinkingDelta):
                    pieces.append(item.text)
        except StoreError:
            raise
        except BaseException as error:  # of any kind: the conversation continues without a summary
            used = reply.usage if reply is not None else self._used_until_cut(request, pieces)
            if isinstance(error, KeyboardInterrupt | GeneratorExit) or self._calls.is_cancelled(error):
                if used != NOTHING_USED:
                    self._log.emit(e.ExtraUsage, usage=used)
                raise
            return "", used, encodable(f"{type(error).__name__}: {error}")
        if reply is None or not reply.message.text.strip():
            return "", self._used_until_cut(request, pieces) if reply is None else reply.usage, NO_WORDS
        return reply.message.text + (CUT_OFF if reply.stop_reason in CUT else ""), reply.usage, ""

    def _used_until_cut(self, request: Request, heard: Sequence[str]) -> Usage:
        if not heard:
            return NOTHING_USED  # probably refused
        return used_until_cut(self._calls.model, request, Message("assistant", (Text(encodable("".join(heard))),)))
