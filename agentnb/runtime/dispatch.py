"""Runs the tool calls of a reply: each gets exactly one result, however the round ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter

from agentnb.core.display_data import Table
from agentnb.core.events import CallBlocked, RoundStarted, TodosChanged, ToolFinished, ToolStarted
from agentnb.core.messages import Text, ToolCall, encodable
from agentnb.core.nesting import text_is_too_deep
from agentnb.core.todos import TODO_TOOL, headed_or_none
from agentnb.errors import NotAnswered
from agentnb.policies.gates import Gate, admitted
from agentnb.runtime import tool_errors
from agentnb.runtime.elicitation import CallElicitor, Elicitation
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.threads import time_limit
from agentnb.runtime.todo_sync import TodoSync
from agentnb.tools.tool import CallSync, Tool, ToolContext, ToolOutcome
from agentnb.tools.toolbox import Toolbox

PATIENCE = 0.15
"""Seconds that a cancelled tool gets to clean up before the run continues without it."""


class Dispatch:
    """Dispatcher of a run's tool calls: admits, runs and answers them."""

    def __init__(
        self,
        toolbox: Toolbox,
        log: EventLog,
        work_dir: Path,
        call_sync: CallSync,
        gates: Sequence[Gate] = (),
        todos: TodoSync | None = None,
        elicitation: Elicitation | None = None,
    ) -> None:
        """``elicitation``: how tools ask the person."""
        self._toolbox = toolbox
        self._log = log
        self._work_dir = work_dir
        self._call_sync = call_sync
        self._gates = gates
        self._todos = todos or TodoSync(None, log)
        self._elicitation = elicitation or Elicitation(log, can_ask=False)
        self._unanswered: set[str] = set()

    def run(self, calls: Sequence[ToolCall], check_stop: Callable[[], None]) -> Awaitable[None]:
        """Admit all calls in order, then run them: those that wait for the person, then the sequential, then the parallel ones.

        ``check_stop`` raises if the run was stopped: a tool that swallowed its cancellation must not be followed by another.
        """
        return self._run_admitted([call for call in calls if self._admit(call)], check_stop)

    async def _run_admitted(self, calls: Sequence[ToolCall], check_stop: Callable[[], None]) -> None:
        together: list[tuple[ToolCall, Tool]] = []
        for call, tool in self._in_turn(calls):
            if tool is None:
                self._finish(call, self._toolbox.not_found(call.name))
            elif type(call.arguments) is str and text_is_too_deep(call.arguments):
                self._finish(call, tool_errors.too_deep(call.name))
            elif _runs_beside_others(tool):
                together.append((call, tool))
            else:
                await self._run_one(call, tool)
                check_stop()
        if together:
            await (self._run_together(together) if len(together) > 1 else self._run_one(*together[0]))
            check_stop()

    async def resume(self, calls: Sequence[ToolCall], check_stop: Callable[[], None]) -> None:
        """Answer the calls of the open round that were left open when another process died.

        Calls that were running are not run again unless their tool is repeatable: the model is told that they were
        interrupted. Calls that had not begun, or were queued, are run. Calls already admitted are neither checked by the gates
        nor counted again.
        """
        begun, changed = self._begun()
        running = self._running([call for call in calls if call.id in begun])
        admitted = []
        for call in calls:
            if call.id not in begun:
                admitted += [call] if self._admit(call) else []
                continue
            self._unanswered.add(call.id)
            # The todo list is restored from the log: a call without a logged change has had no effect.
            unchanged = call.name == TODO_TOOL and call.id not in changed
            if call.id in changed:
                self._finish(call, ToolOutcome(True, (Text(headed_or_none(self._log.run.todos)),)))
            elif call.id not in running or unchanged or getattr(self._toolbox.get(call.name), "repeatable", False):
                admitted.append(call)
            else:
                self._finish(call, tool_errors.interrupted(call.name))
        await self._run_admitted(admitted, check_stop)

    def _running(self, admitted: list[ToolCall]) -> set[str]:
        """Return which of these unanswered calls were running when the process died: the first sequential one, or else all
        parallel ones, which run after those.
        """
        for call, tool in self._in_turn(admitted):
            if tool is not None and not _runs_beside_others(tool):
                return {call.id}
        return {call.id for call in admitted}

    def _begun(self) -> tuple[set[str], set[str]]:
        """Return the ids of the open round's admitted calls, and of those that changed the todo list."""
        begun: set[str] = set()
        changed: set[str] = set()
        for event in reversed(self._log.run.events):
            if isinstance(event, RoundStarted):
                break
            if isinstance(event, ToolStarted):
                begun.add(event.call.id)
            elif isinstance(event, TodosChanged):
                changed.add(event.call_id)
        return begun, changed

    def _admit(self, call: ToolCall) -> bool:
        """Pass the call through the gates and log the verdict before the next call. A blocked call gets its result at once."""
        if call.name == TODO_TOOL:
            self._todos.look()  # the gates need the current list
        block = admitted(self._gates, call, self._log.run)
        if block is not None:
            self._log.emit(CallBlocked, call=call, result=block.result, rule=block.rule)
            return False
        self._unanswered.add(call.id)
        self._log.emit(ToolStarted, call=call)
        return True

    def answer_open_calls(self) -> None:
        """Answer every call of the open round that has no result as cancelled."""
        current = self._log.run.open_round
        for record in current.records if current else ():
            if record.result is None:
                self._unanswered.add(record.call.id)
                self._finish(record.call, tool_errors.cancelled())

    def _in_turn(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, Tool | None]]:
        found = [(call, self._toolbox.get(call.name)) for call in calls]
        if len(found) > 1:
            found.sort(key=lambda pair: pair[1] is None or not pair[1].blocking)
        return found

    async def _run_together(self, together: list[tuple[ToolCall, Tool]]) -> None:
        tasks = [asyncio.ensure_future(self._run_one(call, tool)) for call, tool in together]
        try:
            # Not gather: when cancelled, it would wait for tools that ignore their cancellation.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            unfinished = [task for task in tasks if not task.done()]
            for task in unfinished:
                task.cancel()
            if unfinished:
                await asyncio.wait(unfinished, timeout=PATIENCE)

    async def _run_one(self, call: ToolCall, tool: Tool) -> None:
        asker = self._elicitation.asker(call.id)
        context = ToolContext(self._log.run.id, call.id, self._work_dir, self._call_sync, asker)
        traceback = ""
        started = perf_counter()
        try:
            if tool.timeout is None:
                outcome = await tool.run(call.arguments, context)
            else:
                outcome = await _within(tool.timeout, tool, call, context, asker)
        except NotAnswered as error:
            outcome = tool_errors.not_answered(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            outcome, traceback = tool_errors.raised(call.name, error), tool_errors.users_traceback(error)
        except GeneratorExit:
            raise
        except BaseException as error:
            # SystemExit too: a tool that calls exit() must not take the kernel with it.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            outcome, traceback = tool_errors.raised(call.name, error), tool_errors.users_traceback(error)
        finally:
            asker.close()
        self._elicitation.check()
        seconds = perf_counter() - started - asker.waited
        if call.name == TODO_TOOL:
            self._todos.called(outcome, call.id)
        self._finish(call, outcome, seconds, traceback)

    def _finish(self, call: ToolCall, outcome: ToolOutcome, seconds: float = 0.0, traceback: str = "") -> None:
        if call.id not in self._unanswered:
            return  # too late: the tool had ignored its cancellation
        self._unanswered.discard(call.id)
        result = outcome.as_result(call.id, call.name)
        display = outcome.display.mapped(encodable) if isinstance(outcome.display, Table) else None
        self._log.emit(ToolFinished, result=result, seconds=seconds, traceback=traceback, display=display)


def _runs_beside_others(tool: Tool) -> bool:
    return tool.parallel_safe and not tool.blocking


async def _within(seconds: float, tool: Tool, call: ToolCall, context: ToolContext, asker: CallElicitor) -> ToolOutcome:
    try:
        async with asyncio.timeout(seconds) as limit:
            time_limit.set(limit)  # held while a plain tool waits for its thread
            asker.limit = limit  # and while it waits for the person
            return await tool.run(call.arguments, context)
    except TimeoutError:
        if not limit.expired():
            raise  # the tool's own
        return tool_errors.timed_out(call.name, seconds)
    finally:
        time_limit.set(None)
