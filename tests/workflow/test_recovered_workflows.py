"""A workflow whose process died goes on at the first unfinished step, and one that waits for the person needs no process."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from virtual_time import VirtualTimeLoop

from agentnb import Agent, Run, Store, Workflow, recover
from agentnb.core.events import AnyEvent
from agentnb.core.work_events import StepAttempted, StepFinished
from agentnb.errors import WorkflowError
from agentnb.models import ScriptedModel
from agentnb.traces.run_file import RunFile

TEXT = """
workflow:
  - {id: first, type: tool, name: work, args: {what: first}}
  - id: both
    type: parallel
    retry: {max_attempts: 1, initial_delay_seconds: 0}
    steps:
      - {id: left, type: tool, name: work, args: {what: left}}
      - {id: right, type: tool, name: work, args: {what: right}}
  - id: each
    type: map
    over: ["1", "2", "3"]
    max_concurrency: 1
    step: {type: tool, name: work, args: {what: "{{ $item }}"}}
  - {id: again, type: condition, condition: "{{ len($steps.first.runs) >= 2 }}", false: {goto: first}}
  - {id: last, type: tool, name: work, args: {what: "{{ $steps.each.output[2] }}"}}
"""


class Snapshots(Store):
    """A store that copies its folder after every event: what a process that dies there leaves behind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: list[Path] = []

    async def open(self, run_id: str, *, nested: bool = False) -> RunFile:
        file = await super().open(run_id, nested=nested)
        append = file.append

        def keep(event: AnyEvent) -> None:
            append(event)
            self.kept.append(Path(shutil.copytree(self.folder, self.folder.parent / f"after-{len(self.kept)}")))

        file.append = keep  # type: ignore[method-assign]
        return file


class Work:
    """A tool that counts its work, and fails for what it was told to fail for, once."""

    def __init__(self, *failing: str) -> None:
        self.done: Counter[str] = Counter()
        self.failing = set(failing)

    async def work(self, what: str) -> str:
        """Do it."""
        self.done[what] += 1
        if what in self.failing:
            self.failing.discard(what)
            raise ValueError(f"{what} fails")
        return f"{what} done"


def by_itself(work: Any) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def finished(run: Run) -> Counter[str]:
    """How often each step has finished or failed an attempt, by the log."""
    return Counter(event.step for event in run.events if isinstance(event, StepFinished | StepAttempted))


def test_a_killed_workflow_is_recovered_from_any_event_and_finished_steps_are_not_run_again(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    store, whole_work = Snapshots(tmp_path / "whole"), Work("right")
    whole = by_itself(Workflow.from_yaml(TEXT, tools=[whole_work.work]).run(store=store, show=False))
    assert whole.status == "completed" and whole.back_edges == {"again -> first": 1}
    assert len(store.kept) > 40
    for folder in store.kept[:-1]:
        here = Store(folder)
        before = here.load(whole.id)
        with subtests.test(f"{folder.name}: {type(before.events[-1]).__name__}"):
            done_before = finished(before)
            work = Work(*() if done_before["both/right"] else ("right",))
            run = by_itself(recover(whole.id, tools=[work.work], store=here))
            assert (run.status, run.times_recovered) == ("completed", 1), run.error
            assert run.step_context == whole.step_context
            assert run.back_edges == whole.back_edges
            assert finished(run) == finished(whole)
            ended = sum(count for step, count in done_before.items() if step not in ("both", "each", "again"))
            assert work.done.total() == whole_work.done.total() - ended
            assert here.load(run.id) == run


ASKS = """
workflow:
  - {id: before, type: tool, name: work, args: {what: before}}
  - id: both
    type: parallel
    steps:
      - {id: h, type: human, ask: "Publish?", choices: [today, never]}
      - {id: other, type: tool, name: work, args: {what: other}}
  - {id: after, type: tool, name: work, args: {what: "{{ $steps.both.outputs.h.output }}"}}
"""


def test_a_step_of_the_person_waits_without_a_process_and_the_answer_resumes_the_run(tmp_path: Path) -> None:
    store, work = Store(tmp_path), Work()
    workflow = Workflow.from_yaml(ASKS, tools=[work.work])
    waiting = by_itself(workflow.run(store=store, suspend=True, show=False))
    assert (waiting.status, waiting.is_suspended) == ("waiting_on_user", True)
    assert work.done == {"before": 1, "other": 1}  # what ran beside it came to its end
    (question,) = store.load(waiting.id).waiting
    assert (question.message, question.kind, question.call_id) == ("Publish?", "human_step", "both/h")
    again = by_itself(recover(waiting.id, tools=[work.work], store=store, suspend=True))
    assert again.is_suspended and len(again.questions) == 1
    run = by_itself(recover(waiting.id, tools=[work.work], store=store, answers={question.id: "today"}))
    assert (run.status, run.text) == ("completed", "today done")
    assert work.done == {"before": 1, "other": 1, "today": 1}
    assert run.steps["both"]["order"] == ["h", "other"]


def test_without_anybody_and_without_a_store_the_step_fails_and_says_so() -> None:
    with pytest.raises(WorkflowError, match="step both/h: There is nobody to ask"):
        by_itself(Workflow.from_yaml(ASKS, tools=[Work().work]).run(show=False))


ROUND_AGAIN = """
workflow:
  - {id: first, type: agent, name: a}
  - id: both
    type: parallel
    retry: {max_attempts: 1, initial_delay_seconds: 0, on: [tool_error]}
    steps:
      - {id: left, type: agent, name: a}
      - {id: right, type: tool, name: work, args: {what: right}}
  - {id: asked, type: human, ask: "Which?"}
  - {id: again, type: condition, condition: "{{ len($steps.first.runs) >= 2 }}", false: {goto: first}}
  - {id: lost, type: tool, name: work, args: {what: lost}, on_error: {goto: last}}
  - {id: never, type: tool, name: work, args: {what: never}}
  - {id: last, type: agent, name: a, context: none}
"""


@pytest.mark.slow("it dies after each of 80 events")
def test_agents_questions_and_failures_stand_as_they_were_when_the_process_died(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    class Person:
        def __init__(self, said: int) -> None:
            self.said = said

        def __call__(self, question: Any) -> str:
            self.said += 1
            return f"answer {self.said}"

    def workflow(*failing: str) -> Workflow:
        agent = Agent(ScriptedModel(["Said."] * 9), name="a")
        return Workflow.from_yaml(ROUND_AGAIN, agents={"a": agent}, tools=[Work(*failing).work])

    store = Snapshots(tmp_path / "whole")
    whole = by_itself(workflow("right", "lost").run(store=store, show=False, answer=Person(0)))
    assert whole.status == "completed" and whole.back_edges == {"again -> first": 1}
    for folder in store.kept[:-1]:
        here = Store(folder)
        before = here.load(whole.id)
        with subtests.test(f"{folder.name}: {type(before.events[-1]).__name__}"):
            failed = {event.step for event in before.events if isinstance(event, StepFinished) and event.status == "failed"}
            failing = [one for one in ("right", "lost") if {one, f"both/{one}"}.isdisjoint(failed)]
            person = Person(sum(1 for one in before.questions if one.outcome == "answered"))
            again = workflow(*failing).orchestration()
            run = by_itself(recover(whole.id, agent=again, store=here, answer=person))
            assert run.step_context == whole.step_context, run.error
            assert (finished(run), run.back_edges) == (finished(whole), whole.back_edges)
            assert [one.answer for one in run.questions if one.outcome == "answered"] == ["answer 1", "answer 2"]
            assert len(here.ids()) == len(store.ids())  # nested runs were resumed, and none was run again


def test_what_was_cancelled_with_its_run_or_its_block_is_run_again_if_the_process_died_before_their_end(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    text = """
workflow:
  - {id: t, type: parallel, TIMEOUT steps: [{id: x, type: tool, name: slow}, {id: y, type: tool, name: slow}]}
"""
    going: list[asyncio.Event] = []

    async def slow() -> str:
        """Wait for ever."""
        going[0].set()
        await asyncio.Event().wait()
        return "never"

    async def fast() -> str:
        """Do it."""
        return "done"

    fast.__name__ = "slow"

    async def stopped(workflow: Workflow, store: Store) -> None:
        going[:] = [asyncio.Event()]
        task = asyncio.ensure_future(workflow.run(store=store, show=False))
        await going[0].wait()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])

    for timeout in ("", "timeout: 0.5,"):
        store = Snapshots(tmp_path / f"whole-{timeout[:1]}" / "runs")
        by_itself(stopped(Workflow.from_yaml(text.replace("TIMEOUT", timeout), tools=[slow]), store))
        ended = [folder for folder in store.kept if Store(folder).load(store.ids()[0]).status == "interrupted"]
        for folder in ended:
            with subtests.test(f"{timeout} {folder.name}"):
                before = Store(folder).load(store.ids()[0])
                run = by_itself(asyncio.wait_for(recover(before.id, tools=[fast], store=Store(folder)), 1000))
                is_given_up = before.step_records.get("t") is not None and before.step_records["t"].status != "running"
                assert run.status == ("failed" if is_given_up and timeout else "completed"), run.error
