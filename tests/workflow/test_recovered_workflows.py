"""A killed workflow resumes at the first unfinished step, and a suspended one needs no process."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from snapshots import Snapshots
from virtual_time import by_itself

from agentnb import Agent, Run, Store, ToolCall, Workflow, recover, tables
from agentnb.core.log.work_events import StepAttempted, StepFinished, StepStarted
from agentnb.errors import SettingsError, WorkflowError
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.runtime.steps.side_by_side import SIBLING_FAILED

TEXT = """
workflow:
  - {id: first, type: tool, name: work, args: {what: first}}
  - id: both
    type: parallel
    retry: {max_attempts: 1, initial_delay_seconds: 0}
    steps:
      - {id: left, type: tool, name: work, args: {what: left}}
      - {id: right, type: tool, name: work, args: {what: right}}
      - id: branch
        type: condition
        condition: "{{ $steps.first.output == 'first done' }}"
        true:
          - {id: one, type: tool, name: work, args: {what: one}}
          - {id: two, type: tool, name: work, args: {what: "{{ $steps.one.output }}"}}
  - id: each
    type: map
    over: ["1", "2", "3"]
    max_concurrency: 1
    step: {type: tool, name: work, args: {what: "{{ $item }}"}, retry: {max_attempts: 1, initial_delay_seconds: 0}}
  - {id: again, type: condition, condition: "{{ len($steps.first.runs) >= 2 }}", false: {goto: first}}
  - {id: last, type: tool, name: work, args: {what: "{{ $steps.each.output[2] }}"}}
"""


class Work:
    """A tool that counts its work and fails once where requested."""

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


def finished(run: Run) -> Counter[str]:
    """Count ended attempts of each step in the log."""
    return Counter(event.step for event in run.events if isinstance(event, StepFinished | StepAttempted))


def executions(run: Run) -> set[tuple[str, int, int]]:
    """Return executions and attempts of each step."""
    return {(event.step, event.iteration, event.attempt) for event in run.events if isinstance(event, StepStarted)}


def test_killed_workflow_recovers_from_any_event_without_repeating_steps(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store, whole_work, failing = Snapshots(tmp_path / "whole"), Work("right", "2"), {"right": "both/right", "2": "each/1"}
    whole = by_itself(Workflow.from_yaml(TEXT, tools=[whole_work.work]).run(store=store, show=False))
    assert whole.status == "completed" and whole.back_edges == {"again -> first": 1}
    assert len(store.kept) > 40
    for folder in store.kept[: -1 : size(3, nightly=1)]:
        here = Store(folder)
        before = here.load(whole.id)
        with subtests.test(f"{folder.name}: {type(before.events[-1]).__name__}"):
            done_before = finished(before)
            work = Work(*(task for task, step in failing.items() if not done_before[step]))
            run = by_itself(recover(whole.id, tools=[work.work], store=here))
            assert (run.status, run.times_recovered) == ("completed", 1), run.error
            assert run.step_context == whole.step_context
            assert run.back_edges == whole.back_edges
            assert finished(run) == finished(whole)
            assert executions(run) == executions(whole)
            ended = sum(count for step, count in done_before.items() if step not in ("both", "both/branch", "each", "again"))
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


def test_nested_log_without_its_first_event_starts_over(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Snapshots(tmp_path / "whole")
    text = "agents: {a: {replies: [Done.]}}\nworkflow: [{type: agent, name: a}]\n"
    whole = by_itself(Workflow.from_yaml(text).run(store=store, show=False))
    begun = next(event.nested for event in whole.events if isinstance(event, StepStarted))
    for left in (b"", b'{"kind":"run_started","se'):
        with subtests.test(str(left)):
            here = Store(shutil.copytree(store.kept[1], tmp_path / str(len(left))))
            here.path(begun).write_bytes(left)
            run = by_itself(recover(whole.id, store=here))
            assert (run.status, run.text) == ("completed", "Done.") and here.load(begun).status == "completed"


def test_human_step_resumes_with_the_answer_in_another_process(tmp_path: Path) -> None:
    store, work = Store(tmp_path), Work()
    workflow = Workflow.from_yaml(ASKS, tools=[work.work])
    waiting = by_itself(workflow.run(store=store, suspend=True, show=False))
    assert (waiting.status, waiting.is_suspended) == ("waiting_on_user", True)
    assert work.done == {"before": 1, "other": 1}  # the parallel step ended
    (question,) = store.load(waiting.id).waiting
    assert (question.message, question.kind, question.call_id) == ("Publish?", "human_step", "both/h")
    again = by_itself(recover(waiting.id, tools=[work.work], store=store, suspend=True))
    assert again.is_suspended and len(again.questions) == 1
    run = by_itself(recover(waiting.id, tools=[work.work], store=store, answers={question.id: "today"}))
    assert (run.status, run.text) == ("completed", "today done")
    assert work.done == {"before": 1, "other": 1, "today": 1}
    assert run.steps["both"]["order"] == ["h", "other"]


def test_human_step_without_a_person_or_store_fails() -> None:
    with pytest.raises(WorkflowError, match="step both/h: No person is attached"):
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


@pytest.mark.slow("it dies after each of 80 events, by day after a third")
def test_questions_and_failures_survive_process_death(tmp_path: Path, subtests: pytest.Subtests) -> None:
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
    for folder in store.kept[: -1 : size(3, nightly=1)]:
        here = Store(folder)
        before = here.load(whole.id)
        with subtests.test(f"{folder.name}: {type(before.events[-1]).__name__}"):
            failed = {event.step for event in before.events if isinstance(event, StepFinished) and event.status == "failed"}
            failing = [one for one in ("right", "lost") if {one, f"both/{one}"}.isdisjoint(failed)]
            person = Person(sum(1 for record in before.questions if record.outcome == "answered"))
            again = workflow(*failing).orchestration()
            run = by_itself(recover(whole.id, agent=again, store=here, answer=person))
            assert run.step_context == whole.step_context, run.error
            assert (finished(run), run.back_edges) == (finished(whole), whole.back_edges)
            assert executions(run) == executions(whole)
            assert [record.answer for record in run.questions if record.outcome == "answered"] == ["answer 1", "answer 2"]
            assert len(here.ids()) == len(store.ids())  # nested runs were resumed, not repeated


def test_cancelled_steps_rerun_if_the_process_died_first(tmp_path: Path, subtests: pytest.Subtests) -> None:
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


def test_abandoned_step_is_not_restarted_and_logs_the_reason(tmp_path: Path, subtests: pytest.Subtests) -> None:
    text = """
workflow:
  - id: outer
    type: parallel
    on_error: {continue: given up}
    steps:
      - {id: inner, type: parallel, steps: [{id: slow, type: tool, name: slow}]}
      - {id: bad, type: tool, name: bad}
"""
    begun: list[str] = []

    async def slow() -> str:
        """Wait for ever."""
        begun.append("slow")
        await asyncio.Event().wait()
        return "never"

    async def bad() -> str:
        """Fail while the other waits."""
        await asyncio.sleep(0.02)
        raise ValueError("bad")

    store = Snapshots(tmp_path / "whole")
    whole = by_itself(Workflow.from_yaml(text, tools=[slow, bad]).run(store=store, show=False))
    cancelled = {event.step: event.reason for event in whole.events if isinstance(event, StepFinished) and event.reason}
    assert cancelled == {"outer/inner/slow": SIBLING_FAILED, "outer/inner": SIBLING_FAILED}
    reasons = dict(zip(*(tables.steps(whole)[name].tolist() for name in ("step", "reason")), strict=True))
    assert reasons["outer/inner/slow"] == SIBLING_FAILED
    for folder in store.kept[: -1 : size(3, nightly=1)]:
        before = Store(folder).load(whole.id)
        with subtests.test(f"{folder.name}: {type(before.events[-1]).__name__}"):
            begun.clear()
            run = by_itself(recover(whole.id, tools=[slow, bad], store=Store(folder)))
            assert run.step_records["outer"].output == "given up"
            record = before.step_records.get("outer/inner/slow")
            assert len(begun) == (record is None or record.status == "running")


LATE = """
workflow:
  - id: block
    type: parallel
    on_error: {continue: none}
    LIMIT
    steps:
      - {id: h, type: human, ask: "Early?"}
      - {id: each, type: map, over: [1], step: {type: human, ask: "Early too?"}}
      - {id: t, type: tool, name: work, timeout: OWN}
  - {id: later, type: human, ask: "Later?"}
"""


def test_questions_of_a_failed_block_stay_closed_after_any_kill(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async def work() -> str:
        """Wait longer than anything."""
        await asyncio.sleep(100)
        return "never"

    for name, limit, own in (("child", "max_concurrency: 1", 0.02), ("block", "timeout: 0.02", 200)):
        store = Snapshots(tmp_path / name / "runs")
        text = LATE.replace("LIMIT", limit).replace("OWN", str(own))
        whole = by_itself(Workflow.from_yaml(text, tools=[work]).run(store=store, suspend=True, show=False))
        for folder in store.kept[:: size(3, nightly=1)]:
            with subtests.test(f"{name} {folder.name}"):
                here = Store(folder)
                how: Any = {"tools": [work], "store": here, "suspend": True}
                before = here.load(whole.id)
                run = before if before == whole else by_itself(asyncio.wait_for(recover(whole.id, **how), 1000))
                assert [question.message for question in run.waiting] == ["Later?"]
                run = by_itself(asyncio.wait_for(recover(whole.id, answers={run.waiting[0].id: "Yes"}, **how), 1000))
                assert run.status == "completed" and run.steps["later"]["output"] == "Yes"
                of_block = {path: record.status for path, record in run.step_records.items() if path.startswith("block/")}
                assert of_block.pop("block/t") == ("cancelled" if name == "block" else "failed")
                # On a busy machine the block may time out before the item begins.
                assert {*of_block} | {"block/each/0"} == {"block/h", "block/each", "block/each/0"}
                assert {*of_block.values()} == {"cancelled"}


ASKING, WORKING = "    - {id: asks, type: human, ask: Early?}", "    - {id: works, type: tool, name: work}"
TIMED_BLOCK = f"""
workflow:
- id: block
  type: parallel
  max_concurrency: 1
  timeout: 0.2
  on_error: {{continue: none}}
  steps:
{ASKING}
{WORKING}
"""


def test_step_not_restarted_after_a_block_timeout_is_closed(tmp_path: Path) -> None:
    async def work() -> str:
        await asyncio.sleep(100)
        return "never"

    kept = Snapshots(tmp_path / "runs")
    run = by_itself(Workflow.from_yaml(TIMED_BLOCK, tools=[work]).run(store=kept, suspend=True, show=False))
    begun = (Store(folder) for folder in kept.kept if [*Store(folder).load(run.id).step_records] == ["block", "block/asks"])
    store = next(begun)
    log = store.path(run.id)
    text = log.read_text("utf-8")
    assert f"{ASKING}\\n{WORKING}" in text
    # The other step is first now, and the step that had begun waits until the block times out.
    log.write_text(text.replace(f"{ASKING}\\n{WORKING}", f"{WORKING}\\n{ASKING}"), "utf-8")
    run = by_itself(recover(run.id, store=store, tools=[work], trust_log=True))
    ends = {"block": "completed", "block/asks": "cancelled", "block/works": "cancelled"}
    assert {path: record.status for path, record in run.step_records.items()} == ends


INNER = (
    "workflow: [{id: i, type: tool, name: work, args: {what: i}}, {id: t, type: workflow, file: tasks.yaml, inputs: {w: j}}]"
)
TASKS = 'stage: {main: {one: {action: work, input: {what: "${w}"}, post: {answer: "${result}"}}}}'
OUTER = "workflow: [{id: n, type: workflow, file: deep/inner.yaml}, {id: m, type: workflow, file: ./deep/../deep/inner.yaml}]"


def files_in(folder: Path) -> tuple[Path, Path, Path]:
    """Write a workflow that runs a file twice, which runs a task file."""
    outer, inner, tasks = folder / "outer.yaml", folder / "deep" / "inner.yaml", folder / "deep" / "tasks.yaml"
    inner.parent.mkdir()
    for path, text in ((outer, OUTER), (inner, INNER), (tasks, TASKS)):
        path.write_text(text)
    return outer, inner, tasks


def test_log_contains_every_file_even_if_changed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner, tasks = files_in(tmp_path)
    store, elsewhere = Snapshots(tmp_path / "whole"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    whole = by_itself(Workflow.from_yaml("outer.yaml", tools=[Work().work]).run(store=store, show=False))
    assert whole.settings["workflow"]["files"] == {"deep/inner.yaml": INNER, "deep/tasks.yaml": TASKS}
    assert (store.folder / f"{whole.id}.jsonl").read_text().count("file: tasks.yaml") == 1
    inner.write_text("workflow: [{id: renamed, type: tool, name: gone, args: {what: other}}]")
    tasks.unlink()
    outer.write_text("workflow:\n  - {id: other, type: tool, name: work, args: {what: other}}\n")
    for folder in store.kept[:-1:3]:
        here, work = Store(folder), Work()
        with pytest.raises(SettingsError, match="another workflow"):
            by_itself(recover(whole.id, agent=Workflow.from_yaml("outer.yaml", tools=[work.work]).orchestration(), store=here))
        with monkeypatch.context() as patch:
            patch.chdir(elsewhere)
            run = by_itself(recover(whole.id, tools=[work.work], store=here))
        assert (run.status, run.text) == ("completed", "j done")
        assert set(work.done) <= {"i", "j"}


def test_answered_run_continues_with_the_files_in_its_log(tmp_path: Path) -> None:
    outer, inner, _ = files_in(tmp_path)
    outer.write_text('workflow: [{id: h, type: human, ask: "Which?"}, {id: n, type: workflow, file: deep/inner.yaml}]')
    store, work = Store(tmp_path / "runs"), Work()
    run = by_itself(Workflow.from_yaml(outer, tools=[work.work]).run(store=store, suspend=True, show=False))
    assert run.is_suspended
    inner.write_text("workflow: [{id: renamed, type: tool, name: gone, args: {what: other}}]")
    run = by_itself(recover(run.id, tools=[work.work], store=store, answers={"q1": "this"}))
    assert (run.status, run.text, set(work.done)) == ("completed", "j done", {"i", "j"})


def test_run_whose_log_lacks_files_reads_them_from_disk(tmp_path: Path) -> None:
    outer, inner, _ = files_in(tmp_path)
    store = Snapshots(tmp_path / "whole")
    whole = by_itself(Workflow.from_yaml(outer, tools=[Work().work]).run(store=store, show=False))
    folder, work = store.kept[0], Work()
    lines = (folder / f"{whole.id}.jsonl").read_bytes().splitlines(keepends=True)
    first = json.loads(lines[0])
    del first["settings"]["workflow"]["files"]
    (folder / f"{whole.id}.jsonl").write_bytes(json.dumps(first, separators=(",", ":")).encode() + b"\n" + b"".join(lines[1:]))
    inner.write_text("workflow: [{id: k, type: tool, name: work, args: {what: k}}]")
    run = by_itself(recover(whole.id, tools=[work.work], store=Store(folder), trust_log=True))
    assert (run.text, set(work.done)) == ("k done", {"k"})


def test_rerun_from_a_step_also_uses_the_logged_files(tmp_path: Path) -> None:
    outer, inner, tasks = files_in(tmp_path)
    store = Snapshots(tmp_path / "whole")
    workflow = Workflow.from_yaml(outer, tools=[Work().work])
    earlier = by_itself(workflow.run(store=store, show=False))
    again = by_itself(workflow.run(rerun_from="m", of=earlier, store=store, show=False))
    assert again.settings["workflow"] == earlier.settings["workflow"]
    for path in (inner, tasks):
        path.unlink()
    folder, work = (
        next(folder for folder in store.kept if (folder / f"{again.id}.jsonl").exists() and Store(folder).load(again.id).steps),
        Work(),
    )
    run = by_itself(recover(again.id, tools=[work.work], store=Store(folder)))
    assert (run.status, run.text) == ("completed", "j done")


def test_recovery_requires_the_python_agent_of_a_nested_file(tmp_path: Path) -> None:
    _, inner, _ = files_in(tmp_path)
    inner.write_text("workflow: [{type: agent, name: helper}]")
    store, helper = Snapshots(tmp_path / "whole"), Agent(ScriptedModel(["Yes.", "No."]))
    outer = tmp_path / "outer.yaml"
    whole = by_itself(Workflow.from_yaml(outer, agents={"helper": helper}).run(store=store, show=False))
    here = Store(store.kept[0])
    with pytest.raises(SettingsError, match="used the agent helper, a Python object"):
        by_itself(recover(whole.id, store=here))


GATED = """
workflow:
  - id: p
    type: parallel
    steps: [{id: x, type: agent, name: a}, {id: y, type: agent, name: b}, {id: h, type: human, ask: "Which?"}]
"""


def test_each_suspended_agent_gets_the_answers_to_its_questions(tmp_path: Path) -> None:
    paid: list[int] = []

    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    def ask(call: Any, run: Run) -> Ask:
        return Ask("May it?")

    def saying(*replies: Any) -> Workflow:
        agents = {name: Agent(ScriptedModel(replies), tools=[pay], gates=[ask], name=name) for name in "ab"}
        return Workflow.from_yaml(GATED, agents=agents)

    store = Store(tmp_path)
    asking = saying(ToolCall("pay", {"euros": 1}))
    waiting = by_itself(asking.run(store=store, suspend=True, show=False))
    asked = {question.id: question for run_id in store.ids() for question in store.load(run_id).waiting}
    assert (
        waiting.is_suspended
        and [question_asked.kind for question_asked in asked.values()].count("approval") == 2
        and len(asked) == 3
    )
    assert {question.id for question in waiting.waiting} == {"p/x/q1", "p/y/q1", "q1"} == {*asked}
    (human,) = [question for question in waiting.waiting if question.kind == "human_step"]
    left = by_itself(recover(waiting.id, agent=saying().orchestration(), store=store, answers={human.id: "red"}))
    assert left.is_suspended and paid == [], "an unanswered question stays open and fails nothing"
    assert {question.id for question in left.waiting} == {*asked} - {human.id} and store.load(left.id) == left
    answers = {question_asked: True for question_asked in asked if question_asked != human.id}
    run = by_itself(recover(waiting.id, agent=saying("Done.").orchestration(), store=store, answers=answers))
    assert (run.status, paid, run.steps["p"]["outputs"]["h"]["output"]) == ("completed", [1, 1], "red")
    assert [record.answer for record in run.questions if record.question.kind == "approval"] == [True, True]


def test_run_that_started_at_a_later_step_recovers_there(tmp_path: Path) -> None:
    text = """
workflow:
  - {id: a, type: tool, name: work, args: {what: a}}
  - {id: c, type: condition, condition: "{{ len($steps.a.runs) >= 2 }}", false: {goto: a}}
  - {id: past, type: condition, condition: "{{ $steps.a.output == 'a done' }}", true: {goto: d}}
  - {id: skipped, type: tool, name: work, args: {what: skipped}}
  - {id: d, type: tool, name: work, args: {what: d}}
  - {id: e, type: tool, name: work, args: {what: e}}
  - {id: c2, type: condition, condition: "{{ len($steps.e.runs) >= 2 }}", false: {goto: d}}
"""
    first = by_itself(Workflow.from_yaml(text, tools=[Work().work]).run(show=False))
    assert first.status == "completed" and first.step_context["order"] == ["a", "c", "past", "d", "e", "c2"]
    store, work = Snapshots(tmp_path / "whole"), Work()
    whole = by_itself(Workflow.from_yaml(text, tools=[work.work]).run(store=store, show=False, rerun_from="e", of=first))
    assert work.done == {"e": 2, "d": 1} and [len(whole.steps[one]["runs"]) for one in "ade"] == [2, 3, 2]
    for number, folder in enumerate(store.kept[:-1]):
        here, work = Store(folder), Work()
        if number < whole.settings["rerun"]["events"]:
            before = here.path(whole.id).read_bytes()
            with pytest.raises(SettingsError, match="died before it copied the outputs"):
                by_itself(recover(whole.id, tools=[work.work], store=here))
            assert here.path(whole.id).read_bytes() == before
            continue
        run = by_itself(recover(whole.id, tools=[work.work], store=here))
        assert run.step_context == whole.step_context and set(work.done) <= {"d", "e"}


def test_recovery_requires_the_python_agent_of_the_run(tmp_path: Path) -> None:
    store = Snapshots(tmp_path / "whole")
    text = "workflow:\n  - {type: agent, name: judge}\n  - {id: last, type: agent, name: judge}\n"

    def judge() -> dict[str, Agent]:
        return {"judge": Agent(ScriptedModel(["fine", "good"]))}

    whole = by_itself(Workflow.from_yaml(text, agents=judge()).run(store=store, show=False))
    here = Store(store.kept[4])
    with pytest.raises(SettingsError, match="used the agent judge, a Python object") as caught:
        by_itself(recover(whole.id, store=here))
    assert "agents:" not in str(caught.value) and 'recover(run, agents={"judge": ...})' in str(caught.value)
    assert by_itself(recover(whole.id, agents=judge(), store=here)).status == "completed"
