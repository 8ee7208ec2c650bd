"""The tools of a run while it continues."""

from __future__ import annotations

import asyncio

from scripted_runs import loop_alone

from agentnb.core.messages import ToolCall
from agentnb.models import ScriptedModel
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.tools.toolbox import Toolbox


async def saw() -> str:
    return "sawn"


async def plane() -> str:
    return "planed"


def test_only_changed_tools_are_offered_and_callable_next() -> None:
    sources: list[RunTools] = []

    async def swap() -> str:
        sources[0].change(Toolbox([plane]))
        return "swapped"

    script = ScriptedModel([[ToolCall("saw"), ToolCall("swap")], [ToolCall("plane"), ToolCall("saw")], "Done."])
    run = asyncio.run(loop_alone(script, tools=(saw, swap), with_tools=sources.append))
    assert [[tool.name for tool in request.tools] for request in script.requests[:3]] == [["saw", "swap"], ["plane"], ["plane"]]
    first, second = run.rounds[0].results, run.rounds[1].results
    assert [result.text for result in (*first, second[0])] == ["sawn", "swapped", "planed"]
    assert second[1].error_code == "unknown_tool" and [tool.name for tool in run.tools] == ["plane"]
