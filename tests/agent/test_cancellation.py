"""Stopping a run, and the task around it."""

from __future__ import annotations

import asyncio

import pytest
from scripted_runs import loop_alone

from agentnb.agent.agent import Agent
from agentnb.core.inbox import Inbox
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import natural_stop


@pytest.mark.req("R0.13")
def test_stop_does_not_cancel_the_surrounding_task() -> None:
    async def main() -> tuple[Run, int]:
        inbox = Inbox()

        async def stop() -> None:
            inbox.put("stop")
            await asyncio.Event().wait()

        run = await loop_alone(ScriptedModel([ToolCall("stop")]), natural_stop, tools=[stop], inbox=inbox)
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return run, task.cancelling()

    run, cancelling = asyncio.run(main())
    assert (run.status, cancelling) == ("cancelled", 0)


@pytest.mark.req("R0.13")
def test_timeout_around_a_run_still_raises_timeout_error() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.timeout(0.05):
            await Agent(ScriptedModel([ToolCall("wait")]), tools=[wait]).run("go")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
