"""The loop: call the model, run its tools, decide whether to continue.

The loop has no features of its own: policies decide after each round, log events record it, and the lifecycle handles
what every run needs, such as stopping, pausing, and limits on time and money.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from datetime import UTC
from time import perf_counter
from typing import Any

from agentnb.agent.resume import guidance_of_open_round, is_guidance_drawn, resume_verdict
from agentnb.context.history_settings import FULL, History
from agentnb.context.request_builder import RequestBuilder, ephemeral_text
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log.work_events import GuidanceDrawn
from agentnb.core.messages import Message, encodable
from agentnb.core.redaction import change_texts
from agentnb.core.run.rounds import ASKED_FOR_TOOLS, BROKEN_OFF, FINAL_ANSWER, WorkflowRound
from agentnb.errors import AgentnbError, ContextOverflow, ModelError
from agentnb.guidance.draws import Draw, next_round
from agentnb.guidance.prompts import prompt
from agentnb.models.model import Model
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.verdict import Continue, Interlude, Stop, Verdict, before_end, decide, news_of
from agentnb.runtime.calls.call import Call
from agentnb.runtime.calls.dispatch import Dispatch
from agentnb.runtime.calls.todo_sync import TodoSync
from agentnb.runtime.event_log import now
from agentnb.runtime.replies.asked_detectors import AskedDetectors
from agentnb.runtime.replies.compactor import Compactor
from agentnb.runtime.replies.model_calls import ModelCalls
from agentnb.runtime.run_end import log_findings
from agentnb.runtime.runs.interludes import Interludes
from agentnb.runtime.runs.lifecycle import Lifecycle

_PROMPT = Continue("prompt")


class Loop:
    """Orchestrator of an agent's run, which works in rounds."""

    where = "model"

    def __init__(
        self,
        model: Model,
        lifecycle: Lifecycle,
        request_builder: RequestBuilder,
        dispatch: Dispatch,
        bundle: PolicyBundle,
        todos: TodoSync | None = None,
        history: History = FULL,
    ) -> None:
        log = lifecycle.log
        self._lifecycle = lifecycle
        self._inbox = lifecycle.inbox
        self._budget = lifecycle.budget
        self._servers = lifecycle.context.servers
        self._log = log
        self._request_builder = request_builder
        self._dispatch = dispatch
        self._policies, self._endings = bundle.policies, bundle.endings
        self._after_calls = bundle.after_calls
        self._guides = bundle.direct_guides
        self._draw, self._note, self._has_detectors = bundle.draw, bundle.note, bool(bundle.detectors)
        self._todos = todos or TodoSync(None, log)
        self._calls = ModelCalls(model, log, bundle, self._budget, is_cancelled=lifecycle.is_cancelled)
        self._compactor = Compactor(self._calls, request_builder, history, log, bundle.keeps)
        self._asked = AskedDetectors(bundle.model_detectors, self._calls, log) if bundle.model_detectors else None
        self._round_started = perf_counter()

    def raises(self, error: AgentnbError) -> bool:
        """True if the run failed in its first round, and so has nothing to show but the error."""
        return len(self._log.run.rounds) <= 1

    async def work(self) -> Stop:
        """Run rounds until a policy stops the run."""
        run = self._log.run
        first = await self._first_verdict()
        may_be_open = first is not _PROMPT
        """True if something may still be open, left by a process that died or by an interlude."""
        verdict: Verdict | Interlude = self._before_end(first) if self._endings else first
        if self._has_detectors:
            log_findings(self._log)  # a dead process may not have logged them
        self._todos.look()  # the run may have waited for the store
        while not isinstance(verdict, Stop):
            if isinstance(verdict, Continue):
                await self._whole_round(verdict)
            else:
                may_be_open = True
                await Interludes(self._lifecycle, self._dispatch).run(verdict)
            verdict = decide(self._after_calls if run.last_round.records else self._policies, run)
            if self._endings:
                verdict = self._before_end(verdict)
        if may_be_open or run.step_records:
            self.close_open("cancelled")
        return verdict

    def _before_end(self, verdict: Verdict) -> Verdict | Interlude:
        return before_end(verdict, self._endings, self._policies, self._log.run)

    async def _whole_round(self, why: Continue) -> None:
        """Read the inbox, run a round, and process its effects."""
        if self._inbox.has_news and not self._goes_on():
            await self._lifecycle.read_inbox()
            self._todos.look()  # the run may have waited for the person
        if self._servers is not None and self._servers.has_news:
            await self._servers.update()
        await self._round(why)
        if self._asked is not None:
            await self._asked.look()
            self._lifecycle.settle()
        if self._inbox.has_news and not self._goes_on():
            await self._lifecycle.read_inbox()
        self._todos.look()
        if self._draw is not None:
            self._draw_guidance(self._draw)

    def _goes_on(self) -> bool:
        """True if an external agent is in the middle of its turn. The turn continues, and is recorded, even while the run is
        paused.
        """
        return self._inbox.is_paused and getattr(self._calls.model, "is_in_turn", False)

    async def final_answer(self, limit: Stop) -> None:
        """Tell the model that the limit has been reached, and request one more reply, without tools."""
        if not self._log.run.last_round.is_final:
            request_text = prompt(FINAL_ANSWER).replace("{{ limit }}", f"{limit.stop_reason}, {limit.limit:g}")
            news = news_of(self._endings, self._log.run)
            texts = [request_text] if news is None or news.message is None else [news.message, request_text]
            verdict = Continue(FINAL_ANSWER, is_news=news is not None)
            await self._final_round(self._round(verdict, "\n\n".join(texts)))

    def close_open(self, status: e.RoundStatus) -> None:
        """Answer every open call, and end the open round if there is one."""
        self._dispatch.answer_open_calls(time_is_up=self._lifecycle.time_is_up)
        Interludes(self._lifecycle, self._dispatch).close_open()
        self._todos.look()
        if self._log.run.open_round is not None:
            self._finish_round(status)

    def suspend(self, why: str) -> None:
        """Suspend the run once the running calls have ended; no-op if no gate is asking."""
        self._dispatch.suspend(why)

    async def _first_verdict(self) -> Verdict:
        """Return the first verdict, from the prompt or for the continuation of an interrupted run."""
        run = self._log.run
        if run.limit is not None:
            self._lifecycle.clock.stop()  # only the final answer, without a time limit, is missing
        if run.error is not None:
            self.close_open("error")
        if run.open_round is not None:
            await self._resume_round(run.open_round)
            self._todos.look()
        if self._draw is not None and not is_guidance_drawn(run):
            self._draw_guidance(self._draw)
        return resume_verdict(self._policies, run) if run.rounds else _PROMPT

    async def _resume_round(self, current: WorkflowRound) -> None:
        """Finish the round that was open when another process died."""
        is_last = current.is_final
        if (streamed := self._log.run.streamed_reply) is not None:
            message, metadata = streamed
            self._log.emit(e.ModelReplied, message=message, metadata=metadata, stop_reason=BROKEN_OFF, seconds=None)
            self._finish_round("error")
        elif current.stop_reason == BROKEN_OFF:
            self._finish_round("error")
        elif current.reply is None and is_last:
            await self._final_round(self._reply(may_call=False))
        elif current.reply is None:
            first = guidance_of_open_round(self._policies, self._log.run, current)
            self._guide(first, given=len(current.guidance))
            await self._reply(may_call=True)
        elif is_last:
            self.close_open("success")
        else:
            open_calls = [record.call for record in current.records if record.result is None]
            await self._dispatch.resume(open_calls, self._lifecycle.check_stop)
            self._finish_round("success" if current.records else self._status_of_answer())

    def _round(self, why: Continue, final_words: str = "") -> Coroutine[Any, Any, None]:
        """Begin a round, and return the coroutine for the rest of it.

        With ``final_words``, which are sent to the model, the round is the last, and no tool calls are allowed.
        """
        log, run = self._log, self._log.run
        self._round_started = perf_counter()
        last = run.last_finished_round
        is_told = why.is_news or (last is not None and not last.records and not run.pending)
        started = e.RoundStarted(
            log.seq,
            now(UTC),
            log.id,
            log.parent_id,
            index=next_round(run),
            reason=why.reason,
            before=why.round_status,
            continuation=(final_words or why.message or prompt("continue")) if is_told else "",
            note="" if final_words and is_told else final_words or self._note(run),
        )
        log.append(started)
        if not final_words:
            self._guide(why.guidance)
        return self._reply(may_call=not final_words)

    async def _reply(self, *, may_call: bool) -> None:
        """Get the model's reply in the open round and run its tool calls."""
        lifecycle = self._lifecycle
        lifecycle.check_stop()  # a watcher may have stopped the run on the event just logged
        try:
            calls = (await self._model_reply(may_call)).calls
        finally:
            lifecycle.settle()  # before its tools spend money, and even if the reply failed
        lifecycle.check_stop()
        if calls and may_call:
            await self._dispatch.run([*map(Call, calls)], lifecycle.check_stop)
        elif calls:
            self._dispatch.answer_open_calls()
        self._finish_round("success" if calls else self._status_of_answer())

    async def _model_reply(self, may_call: bool) -> Message:
        run = self._log.run
        if (reason := self._compactor.why_due()) is not None:
            await self._compactor.compact(reason)
        try:
            return await self._calls.reply(self._request_builder.request(run, ephemeral_text(run), may_call=may_call))
        except ContextOverflow:
            # No second request if text preceded the refusal: that text is now the end of the conversation.
            if run.last_round.reply is not None or not await self._compactor.after_overflow():
                raise
        return await self._calls.reply(self._request_builder.request(run, ephemeral_text(run), may_call=may_call))

    async def _final_round(self, answer: Coroutine[Any, Any, None]) -> None:
        """Await the final answer. If the model fails, the run ends without one."""
        try:
            await answer
        except ModelError as error:
            self.close_open("error")
            problem, advice = change_texts((error.what, error.advice), encodable)
            self._log.warn(f"No final answer: {problem}", advice)

    def _draw_guidance(self, draw: Draw) -> None:
        """Log the guidance set drawn for the next round; policies and guides read it from there."""
        if (drawn := draw(self._log.run)) is not None:
            self._log.emit(GuidanceDrawn, round=next_round(self._log.run), **drawn.as_logged)

    def _guide(self, first: Iterable[Guidance], given: int = 0) -> None:
        """Log the guidance for the next request: the policies' first, then the guides'.

        ``given``: number of items that are already logged.
        """
        log, guidance = self._log, [*first]
        run = log.run
        for guide in self._guides:
            guide_text = guide(run)
            if guide_text is not None:
                guidance.append(guide_text)
        for item in guidance[given:]:
            log.append(e.GuidanceGiven(log.seq, now(UTC), log.id, log.parent_id, guidance=item))

    def _status_of_answer(self) -> e.RoundStatus:
        last = self._log.run.last_round
        announced_calls = last.stop_reason in ASKED_FOR_TOOLS
        return "unexpected_empty_tools" if announced_calls and not last.text.strip() else "success"

    def _finish_round(self, status: e.RoundStatus) -> None:
        log, seconds = self._log, perf_counter() - self._round_started
        if self._budget.has_news:
            self._lifecycle.log_nested_usage()
        index = log.run.last_round.index
        log.append(e.RoundFinished(log.seq, now(UTC), log.id, log.parent_id, index=index, status=status, seconds=seconds))
        if self._has_detectors:
            log_findings(log)
