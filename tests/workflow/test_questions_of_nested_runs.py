"""Questions of nested runs are questions of the workflow's run, which takes their answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from snapshots import Snapshots
from virtual_time import by_itself

from agentnb import Agent, Run, Store, ToolCall, Workflow, recover
from agentnb.core.questions import NoAnswer
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask

INNERMOST = """
workflow:
  - {id: payer, type: agent, name: payer}
  - {id: sure, type: human, ask: "Really?", confirm: true}
"""
INNER = """
workflow:
  - {id: who, type: human, ask: "Who signs?"}
  - {id: deep, type: workflow, file: innermost.yaml}
"""
OUTER = """
workflow:
  - id: both
    type: parallel
    steps:
      - {id: payer, type: agent, name: payer}
      - {id: sub, type: workflow, file: inner.yaml}
      - {id: when, type: human, ask: "When?", choices: [now, later]}
  - {id: count, type: tool, name: count}
  - {id: again, type: condition, condition: "{{ len($steps.count.runs) >= 2 }}", false: {goto: both}}
"""


def count() -> str:
    """Be counted."""
    return "counted"


class Payments:
    """Agents that pay if the person allows it, and a workflow of three files that runs them."""

    def __init__(self, folder: Path) -> None:
        self.paid: list[int] = []
        for name, text in {"innermost": INNERMOST, "inner": INNER, "outer": OUTER}.items():
            (folder / f"{name}.yaml").write_text(text)
        self.file = folder / "outer.yaml"

    def agents(self) -> dict[str, Agent]:
        def pay(euros: int) -> str:
            """Pay."""
            self.paid.append(euros)
            return f"{euros} paid"

        def replies(request: Any) -> Any:
            return "Paid." if any(message.role == "tool" for message in request.messages) else ToolCall("pay", {"euros": 5})

        def gate(call: Any, run: Run) -> Ask:
            return Ask("May it pay?")

        return {"payer": Agent(ScriptedModel([replies] * 20), tools=[pay], gates=[gate], name="payer")}

    def workflow(self) -> Workflow:
        return Workflow.from_yaml(self.file, agents=self.agents(), tools=[count])

    def resumed(self, run: Run | str, store: Store, **options: Any) -> Run:
        found: Run = by_itself(recover(run, agent=self.workflow().orchestration(), store=store, **options))
        return found


def test_suspended_run_lists_nested_questions_and_accepts_each_answer(tmp_path: Path) -> None:
    store, payments = Store(tmp_path / "runs"), Payments(tmp_path)
    run = by_itself(payments.workflow().run("Pay.", store=store, suspend=True, show=False))
    answers = {
        "both/payer/q1": True,
        "q1": "now",
        "both/sub/q1": "Ada",
        "both/sub/deep/payer/q1": True,
        "both/sub/deep/q1": True,
    }
    again = {name.replace("q1", "q2"): value for name, value in answers.items()}
    asked: list[set[str]] = []
    left = answers | again
    while run.is_suspended:
        assert store.load(run.id).waiting == run.waiting
        asked.append({question.id for question in run.waiting})
        assert {question.call_id for question in run.waiting} <= {"both/payer", "both/sub", "both/when"}
        name = min(asked[-1])
        run = payments.resumed(run.id, store, answers={name: left.pop(name)}, suspend=True)
    assert asked[0] == {"both/payer/q1", "both/sub/q1", "q1"}
    assert {"both/sub/deep/payer/q1"} in [question_asked - {"q1"} for question_asked in asked] and {*map(len, asked)} == {
        1,
        2,
        3,
    }
    assert (run.status, left, payments.paid) == ("completed", {}, [5, 5, 5, 5])
    assert [(record.question.id, record.outcome, record.by) for record in run.questions] == [
        (record.question.id, "answered", "person") for record in run.questions
    ]
    assert len(run.questions) == len({record.question.id for record in run.questions}) == 10
    assert store.load(run.id) == run


def test_nested_question_can_be_declined_or_cancelled_on_resume(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for no_answer, outcome in ((NoAnswer.DECLINE, "declined"), (NoAnswer.CANCEL, "cancelled")):
        with subtests.test(outcome):
            (tmp_path / outcome).mkdir()
            store, payments = Store(tmp_path / outcome / "runs"), Payments(tmp_path / outcome)
            run = by_itself(payments.workflow().run("Pay.", store=store, suspend=True, show=False))
            run = payments.resumed(run.id, store, answers={"both/sub/q1": no_answer}, suspend=True)
            result = {record.question.id: record.outcome for record in run.questions}
            assert result["both/sub/q1"] == outcome
            nested = run.step_records["both/sub"].nested
            assert [record.outcome for record in store.load(nested).questions] == [outcome]


def test_invalid_answer_is_refused_and_the_run_still_waits(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store, payments = Store(tmp_path / "runs"), Payments(tmp_path)
    run = by_itself(payments.workflow().run("Pay.", store=store, suspend=True, show=False))
    for answers, expected in {
        ("payer/q1", True): "has no open question 'payer/q1'. Open: ",
        ("both/payer/q1", 7): "Please choose one of: approve, deny",
        ("q1", "never"): "Please choose one of: now, later",
    }.items():
        with subtests.test(expected), pytest.raises(SettingsError, match=expected):
            payments.resumed(run.id, store, answers=dict([answers]))
        assert store.load(run.id).is_suspended


def test_resuming_interactively_asks_the_same_questions(tmp_path: Path) -> None:
    store, payments = Store(tmp_path / "runs"), Payments(tmp_path)
    suspended = by_itself(payments.workflow().run("Pay.", store=store, suspend=True, show=False))
    said: list[str] = []

    def person(question: Any) -> Any:
        said.append(question.id)
        return {"When?": "now", "Who signs?": "Ada"}.get(question.message, True)

    run = payments.resumed(suspended.id, store, answer=person)
    assert (run.status, payments.paid) == ("completed", [5, 5, 5, 5])
    assert len(said) == len({*said}) == 10 and {"both/sub/deep/payer/q2", "both/payer/q1"} <= {*said}
    assert {record.outcome for record in run.questions} == {"answered"} and store.load(run.id) == run


@pytest.mark.slow("it dies after each of some hundred events, by day after a third")
def test_answer_survives_a_later_process_death_at_any_event(tmp_path: Path, subtests: pytest.Subtests) -> None:
    payments = Payments(tmp_path)
    run = by_itself(payments.workflow().run("Pay.", store=Store(tmp_path / "runs"), suspend=True, show=False))
    store = Snapshots(tmp_path / "runs")
    answers = {"both/payer/q1": True, "both/sub/q1": "Ada"}
    payments.resumed(run.id, store, answers=answers, suspend=True)
    assert payments.paid == [5] and len(store.kept) > 20
    for folder in store.kept[:: size(3, nightly=1)]:
        with subtests.test(folder.name):
            later, here = Payments(tmp_path), Store(folder)
            assert answered(here, nested=True) <= answered(here, nested=False), "logged in the parent run first"
            open_ids = {question.id for question in here.load(run.id).waiting}
            left = {name: value for name, value in answers.items() if name in open_ids}
            resumed = later.resumed(run.id, here, answers=left, suspend=True)
            assert sorted(question.message for question in resumed.waiting) == ["May it pay?", "When?"]
            assert len(later.paid) <= 1 and here.load(run.id) == resumed


def test_run_killed_during_a_question_resumes_with_and_without_answer(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store, payments = Snapshots(tmp_path / "whole"), Payments(tmp_path)
    workflow = Workflow.from_yaml("workflow:\n  - {type: agent, name: payer}\n", agents=payments.agents())
    whole = by_itself(workflow.run(store=store, show=False, answer=lambda question: True))
    assert whole.status == "completed" and payments.paid == [5]
    open_in = [folder for folder in store.kept if any(outcomes(Store(folder), nested=True, outcome="open"))]
    assert len(open_in) > 1
    for folder in open_in:
        was_answered = any(outcomes(Store(folder), nested=False, outcome="answered"))
        for answer in (None, lambda question: True):
            with subtests.test(f"{folder.name} {answer is not None}"):
                again, here = Payments(tmp_path), Store(shutil.copytree(folder, tmp_path / f"{folder.name}{bool(answer)}"))
                run = by_itself(recover(whole.id, agents=again.agents(), store=here, answer=answer))
                goes_on = was_answered or answer is not None
                assert (run.status, again.paid) == (("completed", [5]) if goes_on else ("waiting_on_user", []))
                assert [question.message for question in run.waiting] == ([] if goes_on else ["May it pay?"])


def answered(store: Store, *, nested: bool) -> set[str]:
    runs = [run for run in map(store.load, store.ids()) if bool(run.parent_id) == nested]
    return {record.question.id for run in runs for record in run.questions if record.outcome == "answered"}


def outcomes(store: Store, *, nested: bool, outcome: str) -> list[bool]:
    runs = [store.load(run_id) for run_id in store.ids()]
    return [record.outcome == outcome for run in runs if bool(run.parent_id) == nested for record in run.questions]
