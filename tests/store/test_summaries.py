"""Summaries of logs: from the first and last line of an unchanged log, otherwise from all lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from totals_of_logs import check_totals, read_whole

from agentnb import Agent, Run, Store, ToolCall, Workflow, recover, save_trace, tables
from agentnb.core.log.events import RunFinished
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.display.lists.history_list import cost_words, history_text, run_list_html, work_words
from agentnb.display.texts.states import steps_words
from agentnb.models import Reply, ScriptedModel
from agentnb.store.summaries import log_summary, summary
from agentnb.tools.tool import ToolContext

Lines = list[bytes]


def replied(cost: float | None, tokens: int | None, *parts: ToolCall) -> Reply:
    return Reply(Message("assistant", parts or (ToolCall("gone"),)), Usage(tokens, tokens, cost=cost), "tool_use", {})


def model() -> ScriptedModel:
    return ScriptedModel([replied(0.1, 3), replied(0.2, None), "Done."])


def run_in(store: Store) -> Run:
    return Agent(model()).run_sync("Go", store=store)


def ends_of(run: Run) -> RunFinished:
    end = run.events[-1]
    assert isinstance(end, RunFinished)
    return end


def test_summary_from_the_end_event_equals_summing_lines(subtests: pytest.Subtests, tmp_path: Path) -> None:
    async def delegate(context: ToolContext) -> str:
        """Start a run of its own."""
        inner = await Agent(model()).run("Do", store=store, parent_id=context.run_id)
        return inner.text

    known = [replied(0.1, 3), replied(0.2, 4)]
    agents = {
        "unknown costs": Agent(model()),
        "known costs": Agent(ScriptedModel(known), max_rounds=2),
        "a nested run": Agent(ScriptedModel([ToolCall("delegate"), "Done."]), tools=[delegate]),
    }
    for name, agent in agents.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            agent.run_sync("Go", store=store)
            assert len(store.ids()) == 1 + (name == "a nested run")
            for run_id in store.ids():
                check_totals(store.path(run_id))


def replied_at_once(cost: float) -> Reply:
    return Reply(Message("assistant", (Text("Said."),)), Usage(1, 1, cost=cost), "end_turn", {})


WORKFLOW = """
workflow:
  - {id: one, type: agent, name: a}
  - {id: both, type: parallel, steps: [{id: left, type: agent, name: a}, {id: right, type: agent, name: a}]}
  - {id: again, type: condition, condition: "{{ len($steps.one.runs) >= 2 }}", false: {goto: one}}
  - {goto: last}
  - {id: last, type: map, over: [1, 2], step: {type: agent, name: a}}
"""


def test_workflow_is_listed_with_steps_from_older_logs_too(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path)
    workflow = Workflow.from_yaml(WORKFLOW, agents={"a": Agent(ScriptedModel([replied_at_once(1.0)] * 20), name="a")})
    run = workflow.run_sync("Go", store=store, show=False)
    path = store.path(run.id)
    (whole,) = [summary for summary in store.summaries() if summary.id == run.id]
    assert (whole.steps, whole.rounds, whole.kind, work_words(whole)) == (8, 0, "workflow", "8 steps")
    assert steps_words(run) == "8 steps" and "    8 steps" in history_text([whole], "") and "8 steps" in run_list_html([whole])
    assert (whole.own_cost, whole.tokens, cost_words(whole)) == (0, 16, "$8.0000") and "· </span>" not in run_list_html([whole])
    check_totals(path)
    frame = tables.runs(store).set_index("run_id")
    assert frame.loc[run.id, ["steps", "rounds"]].tolist() == [8, 0] and frame.steps.sum() == 8
    log = path.read_bytes()
    lines = log.splitlines(keepends=True)
    path.write_bytes(log.replace(b',"steps":8', b"").replace(b',"todos_open":false', b"").replace(b',"failed_calls":0', b""))
    with subtests.test("an earlier version"):
        assert store.summary(run.id) == whole and log != path.read_bytes()
    for count in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:count]) + lines[count][:30])
        with subtests.test(f"cut after {count} events"):
            assert store.summary(run.id).steps == store.load(run.id).step_count


def test_summary_of_a_resumed_run_covers_both_processes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path(run_in(store).id)
    lines = path.read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:count]))
        run = asyncio.run(recover(path.stem, model=ScriptedModel([replied(0.4, 5), "Done.", "Done."]), store=store))
        assert ends_of(run).totals is not None
        check_totals(path)
        (one,) = store.summaries()
        assert (one.recovered, one.rounds, one.cost) == (1, len(run.rounds), run.cost)


CHANGES: dict[str, Callable[[Lines], Lines]] = {
    "a line less": lambda lines: [*lines[:1], *lines[2:]],
    "a line more": lambda lines: [*lines[:1], lines[1], *lines[1:]],
    "a longer line": lambda lines: [line.replace(b'"cost":0.1', b'"cost":0.15') for line in lines],
    "line ends of Windows": lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
    "an empty line at the end": lambda lines: [*lines, b"\n"],
    "cut off within the end": lambda lines: [*lines[:-1], lines[-1][:-20]],
    "cut off before the end": lambda lines: lines[:-1],
    "no totals": lambda lines: [*lines[:-1], lines[-1].partition(b',"totals"')[0] + b"}\n"],
    "nothing but its ends": lambda lines: [lines[0], lines[-1]],
}


def test_changed_log_is_read_completely(subtests: pytest.Subtests, tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path(run_in(store).id)
    lines = path.read_bytes().splitlines(keepends=True)
    for name, change in CHANGES.items():
        with subtests.test(name):
            path.write_bytes(b"".join(change(lines)))
            with path.open("rb") as file, pytest.raises(AssertionError, match="is read as a whole"):
                log_summary(file, read_whole)
            (one,) = store.summaries()
            assert one == summary(path.read_bytes().splitlines(keepends=True), "interrupted")


def test_only_both_ends_of_a_long_log_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.path(run_in(store).id)
    before = store.summaries()
    first, *between, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"?" * sum(map(len, between[:-1])) + between[-1] + last)
    assert store.summaries() == before


def test_saved_copy_without_marks_is_summarized_completely(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "a"), Store(tmp_path / "b")
    kept, in_memory = run_in(store), Agent(model()).run_sync("Go")
    assert ends_of(in_memory).totals is None
    for run in (kept, in_memory):
        save_trace(run, other.path(run.id))
    check_totals(store.path(kept.id))  # the copy has no marks and another size: it is read completely
    found = {summary.id: (summary.rounds, summary.tokens, summary.cost) for summary in other.summaries()}
    assert found == {run.id: (3, 6, run.cost) for run in (kept, in_memory)}
