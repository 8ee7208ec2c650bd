"""Runs the tool calls of a reply in the order asked for: each gets exactly one result, however the round ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentnb.core.approvals import waiting_for_approval
from agentnb.core.display_data import Table
from agentnb.core.events import (
    CallBlocked,
    RoundStarted,
    RunRecovered,
    TodosChanged,
    ToolAdmitted,
    ToolFinished,
    ToolStarted,
    Warned,
)
from agentnb.core.inner_calls import with_inner
from agentnb.core.messages import Text, ToolCall, encodable
from agentnb.core.nesting import text_is_too_deep
from agentnb.core.todos import TODO_TOOL, headed_or_none
from agentnb.policies.gates import Block, Gate, denied, judge
from agentnb.runtime import tool_errors
from agentnb.runtime.approval import Approval, Permission, logged_permissions
from agentnb.runtime.earlier_answers import asked_by_tools
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.inside import InsideCalls, StartRun, cannot_start
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.todo_sync import TodoSync
from agentnb.runtime.tool_runner import Ran, ToolRunner
from agentnb.tools.tool import CallSync, Tool, ToolOutcome
from agentnb.tools.toolbox import Toolbox

PATIENCE = 0.15
"""Seconds that a cancelled tool gets to clean up before the run continues without it."""


@dataclass(slots=True)
class _InnerCall:
    """A call that a tool makes itself: the id of that tool's call, and the outcome once there is one."""

    call: ToolCall
    parent: str
    outcome: ToolOutcome | None = None


class _Turn:
    """The turns of the calls that one tool makes: those that are not parallel-safe run one by one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lock = asyncio.Lock()


MAX_INNER_DEPTH = 10
"""Calls that tools make of tools, one within the other."""


class Dispatch:
    """Dispatcher of a run's tool calls: judges, runs and answers them.

    Calls are judged and started in the order asked for, and each start is logged before the next call is judged. A call that
    is not ``parallel_safe`` starts when all before it have ended, and later calls are judged when it has ended. While it waits
    for the person (a gate asks, or its tool is ``blocking``), the parallel-safe calls right after it run all the same.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        log: EventLog,
        work_dir: Path,
        call_sync: CallSync,
        gates: Sequence[Gate] = (),
        todos: TodoSync | None = None,
        elicitation: Elicitation | None = None,
        start_run: StartRun = cannot_start,
        suspends: bool = False,
        can_suspend: bool = False,
    ) -> None:
        """``elicitation``: how the person is asked; ``start_run``: begins the nested runs of tools; ``suspends``: where a gate
        asks and nobody can answer, `Suspended` is raised when the calls that run have ended; ``can_suspend``: `suspend` does.
        """
        self._toolbox = toolbox
        self._log = log
        self._gates = gates
        self._todos = todos or TodoSync(None, log)
        elicitation = elicitation or Elicitation(log, can_ask=False)
        self._unanswered: set[str] = set()
        self._inside = InsideCalls(log, self._unanswered, self._call_inside, start_run)
        self._runner = ToolRunner(log, work_dir, call_sync, elicitation, self._inside)
        self._approval = Approval(log.run, elicitation, call_sync)
        self._suspends = suspends
        self._can_suspend = can_suspend or suspends
        self._elicitation = elicitation
        self._suspending = ""
        """Why the run is being suspended; empty if it is not."""
        self._edited: set[str] = set()
        """Ids of the calls whose arguments the person changed."""
        self._turns: dict[str, _Turn] = {}
        """By the id of a call: the turns of the calls that its tool makes."""
        self._inner: dict[str, _InnerCall] = {}
        """The calls that tools make themselves and that have no result, by id."""

    def run(self, calls: Sequence[ToolCall], check_stop: Callable[[], None]) -> Awaitable[None]:
        """Judge and run the calls.

        ``check_stop`` raises if the run was stopped: a tool that swallowed its cancellation must not be followed by another.
        """
        return self._run_in_order(calls, self._checking(check_stop), {}, frozenset())

    async def resume(self, calls: Sequence[ToolCall], check_stop: Callable[[], None]) -> None:
        """Answer the calls of the open round that were left open when another process died.

        Calls that were running are not run again unless their tool is repeatable: the model is told that they were
        interrupted, and what the person had answered them. Those that are run again get the same answers. Calls that were
        judged and had not started are run, when the question that they waited for is answered. The others are judged, and
        all of them if the person let nothing count of a log from elsewhere.
        """
        events = self._events_of_round()
        counting = _counting(events)
        started = {event.call.id: event for event in events if isinstance(event, ToolStarted)}
        is_own = len(counting) == len(events)
        asked = asked_by_tools(self._log.run, events)
        changed = {event.call_id for event in events if isinstance(event, TodosChanged)}
        self._edited.update(call_id for call_id, event in started.items() if event.edited)
        self._answer_inner(tool_errors.interrupted)
        left, again = [], set()
        for call in calls:
            # The todo list is restored from the log: a call without a logged change has had no effect.
            unchanged = call.name == TODO_TOOL and call.id not in changed
            if call.id not in started:
                left.append(call)
                continue
            self._unanswered.add(call.id)
            if call.id in changed:
                self._finish(call, Ran(ToolOutcome(True, (Text(headed_or_none(self._log.run.todos)),))))
            elif unchanged or (is_own and getattr(self._toolbox.get(call.name), "repeatable", False)):
                left.append(call)
                again.add(call.id)
                self._elicitation.remember(call.id, asked.get(call.id, ()))
            else:
                self._finish(call, Ran(tool_errors.interrupted(call.name, asked.get(call.id, ()))))
        await self._run_in_order(left, self._checking(check_stop), logged_permissions(counting), again)

    def _checking(self, check_stop: Callable[[], None]) -> Callable[[], None]:
        """Return the check between calls, which raises if the run was stopped or is to be suspended."""
        if not self._can_suspend:
            return check_stop

        def check() -> None:
            check_stop()
            if self._suspending:
                raise Suspended(self._suspending)

        return check

    def suspend(self, why: str) -> None:
        """Suspend the run when the calls that run have ended, and leave the questions of gates open. No-op without any.

        ``why``: ``asked`` or ``nobody_here``, for the log.
        """
        questions = waiting_for_approval(self._log.run.waiting, self._log.run.open_round) if self._can_suspend else []
        for question in questions:
            self._suspending = why
            self._elicitation.leave_open(question.id)

    def answer_open_calls(self, *, time_is_up: bool = False) -> None:
        """Answer every call of the open round that has no result: with why the run no longer waits for it."""
        current = self._log.run.open_round
        unfinished = tool_errors.out_of_time if time_is_up else tool_errors.cancelled
        if current is not None and current.is_final:
            unfinished = tool_errors.limit_reached
        left = self._still_running()
        self._answer_inner(lambda name: unfinished())
        for record in current.records if current else ():
            if record.result is None:
                self._unanswered.add(record.call.id)
                still_runs = record.call.id in left
                self._finish(record.call, Ran(tool_errors.still_running(unfinished()) if still_runs else unfinished()))
        if left:
            self._log.emit(Warned, message=tool_errors.left_behind(left.values()))

    def _still_running(self) -> dict[str, str]:
        """Return the names of the tools whose calls were given up and still run in a worker thread, by the calls' ids."""
        current = self._log.run.open_round
        records = [record for _, record in with_inner(current.records) if record.result is None] if current else []
        return {one.call.id: one.call.name for one in records if self._runner.still_runs(one.call.id)}

    def _answer_inner(self, outcome: Callable[[str], ToolOutcome]) -> None:
        """Answer every open call that a tool made itself."""
        current = self._log.run.open_round
        for parent, record in [*with_inner(current.records)][::-1] if current else ():
            if parent and record.result is None:
                self._unanswered.add(record.call.id)
                self._inner.setdefault(record.call.id, _InnerCall(record.call, parent))
                self._finish(record.call, Ran(outcome(record.call.name)))

    async def _call_inside(self, parent: str, name: str, arguments: Any) -> ToolOutcome:
        """Run a call that a tool makes itself."""
        if parent not in self._unanswered:
            raise asyncio.CancelledError("The call has ended")
        if self._inner_depth(parent) >= MAX_INNER_DEPTH:
            return tool_errors.too_many_levels(name, MAX_INNER_DEPTH)
        tool, turn = self._toolbox.get(name), self._turns.setdefault(parent, _Turn(self._count_inner(parent)))
        async with nullcontext() if _runs_beside_others(tool) else turn.lock:
            turn.count += 1
            call = ToolCall(encodable(name), arguments, f"{parent}.{turn.count}")
            inner = self._inner[call.id] = _InnerCall(call, parent)
            work, _ = self._begin(call, tool, {}, False)
            if work is not None:
                await work
        if inner.outcome is None:  # the run was stopped
            raise asyncio.CancelledError("The call has ended")
        return inner.outcome

    def _inner_depth(self, call_id: str) -> int:
        """Return how many calls of tools, one within the other, led to this call."""
        depth = 0
        while (inner := self._inner.get(call_id)) is not None:
            call_id, depth = inner.parent, depth + 1
        return depth

    def _count_inner(self, parent: str) -> int:
        """Return how many calls this call has made so far, also in a process that died."""
        current = self._log.run.open_round
        return sum(above == parent for above, _ in with_inner(current.records)) if current else 0

    async def _run_in_order(
        self,
        calls: Sequence[ToolCall],
        check_stop: Callable[[], None],
        judged: dict[str, Permission | None],
        started: frozenset[str] | set[str],
    ) -> None:
        """Run the calls. ``judged``: those that no gate is asked about again; ``started``: those that are run once more."""
        self._inside.loop = asyncio.get_running_loop()
        if len(calls) == 1:  # the usual case: nothing runs beside it
            call = calls[0]
            work, _ = self._begin(call, self._toolbox.get(call.name), judged, call.id in started)
            if work is not None:
                await work
                check_stop()
            return
        tasks: list[asyncio.Task[None]] = []
        try:
            for place, call in enumerate(calls):
                tool = self._toolbox.get(call.name)
                is_safe = _runs_beside_others(tool)
                if tasks and not is_safe:
                    await _ended(tasks)
                    check_stop()
                work, waits = self._begin(call, tool, judged, call.id in started)
                if work is None:
                    continue
                if (is_safe or waits) and (tasks or place + 1 < len(calls)):
                    tasks.append(asyncio.ensure_future(work))
                else:
                    await work
                    check_stop()
            if tasks:
                await _ended(tasks)
                check_stop()
        finally:
            if tasks:
                await _cancelled(tasks)

    def _begin(
        self, call: ToolCall, tool: Tool | None, judged: dict[str, Permission | None], is_started: bool
    ) -> tuple[Coroutine[Any, Any, None] | None, bool]:
        """Judge the call and log its start. Return what is left to await, if anything, and whether it waits for the person."""
        waits = tool is not None and tool.blocking
        if is_started:
            return self._run_one(call, tool), waits
        permission = None
        if call.id in judged:
            permission = judged[call.id]
        elif (verdict := self._judge(call)) is not None:
            if isinstance(verdict, Block):
                self._block(call, verdict)
                return None, False
            if not self._refusal(call, tool):
                permission = Permission.of(verdict)
                self._log.emit(ToolAdmitted, call=call, reason=permission.rule, parent_call=self._parent_of(call))
        self._unanswered.add(call.id)
        if permission is not None:
            return self._run_if_approved(call, tool, permission), True
        # A tool gets the arguments as logged, redacted.
        parent_call = self._parent_of(call) if self._inner else ""
        seq, at, run_id, parent_id = self._log.head()
        call = self._log.append(ToolStarted(seq, at, run_id, parent_id, call=call, parent_call=parent_call)).call
        if (refusal := self._refusal(call, tool)) is not None:
            self._finish(call, Ran(refusal))
            return None, False
        return self._run_one(call, tool), waits

    def _judge(self, call: ToolCall) -> Any:
        if call.name == TODO_TOOL:
            self._todos.look()  # the gates need the current list
        return judge(self._gates, call, self._log.run)

    def _refusal(self, call: ToolCall, tool: Tool | None) -> ToolOutcome | None:
        """Return the result of a call that cannot be run at all."""
        if tool is None:
            return self._toolbox.not_found(call.name)
        if type(call.arguments) is str and text_is_too_deep(call.arguments):
            return tool_errors.too_deep(call.name)
        return None

    async def _run_if_approved(self, call: ToolCall, tool: Tool | None, permission: Permission) -> None:
        suspends = self._suspends and call.id not in self._inner  # a question from inside a tool cannot wait so long
        decision = await self._approval.ask(call, permission, suspends=suspends)
        if decision is None:
            self._suspending = self._suspending or "nobody_here"
            return
        if not decision.approved:
            self._block(call, denied(call, permission.rule, decision.reason))
            return
        edited = decision.arguments is not None
        allowed = replace(call, arguments=decision.arguments) if edited else call
        verdict = self._judge(allowed)  # other arguments may be denied, or a limit was reached meanwhile
        if isinstance(verdict, Block):
            self._block(call, verdict)
            return
        if edited:
            self._edited.add(call.id)
        started = self._log.emit(ToolStarted, call=allowed, edited=edited, parent_call=self._parent_of(call))
        await self._run_one(started.call, tool)

    def _block(self, call: ToolCall, block: Block) -> None:
        self._unanswered.discard(call.id)
        told = block.result
        parent = self._ended_inside(call, ToolOutcome(False, told.parts, error_code=told.error_code))
        self._log.emit(CallBlocked, call=call, result=told, rule=block.rule, parent_call=parent)

    async def _run_one(self, call: ToolCall, tool: Tool | None) -> None:
        if tool is None:  # it was there when the call was begun, in the process that died
            self._finish(call, Ran(self._toolbox.not_found(call.name)))
            return
        ran = await self._runner.run(call, tool)
        if call.name == TODO_TOOL:
            self._todos.called(ran.outcome, call.id)
        self._finish(call, ran)

    def _finish(self, call: ToolCall, ran: Ran) -> None:
        call_id = call.id
        if call_id not in self._unanswered:
            return  # too late: the tool had ignored its cancellation
        outcome, parent = ran.outcome, ""
        if self._inner:
            for inner in [one for one in self._inner.values() if one.parent == call_id]:  # its tool did not wait for them
                self._finish(inner.call, Ran(tool_errors.cancelled()))
        self._unanswered.discard(call_id)
        if call_id in self._edited:
            outcome = tool_errors.edited(outcome, call)
        if self._inner:
            parent = self._ended_inside(call, outcome)
        result = outcome.as_result(call_id, call.name)
        display = outcome.display.mapped(encodable) if isinstance(outcome.display, Table) else None
        seq, at, run_id, parent_id = self._log.head()
        finished = ToolFinished(
            seq,
            at,
            run_id,
            parent_id,
            result=result,
            seconds=ran.seconds,
            traceback=ran.traceback,
            display=display,
            progress=self._inside.close(call_id),
            parent_call=parent,
            printed=self._inside.close_prints(call_id),
        )
        self._log.append(finished)
        if self._turns:
            self._turns.pop(call_id, None)

    def _parent_of(self, call: ToolCall) -> str:
        """Return the id of the call whose tool made this one; empty if the model made it."""
        inner = self._inner.get(call.id)
        return "" if inner is None else inner.parent

    def _ended_inside(self, call: ToolCall, outcome: ToolOutcome) -> str:
        """Hand the outcome of a call to the tool that made it, if one did. Return the id of that tool's call."""
        inner = self._inner.pop(call.id, None)
        if inner is None:
            return ""
        inner.outcome = outcome
        return inner.parent

    def _events_of_round(self) -> list[Any]:
        """Return the events of the open round."""
        events: list[Any] = []
        for event in reversed(self._log.run.events):
            if isinstance(event, RoundStarted):
                break
            events.append(event)
        return events[::-1]


def _counting(events: list[Any]) -> list[Any]:
    """Return those of the events that were not logged elsewhere before the person said that nothing of that log counts."""
    refused = [place for place, event in enumerate(events) if isinstance(event, RunRecovered) and event.consent == "refused"]
    return events[refused[-1] :] if refused and refused[-1] else events


def _runs_beside_others(tool: Tool | None) -> bool:
    return tool is None or (tool.parallel_safe and not tool.blocking)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until all have ended, or one has failed, and forget them."""
    # Not gather: when cancelled, it would wait for tools that ignore their cancellation.
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
    tasks.clear()


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel those that still run, and give them a moment to clean up."""
    unfinished = [task for task in tasks if not task.done()]
    for task in unfinished:
        task.cancel()
    if unfinished:
        await asyncio.wait(unfinished, timeout=PATIENCE)
