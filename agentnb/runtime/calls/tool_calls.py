"""The one way to a tool: judges a call, asks the person, runs the tool and logs its one result, whoever makes the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
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
from agentnb.policies.gates import Ask, Block, Gate, denied, judge
from agentnb.policies.gates.verdicts import AskByRules
from agentnb.policies.permissions.gate import PermissionGate
from agentnb.runtime.calls.approval import (
    KEEPS_CHANGING,
    Approval,
    approval_question,
    asked_anew,
    is_of_this_tool,
    is_outdated,
)
from agentnb.runtime.calls.context_services import ContextServices, RunSteps
from agentnb.runtime.calls.context_shift import ContextShift, shift_of
from agentnb.runtime.calls.open_calls import MODEL, NO_PLACE, Begun, Caller, EarlierCall, PlacedCall
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.calls.todo_sync import TodoSync
from agentnb.runtime.calls.tool_runner import ToolRun, ToolRunner, given_arguments
from agentnb.runtime.replies.side_calls import SideModels
from agentnb.tools import tool_errors
from agentnb.tools.tool import Tool, ToolOutcome

MAX_CHANGES = 10
"""Questions about one call whose file changes each time before the answer."""
MAX_INNER_DEPTH = 10
"""Calls that tools make of tools, one within the other."""


class _Turn:
    """The turns of the calls that one tool makes: those that are not parallel-safe run one by one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lock = asyncio.Lock()


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
        """``tool_seconds``: the time for a call of a tool without a time limit of its own, nested runs apart; None for no
        limit. ``context_name``: returns the name of a conversation's context, by its name or an alias. ``own_gates``: the
        gates that the person has given, which judge the calls of its steps too. ``models``: those that tools may ask beside
        the conversation. ``steps``: the steps of the run that are nested runs.
        """
        log = self._log = context.log
        elicitation = self._elicitation = context.elicitation
        self.tools = tools
        self._gates = gates
        self._todos = todos or TodoSync(None, log)
        self._unanswered: set[str] = set()
        self.inside = ContextServices(
            context, self._unanswered, self._call_inside, tools.offered, own_gates=own_gates, models=models, steps=steps
        )
        self._permission_gate = PermissionGate(elicitation.permissions, context.work_dir, elicitation.confirms)
        self._runner = ToolRunner(context, self._permission_gate, self.inside, tool_seconds)
        self._approval = Approval(log.run, elicitation, context.call_sync)
        self._grants = elicitation.grants
        self._work_dir = context.work_dir
        self._context_name = context_name
        self._suspends = elicitation.suspends
        self._steps = steps
        self.waits_for_person = False
        """Whether a call was left open because its question found nobody to answer."""
        self._edited: set[str] = set()
        """Ids of the calls whose arguments the person changed."""
        self._turns: dict[str, _Turn] = {}
        """By the id of a call: the turns of the calls that its tool makes."""
        self._placed: dict[str, PlacedCall] = {}
        """The open calls that no model made, by id."""

    def open(self) -> None:
        """Take calls on the running event loop."""
        self.inside.loop = asyncio.get_running_loop()

    def begin(self, call: ToolCall, tool: Tool | None, earlier: EarlierCall | None = None) -> Begun:
        """Judge the call and log its start. Return the work to await, if any is left, and whether it waits for the person.

        ``earlier``: what a process that died had logged of it.
        """
        asked = None if earlier is None or not earlier.is_judged else earlier.question
        verdict: Ask | None = None
        if asked is None or not is_of_this_tool(asked, tool):
            asked, was_judged = None, earlier is not None and earlier.is_judged
            # The verdict of other gates stands: they may count calls. What is permitted may have changed.
            judged = self._judge_by((), call, tool) if was_judged else self._judge(call, tool)
            if isinstance(judged, Block):
                self._block(call, judged)
                return None, False
            verdict = judged
        question, is_asked = asked, asked is not None or verdict is not None
        refusal = self._refusal(call, tool, checks=is_asked)
        if refusal is not None or (asked is None and (is_asked or earlier is not None)):
            question = self._question(call, tool, verdict if refusal is None else None)
        self._unanswered.add(call.id)
        start = None if earlier is None else earlier.start
        if question is not None and tool is not None:
            return self._run_if_approved(call, tool, question, start), True
        if start is None:
            # A tool gets the arguments as logged, redacted.
            parent_call, step = self._caller_of(call).place if self._placed else NO_PLACE
            seq, at, run_id, parent_id = self._log.head()
            started = ToolStarted(seq, at, run_id, parent_id, call=call, parent_call=parent_call, step=step)
            start = self._log.append(started).call
        if tool is None or refusal is not None:
            self.finish(start, ToolRun(refusal or self.tools.not_found(call.name)))
            return None, False
        return self._run(start, tool), tool.blocking

    async def call(self, call: ToolCall, tool: Tool | None, caller: Caller, earlier: EarlierCall | None = None) -> PlacedCall:
        """Run a call that no model made to its end. ``earlier``: what a process that died had logged of it.

        Returns it without an outcome if the run was stopped, or if it waits for a person who is not here.
        """
        placed = self._placed[call.id] = PlacedCall(call, caller)
        work, _ = self.begin(call, tool, earlier)
        if work is not None:
            await work
        return placed

    def refuse(self, call: ToolCall, caller: Caller, block: Block) -> PlacedCall:
        """Log that a call that no model made does not run, by a verdict that its maker has."""
        placed = self._placed[call.id] = PlacedCall(call, caller)
        self._block(call, block)
        return placed

    def reopen(self, call: ToolCall, *, edited: bool) -> None:
        """Take an open call of a process that died. ``edited``: whether the person had changed its arguments."""
        self._unanswered.add(call.id)
        if edited:
            self._edited.add(call.id)

    def close(self, call_id: str, outcome: ToolOutcome) -> None:
        """Give an open call of a step its result: nothing awaits it any more. No-op if it has one."""
        opened = self._log.run.open_step_call(call_id)
        if opened is not None:
            records = (opened.record,)
            self.answer_inner(records, lambda name: outcome)
            self._placed.setdefault(call_id, PlacedCall(opened.record.call, Caller("step", opened.step)))
            self.answer(opened.record.call, outcome)

    def close_steps(self) -> None:
        """Log the end of the steps of an agent's run that are open."""
        if self._steps is not None:
            self._steps.close_open()

    def still_running(self, records: Iterable[CallRecord]) -> dict[str, str]:
        """Return the tools of open calls that were given up and still run in a worker thread, by the ids of the calls."""
        unfinished = [record.call for _, record in with_inner(tuple(records)) if record.result is None]
        return {call.id: call.name for call in unfinished if self._runner.still_runs(call.id)}

    def answer_inner(self, records: Iterable[CallRecord], outcome: Callable[[str], ToolOutcome]) -> None:
        """Answer all open calls that the tools of these calls made. ``outcome``: returns the result by the name of a tool."""
        for parent, record in [*with_inner(tuple(records))][::-1]:
            if parent and record.result is None:
                self._unanswered.add(record.call.id)
                self._placed.setdefault(record.call.id, PlacedCall(record.call, Caller("call", parent)))
                self.finish(record.call, ToolRun(outcome(record.call.name)))

    def answer(self, call: ToolCall, outcome: ToolOutcome) -> None:
        """Give a call that is not run any further its result."""
        self._unanswered.add(call.id)
        self.finish(call, ToolRun(outcome))

    def finish(self, call: ToolCall, run: ToolRun) -> None:
        """Log the one result of a call; no-op for a call that has it, such as one whose tool ignored its cancellation."""
        call_id = call.id
        if call_id not in self._unanswered:
            return
        outcome = run.outcome
        if call_id in self._turns:  # its tool has made calls
            for inner in [one for one in self._placed.values() if one.caller == ("call", call_id)]:
                self.finish(inner.call, ToolRun(tool_errors.cancelled()))  # its tool did not wait for it
        self._unanswered.discard(call_id)
        if call_id in self._edited:
            outcome = tool_errors.edited(outcome, call)
        parent_call, step = self._ended(call, outcome).place if self._placed else NO_PLACE
        result = outcome.as_result(call_id, call.name)
        display = outcome.display.mapped(encodable) if isinstance(outcome.display, Table) else None
        reported = self.inside.close(call_id)
        seq, at, run_id, parent_id = self._log.head()
        finished = ToolFinished(
            seq,
            at,
            run_id,
            parent_id,
            result=result,
            seconds=run.seconds,
            traceback=run.traceback,
            display=display,
            progress=reported.progress,
            parent_call=parent_call,
            printed=reported.printed,
            step=step,
            nested=reported.nested,
        )
        self._log.append(finished)
        if self._turns:
            self._turns.pop(call_id, None)

    async def _call_inside(self, parent: str, name: str, arguments: Any) -> ToolOutcome:
        """Run a call that a tool makes itself."""
        if parent not in self._unanswered:
            raise asyncio.CancelledError("The call has ended")
        if self._inner_depth(parent) >= MAX_INNER_DEPTH:
            return tool_errors.too_many_levels(name, MAX_INNER_DEPTH)
        tool, turn = self.tools.get(name), self._turns.setdefault(parent, _Turn(count_of(self._log.run, parent)))
        async with nullcontext() if runs_beside_others(tool) else turn.lock:
            turn.count += 1
            call = ToolCall(encodable(name), arguments, f"{parent}.{turn.count}")
            inner = await self.call(call, self.tools.get(name), Caller("call", parent))
        if inner.outcome is None:  # the run was stopped
            raise asyncio.CancelledError("The call has ended")
        return inner.outcome

    def _inner_depth(self, call_id: str) -> int:
        """Return how many calls of tools, one within the other, led to this call."""
        depth = 0
        while (placed := self._placed.get(call_id)) is not None and placed.caller.kind == "call":
            call_id, depth = placed.caller.id, depth + 1
        return depth

    def _judge(self, call: ToolCall, tool: Tool | None) -> Ask | Block | None:
        if call.name == TODO_TOOL:
            self._todos.look()  # the gates need the current list
        if self._log.run.has_grants:
            self._grants.update()
        verdict = self._judge_by(self._gates, call, tool)
        if isinstance(verdict, AskByRules) and self._grants.update():  # they may have come from outside meanwhile
            return self._judge_by(self._gates, call, tool)
        return verdict

    def _judge_by(self, gates: Sequence[Gate], call: ToolCall, tool: Tool | None) -> Ask | Block | None:
        """Return what these gates and the permissions say of a call."""
        permitted = (partial(self._permission_gate, tool),)
        return judge((*gates, *permitted), call, self._log.run)

    def _question(self, call: ToolCall, tool: Tool | None, verdict: Ask | None) -> WaitingOnUser | None:
        """Return the question of a gate about a call, if one asks; log that the call waits, unless it was asked before."""
        question = None
        if verdict is not None and tool is not None:
            known = {"has_session": self._grants.has_session, "keeps_files": self._log.keeps_files}
            question = approval_question(verdict, call, tool, self._work_dir, **known)
        book = self._elicitation.book
        if question is None or book.expected(question) is None:
            book.drop_permission(call.id)
            if question is not None:
                parent_call, step = self._caller_of(call).place
                self._log.emit(ToolAdmitted, call=call, reason=_rule_of(question), parent_call=parent_call, step=step)
        return question

    def _refusal(self, call: ToolCall, tool: Tool | None, *, checks: bool) -> ToolOutcome | None:
        """Return the result of a call that cannot be run at all.

        ``checks``: with a check of the arguments, before the person is asked about them; without a question the tool makes it.
        """
        if tool is None:
            return self.tools.not_found(call.name)
        if type(call.arguments) is str and text_is_too_deep(call.arguments):
            return tool_errors.too_deep(call.name)
        check = getattr(tool, "refusal", None) if checks else None
        return None if check is None else check(given_arguments(redact(call)))

    async def _run_if_approved(self, call: ToolCall, tool: Tool, question: WaitingOnUser, start: ToolCall | None) -> None:
        # A question from inside a tool cannot wait so long.
        suspends = self._suspends and self._caller_of(call).kind != "call"
        decision = await self._approval.ask(call, question, suspends=suspends)
        for _ in range(MAX_CHANGES):
            is_made = decision is not None and decision.approved
            if not is_made or not is_outdated(question, call, tool, self._work_dir):
                break
            question = asked_anew(question, call, tool, self._work_dir, keeps_files=self._log.keeps_files)
            decision = await self._approval.ask(call, question, suspends=suspends)
        else:
            decision = Decision(False, KEEPS_CHANGING)
        if decision is None:
            self.waits_for_person = True
            return
        if not decision.approved:
            self._block(call, denied(call, _rule_of(question), decision.reason))
            return
        edited = decision.arguments is not None
        allowed = replace(call, arguments=decision.arguments) if edited else call
        verdict = self._judge(allowed, tool)  # other arguments may be denied, or a limit was reached meanwhile
        if isinstance(verdict, Block):
            self._block(call, verdict)
            return
        if edited:
            self._edited.add(call.id)
        if start is None:
            parent_call, step = self._caller_of(call).place
            start = self._log.emit(ToolStarted, call=allowed, edited=edited, parent_call=parent_call, step=step).call
        await self._run(start, tool)

    def _block(self, call: ToolCall, block: Block) -> None:
        self._unanswered.discard(call.id)
        result = block.result
        parent_call, step = self._ended(call, ToolOutcome(False, result.parts, error_code=result.error_code), block).place
        self._log.emit(CallBlocked, call=call, result=result, rule=block.rule, parent_call=parent_call, step=step)

    async def _run(self, call: ToolCall, tool: Tool) -> None:
        # The call of a step is made again when the run is resumed, if its server says that it may be.
        may_wait = self._suspends and self._caller_of(call).kind == "step" and getattr(tool, "may_repeat", False)
        run = await self._runner.run(call, tool, may_wait=may_wait)
        if run.is_suspended:
            self.waits_for_person = True
            return
        if call.name == TODO_TOOL:
            self._todos.called(run.outcome, call.id)
        if call.name in self.tools.hidden and self._caller_of(call).kind == "round":
            self.tools.offer([call.name])  # the model calls it without having found it
        was_open = call.id in self._unanswered
        self.finish(call, run)
        if was_open and (shift := shift_of(tool, run.outcome)) is not None:
            self._shift(call, shift)

    def _shift(self, call: ToolCall, shift: ContextShift) -> None:
        """Log a change of scope, unless nothing changes."""
        run, context = self._log.run, self._context_name(shift.context_type)
        entity = shift.entity or (run.entity if context == run.context_type else "")
        if (context, entity) != (run.context_type, run.entity):
            self._log.emit(ContextShifted, context_type=context, entity=entity, call_id=call.id, reason=shift.reason)

    def _caller_of(self, call: ToolCall) -> Caller:
        placed = self._placed.get(call.id)
        return MODEL if placed is None else placed.caller

    def _ended(self, call: ToolCall, outcome: ToolOutcome, block: Block | None = None) -> Caller:
        """Hand the outcome of a call to its maker, unless that is the model. Return the maker."""
        placed = self._placed.pop(call.id, None)
        if placed is None:
            return MODEL
        placed.outcome, placed.block = outcome, block
        return placed.caller


def _rule_of(question: WaitingOnUser) -> str:
    """Return the rule of the gate that asks about a call."""
    return "" if question.about is None else question.about.rule


def runs_beside_others(tool: Tool | None) -> bool:
    """Return whether calls of the tool may run beside other calls."""
    return tool is None or (tool.parallel_safe and not tool.blocking)
