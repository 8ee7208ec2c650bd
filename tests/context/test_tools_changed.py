"""Tools may change during a run: each request has the tools at the start of its round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from run_builder import RunBuilder, a_round, answered, begun, called
from scripted_runs import bare
from sent_requests import assert_made_again

from agentnb import Store, ToolCall
from agentnb.agent.start import AgentRun, pending_run
from agentnb.context.request_builder import RequestBuilder
from agentnb.context.request_history import sent_requests
from agentnb.core.log.events import ModelReplied, RoundFinished, RunStarted
from agentnb.core.log.work_events import FindingMade, ToolsChanged
from agentnb.core.messages import Message
from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.run_options import RunOptions
from agentnb.tools.read_result import SPEC as READ_SPEC

LOOK, WORK, WRITE = ToolSpec("look", "Looks."), ToolSpec("work", "Works."), ToolSpec("write", "Writes.", role="work")
MORE = (ToolsChanged, {"tools": (LOOK, WRITE), "reason": "a file was loaded"})
FOUND = (FindingMade, {"rule": "x", "family": "loops", "first": 0, "last": 0})


def sent(run: Run) -> list[list[str]]:
    """Return the tool names in the request of each round."""
    return [[tool.name for tool in seen.request.tools] for _, seen in sent_requests(run)]


def test_tool_change_applies_to_later_requests(subtests: pytest.Subtests) -> None:
    first, second, last = a_round(0, called("look")), a_round(1, called("look")), a_round(2, "Done.")
    both, later = ["look", "work"], ["look", "write"]
    cases: dict[str, tuple[list[Any], list[list[str]]]] = {
        "never": ([*first, *second, *last], [both, both, both]),
        "between two rounds": ([*first, MORE, *second, *last], [both, later, later]),
        "while a tool runs": ([*first[:-1], MORE, first[-1], *second, *last], [both, later, later]),
        "while the model replies": ([*first, second[0], FOUND, MORE, *second[1:], *last], [both, both, later]),
        "before the first round": ([MORE, *first, *second], [later, later]),
        "twice": ([*first, MORE, (ToolsChanged, {"tools": ()}), *second, *last], [both, [], []]),
        "and back within a round": (
            [*first, second[0], MORE, (ToolsChanged, {"tools": (LOOK, WORK)}), *second[1:], *last],
            [both, both, both],
        ),
    }
    for name, (facts, expected) in cases.items():
        with subtests.test(name):
            run = RunBuilder(tools=(LOOK, WORK)).extend(*facts).run
            assert sent(run) == expected


def test_reading_tool_is_kept_after_a_tool_change() -> None:
    settings = {"history": {"result_characters": 1_000}}
    call = called("look", "c1")
    first = [*begun(0), (ModelReplied, {"message": Message("assistant", (call,))}), *answered(call, "x" * 5_000)]
    done = (RoundFinished, {"index": 0, "status": "success"})
    run = RunBuilder(tools=(LOOK,), settings=settings).extend(*first, done, MORE, *begun(1)).run
    assert sent(run) == [["look"], ["look", "write", READ_SPEC.name]]


def test_unchanged_tools_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    story = RunBuilder(tools=(LOOK, WORK))
    builder = RequestBuilder.of_run(story.run.events[0])  # type: ignore[arg-type]  # it is a RunStarted
    monkeypatch.setattr(RequestBuilder, "_follow_tools", lambda *_: pytest.fail("the tools were compared"))
    for index in range(3):
        story.extend(*begun(index))
        builder.request(story.run)
        story.extend(*a_round(index, called("look"))[1:])


def changing(folder: Path) -> tuple[Run, ScriptedModel]:
    """Return a run with a tool that changes the tools, and its model."""
    model = ScriptedModel([ToolCall("learn"), ToolCall("work"), "Done."])
    pending: list[AgentRun] = []

    async def learn() -> str:
        """Changes the tools."""
        log = pending[0].context.log
        log.emit(ToolsChanged, tools=tuple(tool for tool in log.run.tools if tool.name == "work"))
        return "learned"

    async def work() -> str:
        """Works."""
        return "done"

    pending.append(pending_run(bare(model, [learn, work]), "go", RunOptions(store=Store(folder))))
    return pending[0].start().result(30), model


def test_live_run_sends_the_logged_tools(tmp_path: Path) -> None:
    run, model = changing(tmp_path)
    assert [[tool.name for tool in request.tools] for request in model.requests] == [["learn", "work"], ["work"], ["work"]]
    assert_made_again(run, model.requests)
    assert_made_again(Store(tmp_path).load(run.id), model.requests)


def test_resumed_run_sends_its_recorded_tools(tmp_path: Path) -> None:
    run, _ = changing(tmp_path)
    cut_log(Store(tmp_path).path(run.id), "round_started", 1, before=True)
    writer, before = Store(tmp_path).reopen(run.id)
    model = ScriptedModel([ToolCall("work"), "Done."])

    def work() -> str:
        """Works."""
        return "done"

    again = bare(model, [work]).resume(before, writer, RunOptions()).result(30)
    assert again.status == "completed" and isinstance(again.events[0], RunStarted)
    assert [[tool.name for tool in request.tools] for request in model.requests] == [["work"], ["work"]]
    assert sent(again) == [["learn", "work"], ["work"], ["work"]]
