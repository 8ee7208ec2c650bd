"""The single path to a tool, for any caller: judges a call, asks the person, runs the tool and logs the call's one result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import nullcontext
from datetime import UTC
from functools import partial
from typing import Any

from msgspec.structs import replace

from agentnb.core.display_data import Table
from agentnb.core.log.events import CallBlocked, ToolAdmitted, ToolFinished, ToolStarted
from agentnb.core.log.work_events import ContextShifted
from agentnb.core.messages import ToolCall, encodable
from agentnb.core.questions import WaitingOnUser
from agentnb.core.redaction import redact
from agentnb.core.run.approvals import Decision
from agentnb.core.run.inner_calls import count_of, with_inner
from agentnb.core.run.rounds import CallRecord
from agentnb.core.schema.nesting import text_is_too_deep
from agentnb.core.todos import TODO_TOOL
from agentnb.policies.gates import Ask, Block, Gate, deny, judge
from agentnb.policies.gates.gate_verdicts import AskByRules
from agentnb.policies.permissions.gate import PermissionGate
from agentnb.runtime.calls.approval import (
    KEEPS_CHANGING,
    Approval,
    approval_question,
    is_of_this_tool,
    is_outdated,
    refresh_question,
)
from agentnb.runtime.calls.call import Call
from agentnb.runtime.calls.call_reports import NOTHING_REPORTED
from agentnb.runtime.calls.context_services import ContextServices, RunSteps
from agentnb.runtime.calls.context_shift import ContextShift, shift_of
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.calls.todo_sync import TodoSync
from agentnb.runtime.calls.tool_runner import ToolRunner
from agentnb.runtime.event_log import now
from agentnb.runtime.replies.side_calls import SideModels
from agentnb.tools import tool_errors
from agentnb.tools.tool import Tool, ToolOutcome

MAX_CHANGES = 10
"""Maximum number of questions about one call, if its file keeps changing before the answer arrives."""
MAX_INNER_DEPTH = 10
"""Maximum depth of tool calls made by tools."""


class ToolCalls:
    """The tool calls of one run."""

    def __init__(
        self,
        context: RunContext,
        tools: RunTools,
        gates: Sequence[Gate] = (),
        *,
        todos: TodoSync | None = None,
        tool_seconds: float | None = None,
        context_name: Callable[[str], str] = str,
        own_gates: Sequence[Gate] = (),
        models: SideModels | None = None,
        steps: RunSteps | None = None,
    ) -> None:
        """``tool_seconds``: default time limit of a call, excluding nested runs, or None for no limit.
        ``context_name``: returns the name of a conversation's context, given its name or an alias. ``own_gates``: the
        person's gates, which also judge the calls of the run's steps. ``models``: models for side requests of tools.
        ``steps``: the run's steps that are nested runs.
        """
        log = self._log = context.log
        elicitation = self._elicitation = context.elicitation
        self.tools = tools
        self._gates = gates
        self._todos = todos or TodoSync(None, log)
        self._open: dict[str, Call] = {}
        """Running calls, by id, for reports from threads and for records in the log."""
        self.inside = ContextServices(context, self, tools, self._open, own_gates=own_gates, models=models, steps=steps)
        self._permission_gate = PermissionGate(elicitation.permissions, context.work_dir, elicitation.confirms)
        self._runner = ToolRunner(context, self._permission_gate, self.inside, tool_seconds)
        self._grants = elicitation.grants
        self._work_dir, self._call_sync = context.work_dir, context.call_sync
        self._context_name = context_name
        self._suspends = elicitation.suspends
        self._steps = steps
        self.waits_for_person = False
        """True if a call stays open because nobody could answer its question."""

    def begin(self, call: Call) -> Coroutine[Any, Any, None] | None:
        """Judge the call and log its start. Return the remaining work to await, if any."""
        self.inside.loop = asyncio.get_running_loop()
        requested, tool, asked = call.made, call.tool, call.question
        verdict: Ask | None = None
        if asked is None or not is_of_this_tool(asked, tool):
            to_run = call.started or requested  # the person may have changed its arguments in an earlier process
            judged = self._judge(to_run, tool, again=call.state != "proposed")  # the permissions may have changed
            if isinstance(judged, Block):
                self.refuse(call, judged)
                return None
            asked, verdict = None, judged
        is_asked = asked is not None or verdict is not None
        can_run = tool is not None and not is_asked and type(requested.arguments) is not str  # true of nearly all calls
        refusal = None if can_run else self._refusal(requested, tool, checks=is_asked)
        if refusal is not None or (asked is None and (is_asked or self._elicitation.book.earlier)):
            asked = self._question(call, verdict if refusal is None else None)
        self._open[requested.id] = call
        if asked is not None and tool is not None:
            call.state = "asked"
            return self._run_if_approved(call, tool, asked)
        self._start(call)
        if tool is None or refusal is not None:
            self.finish(call, refusal or self.tools.not_found(requested.name))
            return None
        return self._run(call, tool)

    async def run(self, call: Call) -> None:
        """Run a call to its end."""
        work = self.begin(call)
        if work is not None:
            await work

    def refuse(self, call: Call, block: Block) -> None:
        """Log that this verdict has blocked a call."""
        result = block.result
        call.state, call.block = "ended", block
        call.outcome = ToolOutcome(False, result.parts, error_code=result.error_code)
        self._open.pop(call.made.id, None)
        blocked, parent_call, step = call.started or call.made, call.parent_call, call.step
        self._log.emit(CallBlocked, call=blocked, result=result, rule=block.rule, parent_call=parent_call, step=step)
        if (reject := getattr(call.tool, "reject_call", None)) is not None:  # its maker waits for the verdict
            reject(call.made.id)

    def reopen(self, call: Call) -> None:
        """Take over a call that was started by a process that died."""
        self._open[call.made.id] = call

    def close(self, step: str, outcome: ToolOutcome) -> None:
        """Log the result of a step's open call that nothing awaits. No-op if the call has ended."""
        opened = self._log.run.open_step_call(step)
        if opened is not None:
            self.answer_inner((opened.record,), lambda name: outcome)
            self.answer(opened.record.call, outcome, step=opened.step)

    def close_steps(self) -> None:
        """Log the end of all open steps of an agent's run."""
        if self._steps is not None:
            self._steps.close_open()

    def still_running(self, records: Iterable[CallRecord]) -> dict[str, str]:
        """Return the tool names, by call id, of open calls that were abandoned but still run in a worker thread."""
        logged = [record.call for _, record in with_inner(tuple(records)) if record.result is None]
        return {call.id: call.name for call in logged if call.id in self._open and self._open[call.id].still_runs}

    def answer_inner(self, records: Iterable[CallRecord], outcome: Callable[[str], ToolOutcome]) -> None:
        """Answer all open calls made by the tools of these calls. ``outcome``: returns the result for a tool name."""
        for parent, record in [*with_inner(tuple(records))][::-1]:
            if parent and record.result is None:
                self.answer(record.call, outcome(record.call.name), parent_call=parent)

    def answer(self, made: ToolCall, outcome: ToolOutcome, *, parent_call: str = "", step: str = "") -> None:
        """Log the result of a call that is open in the log, whichever process started it."""
        self.finish(self._open.get(made.id) or Call(made, parent_call=parent_call, step=step), outcome)

    def finish(self, call: Call, outcome: ToolOutcome, seconds: float = 0.0, traceback: str = "") -> None:
        """Log the one result of a call; no-op if the call has already ended, for example because its tool ignored the
        cancellation.
        """
        if call.state == "ended":
            return
        logged = call.started or call.made
        if call.turn is not None:  # its tool has made calls
            for inner in [call for call in self._open.values() if call.parent_call == logged.id]:
                self.finish(inner, tool_errors.cancelled())  # its tool did not wait for them
        if call.is_edited:
            outcome = tool_errors.with_edit_note(outcome, logged)
        call.state, call.outcome = "ended", outcome
        self._open.pop(logged.id, None)
        with self.inside.lock:  # also without reports: a thread that holds the lock may add the first
            reports = call.reports
        reported = NOTHING_REPORTED if reports is None else reports.close()
        log = self._log
        finished = ToolFinished(
            log.seq,
            now(UTC),
            log.id,
            log.parent_id,
            result=outcome.as_result(logged.id, logged.name),
            seconds=seconds,
            traceback=traceback,
            display=outcome.display.map_texts(encodable) if isinstance(outcome.display, Table) else None,
            progress=reported.progress,
            parent_call=call.parent_call,
            printed=reported.printed,
            step=call.step,
            nested=reported.nested,
        )
        log.append(finished)

    def _start(self, call: Call) -> None:
        """Log the start of a call, unless an earlier process has done so. Its tool gets the arguments as logged, redacted."""
        call.state = "started"
        if call.started is None:
            log, edited, parent_call, step = self._log, call.is_edited, call.parent_call, call.step
            seq, at, run_id, parent_id = log.seq, now(UTC), log.id, log.parent_id
            started = ToolStarted(seq, at, run_id, parent_id, call=call.made, edited=edited, parent_call=parent_call, step=step)
            call.started = log.append(started).call

    async def call_inside(self, parent: str, name: str, arguments: Any) -> ToolOutcome:
        """Run a call made by a tool."""
        outer = self._open.get(parent)
        if outer is None:
            raise asyncio.CancelledError("The call has ended")
        if outer.depth >= MAX_INNER_DEPTH:
            return tool_errors.too_many_levels(name, MAX_INNER_DEPTH)
        if outer.turn is None:
            outer.turn, outer.inner_count = asyncio.Lock(), count_of(self._log.run, parent)
        async with nullcontext() if runs_beside_others(self.tools.get(name)) else outer.turn:
            if outer.state == "ended":  # while this call waited for its turn
                raise asyncio.CancelledError("The call has ended")
            outer.inner_count += 1
            call = ToolCall(encodable(name), arguments, f"{parent}.{outer.inner_count}")
            inner = Call(call, self.tools.get(name), parent, depth=outer.depth + 1)
            await self.run(inner)
        if inner.outcome is None:  # the run was stopped
            raise asyncio.CancelledError("The call has ended")
        return inner.outcome

    def _judge(self, made: ToolCall, tool: Tool | None, *, again: bool = False) -> Ask | Block | None:
        """Return the verdict of the gates and the permissions on a call. ``again``: consult only the permissions."""
        run = self._log.run
        permitted = (partial(self._permission_gate, tool),)  # applied after all gates
        if again:  # the verdict of other gates holds: they may count calls
            return judge(permitted, made, run)
        if made.name == TODO_TOOL:
            self._todos.look()  # the gates need the current list
        if run.has_grants:
            self._grants.update()
        verdict = judge((*self._gates, *permitted), made, run)
        if isinstance(verdict, AskByRules) and self._grants.update():  # new grants may come from outside at any time
            return judge((*self._gates, *permitted), made, run)
        return verdict

    def _question(self, call: Call, verdict: Ask | None) -> WaitingOnUser | None:
        """Return a gate's question about a call, if any; log that the call waits, unless the question was asked before."""
        requested, question = call.made, None
        if verdict is not None and call.tool is not None:
            surroundings: dict[str, Any] = {"reaching": self._grants, "keeps_files": self._log.keeps_files}
            question = approval_question(verdict, requested, call.tool, self._work_dir, **surroundings)
        book = self._elicitation.book
        if question is None or book.find_expected(question) is None:
            book.drop_permission(requested.id)
            if question is not None:
                reason = _rule_of(question)
                self._log.emit(ToolAdmitted, call=requested, reason=reason, parent_call=call.parent_call, step=call.step)
        return question

    def _refusal(self, call: ToolCall, tool: Tool | None, *, checks: bool) -> ToolOutcome | None:
        """Return the error result of a call that cannot run at all.

        ``checks``: whether to check the arguments before the person is asked about them; if there is no question, the tool
        checks them.
        """
        if tool is None:
            return self.tools.not_found(call.name)
        if type(call.arguments) is str and text_is_too_deep(call.arguments):
            return tool_errors.too_deep(call.name)
        check = getattr(tool, "refusal", None) if checks else None
        return None if check is None else check({} if call.arguments is None else redact(call).arguments)

    async def _run_if_approved(self, call: Call, tool: Tool, question: WaitingOnUser) -> None:
        # A question from inside a tool cannot wait that long.
        requested, suspends = call.made, self._suspends and not call.parent_call
        approval = Approval(self._log.run, self._elicitation, self._call_sync)
        decision = await approval.ask(requested, question, suspends=suspends)
        for _ in range(MAX_CHANGES):
            is_made = decision is not None and decision.approved
            if not is_made or not is_outdated(question, requested, tool, self._work_dir):
                break
            question = refresh_question(question, requested, tool, self._work_dir, keeps_files=self._log.keeps_files)
            decision = await approval.ask(requested, question, suspends=suspends)
        else:
            decision = Decision(False, KEEPS_CHANGING)
        if call.state == "ended":  # answered in the meantime: nothing awaits it any more
            return
        if decision is None:
            self.waits_for_person = True
            return
        if not decision.approved:
            self.refuse(call, deny(requested, _rule_of(question), decision.reason))
            return
        edited = decision.arguments is not None
        allowed = replace(requested, arguments=decision.arguments) if edited else requested
        verdict = self._judge(allowed, tool)  # other arguments may be denied, and a limit may have been reached
        if isinstance(verdict, Block):
            self.refuse(call, verdict)
            return
        call.made, call.is_edited = allowed, call.is_edited or edited
        if call.started is not None and call.started != redact(allowed):
            call.started = None  # an earlier process logged it with other arguments than those allowed now
        self._start(call)
        await self._run(call, tool)

    async def _run(self, call: Call, tool: Tool) -> None:
        # On resume, a step's call is repeated if its server declares it repeatable.
        may_wait = self._suspends and call.step != "" and getattr(tool, "may_repeat", False)
        run, name = await self._runner.run(call, tool, may_wait=may_wait), call.made.name
        if run.is_suspended:
            self.waits_for_person = True
            return
        if name == TODO_TOOL:
            self._todos.log_call(run.outcome, call.made.id)
        if name in self.tools.hidden and not call.parent_call and not call.step:
            self.tools.offer([name])  # the model called it without a search
        shifts = call.state != "ended" and getattr(tool, "shifts_context", False)
        self.finish(call, run.outcome, run.seconds, run.traceback)
        if shifts and (shift := shift_of(run.outcome)) is not None:
            self._shift(call.made.id, shift)

    def _shift(self, call_id: str, shift: ContextShift) -> None:
        """Log a change of context, unless the context stays the same."""
        run, context = self._log.run, self._context_name(shift.context_type)
        entity = shift.entity or (run.entity if context == run.context_type else "")
        if (context, entity) != (run.context_type, run.entity):
            self._log.emit(ContextShifted, context_type=context, entity=entity, call_id=call_id, reason=shift.reason)


def _rule_of(question: WaitingOnUser) -> str:
    """Return the rule of the gate that asks about the call."""
    return "" if question.about is None else question.about.rule


def runs_beside_others(tool: Tool | None) -> bool:
    """Return whether calls of the tool may run in parallel with others."""
    return tool is None or (tool.parallel_safe and not tool.blocking)
