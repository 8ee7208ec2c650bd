"""The same courses in each form: equal calls and outcomes, also after a kill."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from property_settings import size
from ruamel.yaml import YAML
from snapshots import Snapshots
from task_examples import cut, on_virtual_time

from agentnb import Plan, Run, Store, Workflow, recover, tables, tool
from agentnb.core.log.events import ToolFinished, ToolStarted
from agentnb.core.log.work_events import BranchTaken, StepAttempted, StepFinished, StepStarted
from agentnb.display.card.text import head_line
from agentnb.errors import WorkflowError

STEP_ENDS = (StepAttempted, StepFinished)
"""Events that make a call final: the end of its step or, in a plan, of the call itself."""
FORMS = {"workflow": 36, "tasks": 28, "plan": 12, "chat": 12}
"""The forms, with the minimum number of courses in each."""


class Course(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The calls and the end of a course, and its text in each form."""

    calls: str
    status: str = "completed"
    answered: dict[str, str] = {}
    sorted: bool = False
    inputs: dict[str, Any] = {}
    top: dict[str, Any] = {}
    file: Any = None
    workflow: Any = None
    tasks: Any = None
    plan: Any = None
    chat: Any = None
    reasons: dict[str, str] = msgspec.field(name="not", default={})


def read_courses() -> dict[str, Course]:
    """Return the courses of the file, by name."""
    text = Path(__file__).with_name("courses.yaml").read_text(encoding="utf-8")
    loaded = YAML(typ="safe", pure=True).load(text)
    return {name: msgspec.convert(one, Course) for name, one in loaded.items() if name != "x-not"}


COURSES = read_courses()


def spelled(form: str, step: Any) -> Any:
    """Replace ``note`` in a step by the tool call of the form."""
    if isinstance(step, list):
        return [spelled(form, one) for one in step]
    if not isinstance(step, dict):
        return step
    if "note" not in step:
        return {key: spelled("plan" if key == "plan" else form, value) for key, value in step.items()}
    args = {"x" if key == "note" else key: value for key, value in step.items() if key in _OF_CALLS}
    rest = {key: value for key, value in step.items() if key not in _OF_CALLS}
    if form == "tasks":
        return {"action": "note", "input": args, **rest}
    if form == "chat":
        return {"type": "action", "description": "Note it.", "tools": ["note"], "args": args, **rest}
    named = {"id": step["note"]} if form == "workflow" else {}
    return {**named, "type": "tool", "name": "note", "args": args, **rest}


_OF_CALLS = {"note", "fails", "gives", "takes"}


def forms(course: Course, folder: Path) -> Iterator[tuple[str, Workflow | Plan]]:
    """Yield each form that can express the course, with the course in it."""
    if course.file:
        (folder / "inner.yaml").write_text(json.dumps({"stage": spelled("tasks", course.file)}), encoding="utf-8")
    for form in FORMS:
        if (steps := spelled(form, getattr(course, form))) is None:
            continue
        if form == "workflow":
            path = folder / "workflow.yaml"
            path.write_text(json.dumps({"inputs": course.inputs, **course.top, "workflow": steps}), encoding="utf-8")
            yield form, Workflow.from_yaml(path)
        elif form == "tasks":
            yield form, Workflow.from_yaml(json.dumps({"init": _VARIABLES | course.inputs, **course.top, "stage": steps}))
        else:
            numbered = [{"stepNumber": number, **step} for number, step in enumerate(steps, 1)] if form == "chat" else steps
            yield form, Plan.read({"steps": numbered})


_VARIABLES = dict.fromkeys("nyz")


def noting(calls: list[str]) -> Any:
    """Return the tool of the courses: it records its calls and fails as often as the course says."""

    @tool(repeatable=True)
    async def note(x: str, fails: int = 0, takes: float = 0, gives: str = "") -> str:
        """Note something."""
        calls.append(x)
        await asyncio.sleep(takes)
        if calls.count(x) <= fails:
            raise ValueError("it is wrong")
        return gives or x.upper()

    return note


def ended(make: Any) -> Run:
    async def run() -> Run:
        try:
            return await make()
        except WorkflowError as error:
            assert isinstance(error.run, Run)
            return error.run

    result: Run = on_virtual_time(run)
    return result


def done(run: Run, lines: int | None = None) -> list[str]:
    """Return the arguments of calls that ended within the first lines."""
    given: dict[str, str] = {}
    of_plans = {event.step for event in run.events if isinstance(event, StepStarted) and event.step_kind == "call"}
    result = []
    for event in run.events[:lines]:
        if isinstance(event, ToolStarted):
            given[event.step] = event.call.arguments["x"]
        elif isinstance(event, STEP_ENDS) or (isinstance(event, ToolFinished) and event.step in of_plans):
            result += [given.pop(event.step)] if event.step in given else []
    return result


def rows_of(runs: list[Run]) -> list[list[tuple[Any, ...]]]:
    """Return the calls of each run in the table of steps: attempt, status and output."""
    table = tables.steps(runs)
    table = table[(table["agent"] == "note") & ~table["kind"].isin(["map", "emit"])].sort_values("started_at")
    rows: dict[str, list[tuple[Any, ...]]] = {run.id: [] for run in runs}
    for row in table.itertuples():
        rows[row.run_id].append((int(row.attempt), row.status, None if row.output != row.output else row.output))
    return [*rows.values()]


def log_of(run: Run) -> list[tuple[tuple[Any, ...], ...]]:
    """Return the logged events of each step that makes a call, without jumps, which another step of the form may make."""
    called = {event.step for event in run.events if isinstance(event, ToolStarted)}
    of_steps: dict[str, list[tuple[Any, ...]]] = {step: [] for step in called}
    for event in run.events:
        if (step := getattr(event, "step", "")) in called and not isinstance(event, BranchTaken):
            of_steps[step].append(
                (type(event).__name__, *(getattr(event, name, None) for name in ("attempt", "status", "error")))
            )
    return sorted(tuple(events) for events in of_steps.values())


def test_every_scenario_has_each_file_form_or_a_reason() -> None:
    for name, course in COURSES.items():
        said = [form for form in FORMS if getattr(course, form) is not None]
        assert {*said, *course.reasons} == {*FORMS} and not {*said} & {*course.reasons}, name
        assert {*course.answered} == ({*said} if course.status == "waiting_on_user" else set()), name
    counted = {form: sum(getattr(course, form) is not None for course in COURSES.values()) for form in FORMS}
    assert all(counted[form] >= least for form, least in FORMS.items()), counted


@pytest.mark.usefixtures("virtual_time")
def test_recovered_run_makes_the_same_calls_in_each_format(tmp_path: Path, subtests: Any) -> None:
    for name, course in COURSES.items():
        shown, wholes = set(), []
        for form, what in forms(course, tmp_path):
            calls: list[str] = []
            store = (Snapshots if course.file else Store)(tmp_path / f"{name} {form}" / "runs")
            with subtests.test(f"{name}: {form}"):
                whole = ended(lambda what=what, calls=calls, store=store: what.run(**_options(calls, store)))
                in_order = sorted if course.sorted else list
                assert (in_order("".join(calls)), whole.status) == (in_order(course.calls), course.status)
                wholes.append(whole)
                shown.add((figures_of(whole), str(log_of(whole))))
                assert len(shown) == 1, "\n".join(map(str, shown))
                if form in course.answered:
                    whole = answer_questions(whole, calls, store)
                at_end = sorted("".join(calls)), whole.status
                assert at_end == (sorted(course.answered.get(form, course.calls)), whole.status)
                for logs, again in cuts(store, whole, len(name), size(40, nightly=1)):
                    run = ended(lambda logs=logs, again=again, run_id=whole.id: recover(run_id, **_options(again, logs)))
                    if form in course.answered and run.waiting:
                        run = answer_questions(run, again, logs)
                    assert (sorted("".join(again)), run.status) == at_end, logs.folder
        rows = [tuple(sorted(rows) if course.sorted else rows) for rows in rows_of(wholes)]
        assert len({*rows}) == 1, f"{name}: {rows}"


def answer_questions(run: Run, calls: list[str], store: Store) -> Run:
    """Continue a suspended run with answers to its questions; assert that it then ends well."""
    answers = {question.id: "This" for question in run.waiting}
    result = ended(lambda: recover(run.id, answers=answers, **_options(calls, store)))
    assert answers and result.status == "completed"
    return result


def cuts(store: Store, run: Run, first: int, step: int) -> Iterator[tuple[Store, list[str]]]:
    """Yield every so many events what a process leaves that dies there: its logs, and its calls that ended."""
    if isinstance(store, Snapshots):
        for folder in store.kept[first % step : -1 : step]:
            logs = Store(folder)
            yield logs, [call for run_id in logs.ids() for call in done(logs.load(run_id))]
        return
    for lines in range(1 + first % step, len(run.events), step):
        yield cut(store, run, lines, store.folder.with_name(str(lines))), done(run, lines)


def figures_of(run: Run) -> str:
    """Return the call counts in the first line of a run's card."""
    return ", ".join(re.findall(r"\d+ tool calls?|\d+ failed", head_line(run)))


def _options(calls: list[str], store: Store) -> dict[str, Any]:
    return {"tools": [noting(calls)], "store": store, "suspend": True, "show": False}
