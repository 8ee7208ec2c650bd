"""The same courses in each form that can say them: the same calls in the same order, the same outcome, also after a kill."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from property_settings import size
from task_examples import cut, on_virtual_time

from agentnb import Plan, Run, Store, Workflow, recover, tool
from agentnb.core.log.events import ToolFinished, ToolStarted
from agentnb.core.log.work_events import StepAttempted, StepFinished
from agentnb.errors import WorkflowError

CALL_ENDS, STEP_ENDS = (ToolFinished,), (StepAttempted, StepFinished)
"""What keeps a call from being made again after a kill: in a plan its own end, elsewhere that of its step."""


class Course(NamedTuple):
    """What a course calls and how it ends, and how each form says it; empty for a form that cannot."""

    calls: str
    workflow: str = ""
    tasks: str = ""
    plan: str = ""
    chat: str = ""
    status: str = "completed"
    is_ordered: bool = True


COURSES = {
    "one after the other": Course(
        "ab",
        "[{type: tool, name: note, args: {x: a}}, {id: b, type: tool, name: note, args: {x: b}}]",
        "{a: {action: note, input: {x: a}}, b: {action: note, input: {x: b}}}",
        "[{type: tool, name: note, args: {x: a}}, {type: tool, name: note, args: {x: b}}]",
        "[{args: {x: a}}, {args: {x: b}, dependsOn: [1]}]",
    ),
    "what an earlier one gave": Course(
        "aA",
        "[{type: tool, name: note, args: {x: a}}, {id: b, type: tool, name: note, args: {x: '{{ $steps.note.output }}'}}]",
        "{a: {action: note, input: {x: a}, post: {y: '${result}'}}, b: {action: note, input: {x: '${y}'}}}",
        "[{type: tool, name: note, args: {x: a}}, {type: tool, name: note, args: {x: '$step[0].output'}}]",
        "[{args: {x: a}}, {args: {x: '$step[0].output'}}]",
    ),
    "a branch": Course(
        "ab",
        "[{type: tool, name: note, args: {x: a}}, {type: condition, condition: \"{{ $steps.note.output == 'A' }}\", true: "
        "{id: b, type: tool, name: note, args: {x: b}}, false: {id: c, type: tool, name: note, args: {x: c}}}]",
        "{a: {action: note, input: {x: a}, post: {y: '${result}'}, goto: [{when: y == 'A', task: b}, {task: c}]}, "
        "b: {action: note, input: {x: b}, goto: {task: end}}, c: {action: note, input: {x: c}}}",
    ),
    "one that is skipped": Course(
        "ab",
        "[{type: tool, name: note, args: {x: a}}, {type: condition, condition: \"{{ $steps.note.output == 'Z' }}\", true: "
        "{id: c, type: tool, name: note, args: {x: c}}}, {id: b, type: tool, name: note, args: {x: b}}]",
        "{a: {action: note, input: {x: a}, post: {y: '${result}'}}, c: {when: y == 'Z', action: note, input: {x: c}}, "
        "b: {action: note, input: {x: b}}}",
        "[{type: tool, name: note, args: {x: a}}, {type: noop}, {type: tool, name: note, args: {x: b}}]",
    ),
    "a loop": Course(
        "aaa",
        "[{type: tool, name: note, args: {x: a}}, "
        "{type: condition, condition: '{{ len($steps.note.runs) < 3 }}', true: {goto: note}}]",
        "{a: {action: note, input: {x: a}, post: {n: '${(n or 0) + 1}'}, goto: {when: n < 3, task: a}}}",
    ),
    "several at once": Course(
        "abc",
        "[{type: map, over: [a, b, c], step: {type: tool, name: note, args: {x: '{{ $item }}'}}}]",
        "{a: {emit: {forEach: [a, b, c], as: i, task: {one: {action: note, input: {x: '${i}'}}}}, await: true}}",
        chat="[{args: {x: a}}, {args: {x: b}}, {args: {x: c}}]",
        is_ordered=False,
    ),
    "one that is tried again": Course(
        "aab",
        "[{type: tool, name: note, args: {x: a, fails: 1}, retry: {max_retries: 1}}, "
        "{id: b, type: tool, name: note, args: {x: b}}]",
        "{a: {action: note, input: {x: a, fails: 1}, retry: {maxRetries: 1}}, b: {action: note, input: {x: b}}}",
        "[{type: tool, name: note, args: {x: a, fails: 1}, retries: 1}, {type: tool, name: note, args: {x: b}}]",
    ),
    "one that fails": Course(
        "a",
        "[{type: tool, name: note, args: {x: a, fails: 9}}, {id: b, type: tool, name: note, args: {x: b}}]",
        "{a: {action: note, input: {x: a, fails: 9}}, b: {action: note, input: {x: b}}}",
        "[{type: tool, name: note, args: {x: a, fails: 9}}, {type: tool, name: note, args: {x: b}}]",
        "[{args: {x: a, fails: 9}}, {args: {x: b}, dependsOn: [1]}]",
        status="failed",
    ),
    "one that ends it": Course(
        "a",
        "[{type: tool, name: note, args: {x: a}}, {type: condition, condition: \"{{ $steps.note.output == 'A' }}\", "
        "true: {goto: end}}, {id: b, type: tool, name: note, args: {x: b}}]",
        "{a: {action: note, input: {x: a}, goto: {task: end}}, b: {action: note, input: {x: b}}}",
    ),
    "one that gives it up": Course(
        "a",
        tasks="{a: {action: note, input: {x: a, fails: 9}, abort: true}, b: {action: note, input: {x: b}}}",
        plan="[{type: tool, name: note, args: {x: a}}, {type: abort, reason: enough}, {type: tool, name: note, args: {x: b}}]",
        status="failed",
    ),
    "a question": Course(
        "a",
        "[{type: tool, name: note, args: {x: a}}, {type: human, ask: Which?}, {id: b, type: tool, name: note, args: {x: b}}]",
        plan="[{type: tool, name: note, args: {x: a}}, {type: elicitation, elicitation: {message: Which?}}]",
        status="waiting_on_user",
    ),
}


def forms(course: Course) -> Iterator[tuple[str, Workflow | Plan]]:
    """Each form that can say the course, and the course in it."""
    if course.workflow:
        yield "workflow", Workflow.from_yaml(f"workflow: {course.workflow}\n")
    if course.tasks:
        yield "tasks", Workflow.from_yaml(f"init: {{n: null, y: null}}\nstage: {course.tasks}\n")
    if course.plan:
        yield "plan", Plan.read(f"steps: {course.plan}\n")
    if course.chat:
        numbers = count(1)
        about = "type: action, description: Note it., tools: [note]"
        yield (
            "chat",
            Plan.read(re.sub("{args", lambda _: f"{{stepNumber: {next(numbers)}, {about}, args", f"steps: {course.chat}")),
        )


def noting(calls: list[str]) -> Any:
    """The tool of the courses: notes what it is called with, and fails so often for it."""

    @tool(repeatable=True)
    async def note(x: str, fails: int = 0) -> str:
        """Note something."""
        calls.append(x)
        await asyncio.sleep(0)
        if calls.count(x) <= fails:
            raise ValueError("it is wrong")
        return x.upper()

    return note


def ended(make: Any) -> Run:
    async def run() -> Run:
        try:
            return await make()
        except WorkflowError as error:
            assert isinstance(error.run, Run)
            return error.run

    found: Run = on_virtual_time(run)
    return found


def done(run: Run, lines: int, ends: tuple[type, ...]) -> list[str]:
    """What the calls were given that are over when only the first lines were written: those of steps with such an event."""
    given: dict[str, str] = {}
    found = []
    for event in run.events[:lines]:
        if isinstance(event, ToolStarted):
            given[event.step] = event.call.arguments["x"]
        elif isinstance(event, ends) and event.step in given:
            found.append(given.pop(event.step))
    return found


def test_each_form_makes_the_calls_of_a_course_and_so_does_its_recovered_run(tmp_path: Path, subtests: Any) -> None:
    for name, course in COURSES.items():
        for form, what in forms(course):
            calls: list[str] = []
            store, expected = Store(tmp_path / f"{name} {form}"), [*course.calls]
            with subtests.test(f"{name}: {form}"):
                whole = ended(lambda what=what, calls=calls, store=store: what.run(**_options(calls, store)))
                in_order = calls if course.is_ordered else sorted(calls)
                assert (in_order, whole.status) == (expected, course.status)
                for lines in range(1, len(whole.events), size(3, nightly=1)):
                    again = done(whole, lines, CALL_ENDS if isinstance(what, Plan) else STEP_ENDS)
                    left = cut(store, whole, lines, tmp_path / f"{name} {form} {lines}")
                    run = ended(lambda left=left, again=again, run_id=whole.id: recover(run_id, **_options(again, left)))
                    assert (sorted(again), run.status) == (sorted(expected), course.status), lines


def _options(calls: list[str], store: Store) -> dict[str, Any]:
    return {"tools": [noting(calls)], "store": store, "suspend": True, "show": False}
