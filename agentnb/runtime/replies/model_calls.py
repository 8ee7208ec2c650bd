"""Model calls: turns a model's stream into deltas, events and one reply."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from datetime import UTC
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from agentnb.core.log import events as e
from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import AnyPart, Message, Text, Thinking, encodable
from agentnb.core.redaction import StreamRedactor
from agentnb.core.request import Request
from agentnb.core.run.rounds import BROKEN_OFF, TOKENS_ESTIMATED
from agentnb.core.usage import UNKNOWN, sanitize_usage
from agentnb.errors import AgentnbError, ModelError
from agentnb.models.capabilities import used_until_cut
from agentnb.models.estimate import about, with_estimates
from agentnb.models.model import Checkpoint, Model, Notice, Reply, Retry, StreamItem, Unshown
from agentnb.models.traits import tried_in_run
from agentnb.policies import Policy
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.ending import OVER_LIMIT
from agentnb.policies.marker_text import MarkerFilter, without_markers
from agentnb.policies.run_limits import MaxTokens
from agentnb.runtime.budget import Budget
from agentnb.runtime.event_log import EventLog, now
from agentnb.runtime.replies.normalize_reply import normalize_reply
from agentnb.runtime.replies.reply_limit import OverLimit, ReplyLimit
from agentnb.settings import known_secrets
from agentnb.tools.tool_errors import traceback_of_own_code


class StreamBuffer:
    """Forwards the deltas of one reply. If marker lines are read, they are not forwarded."""

    __slots__ = ("_filter", "_heard", "_markers", "_redactor", "_tell", "_thoughts", "_unshown")

    def __init__(self, tell: Callable[[ReplyDelta], None], *, markers: bool) -> None:
        self._tell = tell
        self._heard: list[str] = []
        self._thoughts: list[str] = []
        self._unshown = 0
        self._markers = markers
        self._filter: MarkerFilter | None = None
        self._redactor: StreamRedactor | None = None

    def take(self, item: ReplyDelta | Unshown) -> None:
        """Take a delta, and forward the part of it that may already be shown."""
        if isinstance(item, Unshown):
            self._unshown += item.characters
            return
        if not isinstance(item, TextDelta):
            self._thoughts.append(item.text)
            self._tell(item)
            return
        if not self._heard and self._markers:
            self._filter = MarkerFilter()
        self._heard.append(item.text)
        shown = item.text if self._filter is None else self._filter.feed(item.text)
        if shown == item.text:
            self._tell(item)
        elif shown:
            self._tell(TextDelta(shown))

    def kept(self, parts: Iterable[Text | Thinking]) -> tuple[Text | Thinking, ...]:
        """Return the next parts as the log may hold them: text that may be the beginning of a key is held back until
        more arrives.
        """
        redactor = self._redactor = self._redactor or StreamRedactor()
        texts = known_secrets()
        held = [type(part)(redactor.feed(encodable(part.text), texts)) for part in parts]
        return tuple([part for part in held if part.text])

    def all_that_came(self) -> Message | None:
        """Return everything received as one message, for estimating its tokens, or None if nothing was received.

        Filler text replaces parts that are not shown, since only their length is known.
        """
        thoughts, words = encodable("".join(self._thoughts)), encodable("".join(self._heard))
        parts: tuple[AnyPart, ...] = (Thinking(thoughts),) if thoughts else ()
        parts = (*parts, Text(words)) if words else parts
        parts = (*parts, Text("." * self._unshown)) if self._unshown else parts
        return Message("assistant", parts) if parts else None

    def end(self) -> str:
        """Forward the text that was held back, and return all text received."""
        if not self._heard:
            return ""
        if self._filter is not None and (remainder := self._filter.rest()):
            self._tell(TextDelta(remainder))
        return encodable("".join(self._heard))


class UsageCheck:
    """Completes the reported usage if a limit depends on it, and warns, once per run, about missing numbers."""

    def __init__(self, log: EventLog, budget: Budget, policies: Iterable[Policy]) -> None:
        """``budget`` and ``policies``: limits on money and tokens, if there are any."""
        self._log = log
        self._budget = budget
        self._counts_tokens = bool([policy for policy in policies if isinstance(policy, MaxTokens)])
        self.is_needed = self._counts_tokens or budget.may_run_out()
        """True if a limit depends on usage."""

    def complete(self, request: Request, reply: Reply) -> Reply:
        """Return the reply with an estimate for each count that the model did not report, if tokens are limited."""
        if not self._counts_tokens or (_is_count(reply.usage.input) and _is_count(reply.usage.output)):
            return reply
        usage = with_estimates(sanitize_usage(reply.usage), request, reply.message)
        if usage.estimated:
            return replace(reply, usage=usage, metadata={**reply.metadata, TOKENS_ESTIMATED: True})
        return replace(reply, usage=usage)

    def warn(self, reply: Reply) -> None:
        """Warn, once per run, that a limit depends on estimates, or that a budget cannot account for the call."""
        cost, is_estimated = reply.usage.cost, TOKENS_ESTIMATED in reply.metadata
        if cost is not None and not is_estimated:
            return
        has_budget, run = self._budget.has_limit(), self._log.run
        if is_estimated and (self._counts_tokens or (has_budget and cost)):
            self._log.warn_once(
                f"{run.model} does not report all the tokens it uses. agentnb estimates the rest, so limits on tokens "
                "and money may be off by a fifth",
                "Allow for that in your limits",
            )
        if has_budget and cost is None and not run.settings.get("unpriced"):
            self._log.warn_once(
                f"{run.model} does not report the cost of its calls, so the budget does not count all of them",
                "State a price (provider:NAME?price=3/15), let a model object report Usage(cost=...), or set max_tokens or "
                "max_rounds too",
            )


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


STREAMED: frozenset[object] = frozenset({TextDelta, ThinkingDelta, Unshown})
"""Types that a stream yields before its reply."""
HOW_TO_YIELD = (
    'Optionally yield TextDelta("...") for text as it arrives, and finally Reply(Message("assistant", (Text("..."),)))'
)
MAX_SHOWN = 80
"""Maximum characters shown of an invalid item in a stream."""


class ModelCalls:
    """Calls the model of one run and logs its replies, retries and usage."""

    def __init__(
        self,
        model: Model,
        log: EventLog,
        bundle: PolicyBundle,
        budget: Budget,
        *,
        is_cancelled: Callable[[BaseException], bool],
    ) -> None:
        """``bundle``: says whether marker lines are read, and sets limits, as ``budget`` does; ``is_cancelled``:
        whether an exception cancels the run.
        """
        self.model = model
        self._log = log
        self._markers = bundle.markers
        self._budget, self._policies = budget, bundle.policies
        self.is_cancelled = is_cancelled
        self._usage_check = UsageCheck(log, budget, bundle.policies)
        self._tried: set[str] = set()

    async def reply(self, request: Request) -> Message:
        """Return the model's reply as logged. If the stream breaks off, its partial reply is logged."""
        stream_buffer: StreamBuffer | None = None  # buffer and limit are created only for a reply that streams
        limit: ReplyLimit | None = None
        reply: Reply | None = None
        started, items = perf_counter(), None
        try:
            items = self._stream(request)
            async for item in items:
                if isinstance(item, Reply):
                    reply = item
                elif isinstance(item, Retry):
                    self._note_retry(item, "" if stream_buffer is None else stream_buffer.end())
                    stream_buffer = limit = None
                elif isinstance(item, Notice | Checkpoint):
                    self._log_at_once(item, stream_buffer)
                else:
                    if item.__class__ not in STREAMED:
                        raise self._not_a_delta(item)
                    if stream_buffer is None or limit is None:
                        stream_buffer = StreamBuffer(self._log.stream, markers=self._markers)
                        limit = self._limit(request, comes_after_limit=self._log.run.last_round.is_final)
                    limit.count(_length(item))
                    stream_buffer.take(item)
        except OverLimit as error:
            await _close(items, error)
            reply = self._cut_off(request, stream_buffer)
        except BaseException as error:
            await _close(items, error)
            self._keep_broken_off(request, stream_buffer, reply, perf_counter() - started)
            if isinstance(error, AgentnbError | KeyboardInterrupt | GeneratorExit) or self.is_cancelled(error):
                raise
            raise self._model_error(error) from error
        if reply is None:
            self._keep_broken_off(request, stream_buffer, reply, perf_counter() - started)
            raise ModelError(f"{self.model.name} ended its stream without a reply", HOW_TO_YIELD, run=self._log.run)
        if stream_buffer is not None:
            stream_buffer.end()
        return self._log_reply(request, self._normalize(reply), perf_counter() - started)

    def _log_at_once(self, item: Notice | Checkpoint, stream_buffer: StreamBuffer | None) -> None:
        """Log a warning, or the parts of the reply since the last checkpoint."""
        if isinstance(item, Notice):
            self._log.warn_once(item.message, item.advice)
        elif stream_buffer is not None and (parts := stream_buffer.kept(item.parts)):
            self._log.emit(e.ReplyStreamed, parts=parts, metadata=item.metadata)

    def _stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Return the model's stream; raises `ModelError` if it is not an async iterator."""
        tried_in_run.set(self._tried)
        stream: Any = self.model.stream(request)
        if hasattr(stream, "__aiter__"):
            return stream  # type: ignore[no-any-return]  # just looked
        if inspect.iscoroutine(stream):
            stream.close()  # it will not be awaited
        problem = f"stream() of {self.model.name} must be an async generator; it returned {_kind_of(stream)}"
        raise ModelError(problem, f"Define async def stream(self, request) with yield. {HOW_TO_YIELD}")

    def _log_reply(self, request: Request, reply: Reply, seconds: float) -> Message:
        """Log the reply with complete usage and without markers, and return the message as logged."""
        if self._usage_check.is_needed:
            reply = self._usage_check.complete(request, reply)
        message, signals = without_markers(reply.message) if self._markers else (reply.message, ())
        log = self._log
        replied = e.ModelReplied(
            log.seq,
            now(UTC),
            log.id,
            log.parent_id,
            message=message,
            signals=signals,
            usage=reply.usage,
            stop_reason=reply.stop_reason,
            seconds=seconds if reply.seconds is None else reply.seconds,
            metadata=reply.metadata,
        )
        logged = log.append(replied).message
        if self._usage_check.is_needed:
            self._usage_check.warn(reply)
        return logged

    def _limit(self, request: Request, *, comes_after_limit: bool) -> ReplyLimit:
        run, policies = self._log.run, self._policies
        return ReplyLimit(self.model, request, run, self._budget, policies, comes_after_limit=comes_after_limit)

    def _not_a_delta(self, item: object) -> ModelError:
        problem = encodable(f"{self.model.name} yielded {repr(item)[:MAX_SHOWN]}, of type {type(item).__name__}")
        return ModelError(problem, HOW_TO_YIELD, run=self._log.run)

    def _model_error(self, error: BaseException) -> ModelError:
        words = encodable(f"{type(error).__name__}: {error}")
        is_own = bool(traceback_of_own_code(error))
        hint = "The traceback is in run.error.traceback" if is_own else ""
        return ModelError(f"{self.model.name} failed: {words}", hint, run=self._log.run)

    def _cut_off(self, request: Request, stream_buffer: StreamBuffer | None) -> Reply:
        """Return the text of a reply that exceeded a limit, without its incomplete calls."""
        assert stream_buffer is not None, "it streamed"
        heard, text = stream_buffer.all_that_came(), stream_buffer.end()
        assert heard is not None, "it was too long"
        usage = used_until_cut(self.model, request, heard)
        message = Message("assistant", (Text(text),) if text else ())
        self._log.warn(f"{self.model.name} far exceeded a limit while streaming: its reply was cut off")
        return Reply(message, about(request, heard) if usage == UNKNOWN else usage, OVER_LIMIT)

    def _note_retry(self, retry: Retry, heard: str = "") -> None:
        reason = encodable(retry.reason)
        log, attempt = self._log, retry.attempt
        log.emit(e.RetryScheduled, attempt=attempt, seconds=retry.seconds, reason=reason, status=retry.status, heard=heard)

    def _normalize(self, reply: Reply) -> Reply:
        message: object = reply.message
        if not isinstance(message, Message):
            raise ModelError(f"The reply of {self.model.name} has no Message", HOW_TO_YIELD)
        try:
            return normalize_reply(reply, self._log.run)
        except (RecursionError, TypeError, ValueError) as error:
            problem = encodable(f"{type(error).__name__}: {error}")
            raise ModelError(
                f"{self.model.name} returned a reply that cannot be logged ({problem})", run=self._log.run
            ) from error

    def _keep_broken_off(
        self, request: Request, stream_buffer: StreamBuffer | None, reply: Reply | None, seconds: float
    ) -> None:
        """Log the partial text and its usage, as reported by the reply if that arrived before the failure."""
        heard, text = (None, "") if stream_buffer is None else (stream_buffer.all_that_came(), stream_buffer.end())
        usage = sanitize_usage(reply.usage) if reply is not None else UNKNOWN
        if usage == UNKNOWN and heard is not None:
            usage = used_until_cut(self.model, request, heard)
        if text:
            message = Message("assistant", (Text(text),))
            if self._markers:
                message, _ = without_markers(message)
            _, metadata = self._log.run.streamed_reply or (None, {})
            ending: Any = {"stop_reason": BROKEN_OFF, "seconds": seconds, "metadata": metadata}
            self._log.emit(e.ModelReplied, message=message, usage=usage, **ending)
        elif usage != UNKNOWN:
            self._log.emit(e.ExtraUsage, usage=usage)

    async def side_request(self, request: Request) -> AsyncGenerator[StreamItem]:
        """Stream a side request, outside the conversation; only retries and usage warnings are logged."""
        limit = self._limit(request, comes_after_limit=True)
        items = self._stream(request)
        try:
            async for item in items:
                if isinstance(item, Reply):
                    reply = self._usage_check.complete(request, self._normalize(item))
                    self._usage_check.warn(reply)
                    yield reply
                elif isinstance(item, Retry):
                    self._note_retry(item)
                    limit.restart()
                    yield item
                elif isinstance(item, Notice):
                    self._log.warn_once(item.message, item.advice)
                elif not isinstance(item, Checkpoint):  # checkpoints of a side request are dropped
                    self._count_aside(limit, item)
                    yield item
        except BaseException as error:
            await _close(items, error)
            raise

    def _count_aside(self, limit: ReplyLimit, item: ReplyDelta | Unshown) -> None:
        try:
            limit.count(_length(item))
        except OverLimit:
            problem = f"{self.model.name} far exceeded a limit and was cut off"
            raise ModelError(problem, run=self._log.run) from None


def _length(item: ReplyDelta | Unshown) -> int:
    return item.characters if isinstance(item, Unshown) else len(item.text)


async def _close(stream: AsyncIterator[StreamItem] | None, error: BaseException) -> None:
    """Close the stream after a failure, unless awaiting is no longer possible."""
    if not isinstance(error, GeneratorExit) and hasattr(stream, "aclose"):
        await stream.aclose()  # type: ignore[union-attr]  # just looked


def _kind_of(stream: object) -> str:
    return "a coroutine, because it has no yield" if inspect.iscoroutine(stream) else f"a {type(stream).__name__}"
