"""Runs one tool call, with its time limit, error handling and timing."""

from __future__ import annotations

import asyncio
import threading
from time import perf_counter
from typing import Any

import msgspec

from agentnb.core.messages import ToolCall
from agentnb.errors import NestedTooDeep, NotAnswered, ToolFailed
from agentnb.policies.permissions.gate import PermissionGate
from agentnb.runtime.calls.call import Call
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.questions.elicitation import CallElicitor
from agentnb.runtime.threads import is_cancelling, is_running, time_limit
from agentnb.tools import tool_errors
from agentnb.tools.agent_tool import AgentTool
from agentnb.tools.tool import CallServices, Tool, ToolContext, ToolOutcome


class ToolRun(msgspec.Struct, frozen=True):
    """The end of a call: its outcome, the tool's running time in seconds, and the traceback of any exception."""

    outcome: ToolOutcome
    seconds: float = 0.0
    traceback: str = ""
    is_suspended: bool = False
    """True if the call is waiting for the person; it is made again when the run is resumed."""


class ToolRunner:
    """Runs the tools of one run."""

    def __init__(self, context: RunContext, gate: PermissionGate, inside: CallServices, tool_seconds: float | None) -> None:
        """``tool_seconds``: as for `ToolCalls`."""
        self._context = context
        self._elicitation = context.elicitation
        self._tool_seconds = tool_seconds
        self._inside = inside
        self._gate = gate

    async def run(self, call: Call, tool: Tool, *, may_wait: bool = False) -> ToolRun:
        """Run the tool. Its exceptions become outcomes, except those that end the run.

        ``may_wait``: whether an unanswered question stays open.
        """
        requested = call.started or call.made
        arguments = {} if requested.arguments is None else requested.arguments  # some models send null for no arguments
        asker = call.elicitor = CallElicitor(self._elicitation, requested.id)
        asker.may_wait = may_wait
        asker.inside = self._inside
        asker.tool, asker.call = tool, requested
        run = self._context
        store = getattr(run.log.store, "folder", None)
        hidden = self._gate.hidden_files
        context = ToolContext(run.log.id, requested.id, run.work_dir, run.call_sync, asker, self._inside, store, hidden)
        traceback, own_task = "", asyncio.current_task()
        started = perf_counter()
        with asker:
            try:
                has_own = tool.timeout is not None or isinstance(tool, AgentTool)  # nested runs have their own limits
                seconds = tool.timeout if has_own else self._tool_seconds
                if seconds is None:
                    outcome = await tool.run(arguments, context)
                else:
                    outcome = await _within(seconds, tool, requested, arguments, context, asker)
            except NotAnswered as error:
                outcome = tool_errors.not_answered(error)
            except NestedTooDeep as error:
                outcome = tool_errors.too_many_nested_runs(requested.name, error)
            except ToolFailed as error:
                outcome = tool_errors.inner_failed(requested.name, error)
            except asyncio.CancelledError as error:
                if is_cancelling():
                    raise
                outcome, traceback = tool_errors.from_exception(requested.name, error), tool_errors.users_traceback(error)
            except BaseException as error:
                if isinstance(error, GeneratorExit) and not is_running(own_task):
                    raise
                # SystemExit too: a tool that calls exit() must not end the kernel.
                if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                    raise
                outcome, traceback = tool_errors.from_exception(requested.name, error), tool_errors.users_traceback(error)
        self._elicitation.book.check()
        return ToolRun(outcome, perf_counter() - started - asker.waited, traceback, asker.is_suspended)


async def _within(
    seconds: float, tool: Tool, call: ToolCall, arguments: Any, context: ToolContext, asker: CallElicitor
) -> ToolOutcome:
    outer = time_limit.get()  # of the enclosing call
    try:
        async with asyncio.timeout(seconds) as limit:
            time_limit.set(limit)  # paused while a plain tool waits for its thread
            asker.begin(limit, seconds, getattr(tool, "max_seconds", None))  # paused while it waits for the person, too
            return await tool.run(arguments, context)
    except TimeoutError:
        if not limit.expired():
            raise  # the tool's own
        return tool_errors.timed_out(call.name, round(asker.worked) if asker.is_prolonged else seconds)
    finally:
        time_limit.set(outer)
