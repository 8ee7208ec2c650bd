"""The example task files, the tools and the planner that their scripts describe, and how they are run."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from virtual_time import VirtualTimeLoop

from agentnb import Run, Store, Workflow, tool
from agentnb.core.work_events import StepStarted
from agentnb.errors import ToolFailed, WorkflowError
from agentnb.workflow.json_in_text import json_values
from agentnb.workflow.tasks.actions import Action, ActionCall, tool_name

HERE = Path(__file__).parents[1] / "examples" / "tasks"
NO_STEPS = {"intention": None, "steps": [], "elicitation": None}
_REFERENCE = re.compile(r"\$step\[(\d+)\]\.output\.(\w+)")


def script(name: str) -> dict[str, Any]:
    """One scripted run of an example, as its file says it."""
    return dict(YAML(typ="safe", pure=True).load((HERE / name).read_text(encoding="utf-8")))


class ScriptedTools:
    """Tools that answer as a script says, each call by its arguments; they note what was called, in its order."""

    def __init__(self, answers: Mapping[str, list[dict[str, Any]]]) -> None:
        self.called: list[tuple[str, dict[str, Any]]] = []
        self._answers = copy.deepcopy(dict(answers))
        self.functions = [self._function(name) for name in answers]

    def _function(self, name: str) -> Any:
        answers = self._answers[name]
        arguments = {key for one in answers for key in one["args"]}

        async def answer(**given: Any) -> Any:
            given = {key: value for key, value in given.items() if key in arguments}
            self.called.append((name, given))
            found = next(one for one in answers if one["args"] == given)
            answers.remove(found)
            if "error" in found:
                raise ToolFailed(found["error"])
            return found["result"]

        named = [Parameter(key, Parameter.KEYWORD_ONLY, annotation=Any) for key in sorted(arguments)]
        answer.__signature__ = Signature(named)  # type: ignore[attr-defined]
        answer.__annotations__ = dict.fromkeys(sorted(arguments), Any)
        answer.__doc__ = f"Answer as the script says of {name}."
        return tool(name=name)(answer)


class ScriptedPlanner:
    """The two actions of the planner, with replies instead of a model."""

    def __init__(self, replies: list[str]) -> None:
        self.saw: list[list[str]] = []
        """The names in the results that it was shown, each time."""
        self.plans: list[dict[str, Any]] = []
        self._replies = list(replies)
        self.actions: dict[str, Action] = {"llm/core:plan": self._plan, "llm/exec:run_plan": self._run_plan}

    async def _plan(self, call: ActionCall) -> dict[str, Any]:
        self.saw.append([one["name"] for one in call.input["results"] or []])
        reply = self._replies.pop(0)
        found = next((one for one in json_values(reply) if "steps" in one), None)
        plan = {**NO_STEPS, **(found or {})}
        self.plans.append(plan)
        answer = None if found else reply
        return {"plan": plan, "answer": answer, "results": call.input["results"], "transcript": None}

    async def _run_plan(self, call: ActionCall) -> dict[str, Any]:
        results, own = list(call.input["results"] or []), []
        for number, step in enumerate(call.input["plan"]["steps"]):
            name, arguments = tool_name(step["name"]), resolved(step["args"], own)
            given = await call.call_tool(str(number), name, arguments, step.get("retries", 0))
            own.append({"name": name, "args": arguments, "result": given.result, "error": given.error})
            if given.error is not None and await call.failed(name, given.error):
                break
        return {"results": results + own, "elicitation": None, "transcript": None}


def resolved(arguments: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """Arguments with ``$step[N].output.FIELD`` replaced."""
    found = {}
    for key, value in arguments.items():
        match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        found[key] = json_values(results[int(match[1])]["result"])[0][match[2]] if match else value
    return found


def on_virtual_time(make: Callable[[], Any]) -> Any:
    """What the coroutine returns, on a loop whose time passes at once."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(make())


def played(text: str | Path, inputs: Mapping[str, Any] | None = None, store: Store | None = None, **settings: Any) -> Run:
    """The run of a task file, also if it failed."""
    workflow = Workflow.from_yaml(text, inputs=tuple(inputs or ()))

    async def run() -> Run:
        try:
            return await workflow.run(inputs=inputs, store=store, show=False, **settings)
        except WorkflowError as error:
            assert isinstance(error.run, Run)
            return error.run

    return on_virtual_time(run)


def tasks_of(run: Run) -> list[str]:
    """The names of the tasks that began, in their order; attempts, items and calls are not counted."""
    kinds = ("task", "emit", "await")
    starts = [event for event in run.events if isinstance(event, StepStarted) and event.attempt == 1]
    return [one.step.rpartition("/")[2] for one in starts if one.step_kind in kinds and not one.step[-1].isdecimal()]
