"""Runs the tool calls of a reply in order. Each call gets exactly one result, however the round ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from agentnb.core.log.events import TodosChanged, ToolAdmitted, ToolStarted, Warned
from agentnb.core.messages import Text, ToolCall
from agentnb.core.run.approvals import waiting_for_approval
from agentnb.core.todos import TODO_TOOL, format_or_none
from agentnb.runtime.calls.call import Call
from agentnb.runtime.calls.tool_calls import ToolCalls, runs_beside_others
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.consent import since_refusal
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.questions.question_book import asked_by_tools, since_start
from agentnb.runtime.run_end import Suspended
from agentnb.tools import tool_errors
from agentnb.tools.tool import CallServices, ToolOutcome

PATIENCE = 0.15
"""Seconds that a cancelled run has to clean up before it ends without waiting for tasks that ignore the cancellation."""
PATIENCE_WITH_PART = 2 * PATIENCE
"""Seconds that a cancelled call or step has to clean up before its run continues without it; longer than `PATIENCE`, so that
nested runs end first.
"""


class Dispatch:
    """Dispatches the tool calls in replies.

    Calls are judged and started in the order of the reply, and each start is logged before the next call is judged. A
    call that is not ``parallel_safe`` starts when all earlier calls have ended, and later calls are judged when it
    has ended. While it waits for the person (a gate asks, or its tool is ``blocking``), the parallel-safe calls right
    after it still run.
    """

    def __init__(self, log: EventLog, calls: ToolCalls, elicitation: Elicitation, *, can_suspend: bool = False) -> None:
        """``can_suspend``: whether the run may be suspended.

        `Suspended` is raised once the running calls have ended.
        """
        self._log = log
        self._calls = calls
        self._elicitation = elicitation
        self._can_suspend = can_suspend
        self.suspending = ""
        """Reason for the suspension in progress, or empty."""

    def services(self) -> CallServices:
        """Return the run's services for work done outside tool calls."""
        self._calls.inside.loop = asyncio.get_running_loop()
        return self._calls.inside

    async def run(self, calls: Sequence[Call], check_stop: Callable[[], None]) -> None:
        """Judge and run the calls.

        ``check_stop`` raises if the run was stopped: no further call may follow a tool that has swallowed its
        cancellation.
        """
        if self._can_suspend:
            check_stop = partial(self._check, check_stop)
        if len(calls) == 1:  # the usual case: nothing runs in parallel
            calls[0].tool = self._calls.tools.get(calls[0].made.name)
            work = self._calls.begin(calls[0])
            if work is not None:
                await work
                check_stop()
            return
        tasks: list[asyncio.Task[None]] = []
        try:
            for position, call in enumerate(calls):
                call.tool = self._calls.tools.get(call.made.name)  # earlier calls may have changed the tools
                is_safe = runs_beside_others(call.tool)
                if tasks and not is_safe:
                    await _wait_for(tasks)
                    check_stop()
                work = self._calls.begin(call)
                if work is None:
                    continue
                if (is_safe or call.waits_for_person) and (tasks or position + 1 < len(calls)):
                    tasks.append(asyncio.ensure_future(work))
                else:
                    await work
                    check_stop()
            if tasks:
                await _wait_for(tasks)
                check_stop()
        finally:
            if tasks:
                await _cancel(tasks)

    async def resume(self, calls: Sequence[ToolCall], check_stop: Callable[[], None]) -> None:
        """Answer the calls of the open round that were left open by a process that died.

        Calls that were running are run again only if their tool is repeatable; otherwise the model gets an error result that
        names the interruption and the person's answers. A repeated call gets the same answers. Calls that had been judged but
        not started are run once their question is answered. The others are judged; so are all calls if the person rejected the
        earlier entries of a log from elsewhere.
        """
        events, book = since_start(self._log.run.events), self._elicitation.book
        logged = since_refusal(events)
        book.recall(logged)
        started = {event.call.id: event for event in events if isinstance(event, ToolStarted)}
        is_own = len(logged) == len(events)
        asked = asked_by_tools(self._log.run, events)
        changed = {event.call_id for event in events if isinstance(event, TodosChanged)}
        current = self._log.run.open_round
        self._calls.answer_inner(current.records if current is not None else (), tool_errors.interrupted)
        pending: list[Call] = []
        # Early versions also logged admission of calls without a question.
        admitted = {event.call.id for event in logged if isinstance(event, ToolAdmitted) and not event.reason}
        for requested in calls:
            call = Call(requested)
            # The todo list is restored from the log: a call without a logged change had no effect.
            unchanged = requested.name == TODO_TOOL and requested.id not in changed
            if requested.id not in started:
                call.question = book.permission_of(requested.id)
                if call.question is not None or requested.id in admitted:
                    call.state = "judged"
                pending.append(call)
                continue
            call.state, call.started, call.is_edited = "started", requested, started[requested.id].edited
            self._calls.reopen(call)
            if requested.id in changed:
                self._calls.finish(call, ToolOutcome(True, (Text(format_or_none(self._log.run.todos)),)))
            elif unchanged or (is_own and getattr(self._calls.tools.get(requested.name), "repeatable", False)):
                pending.append(call)
            else:
                self._calls.finish(call, tool_errors.interrupted(requested.name, asked.get(requested.id, ())))
        await self.run(pending, check_stop)

    def _check(self, check_stop: Callable[[], None]) -> None:
        """Between calls, raise an exception if the run is to be suspended or was stopped."""
        if self._calls.waits_for_person or self.suspending:
            raise Suspended(self.suspending or "nobody_here")
        check_stop()

    def suspend(self, why: str) -> None:
        """Suspend the run once its running calls have ended; questions from gates and drafts stay open. No-op if
        nothing is waiting.

        ``why``: ``asked`` or ``nobody_here``, for the log.
        """
        questions = waiting_for_approval(self._log.run) if self._can_suspend else []
        for question in questions:
            self.suspending = why
            self._elicitation.leave_open(question.id)

    def answer_open_calls(self, *, time_is_up: bool = False) -> None:
        """Add an error result to every unanswered call of the open round."""
        current = self._log.run.open_round
        unfinished = tool_errors.out_of_time if time_is_up else tool_errors.cancelled
        if current is not None and current.is_final:
            unfinished = tool_errors.limit_reached
        records = current.records if current else ()
        running = self._calls.still_running(records)
        self._calls.answer_inner(records, lambda name: unfinished())
        for record in records:
            if record.result is None:
                still_runs = record.call.id in running
                self._calls.answer(record.call, tool_errors.with_running_note(unfinished()) if still_runs else unfinished())
        self._calls.close_steps()
        if running:
            self._log.emit(Warned, message=tool_errors.unstoppable_message(running.values()))


async def _wait_for(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until all tasks have ended or one has failed, and clear the list."""
    # Not gather: when cancelled, it waits for tools that ignore their cancellation.
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
    tasks.clear()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the unfinished tasks, and give them a moment to clean up."""
    unfinished = [task for task in tasks if not task.done()]
    for task in unfinished:
        task.cancel()
    if unfinished:
        await asyncio.wait(unfinished, timeout=PATIENCE_WITH_PART)
