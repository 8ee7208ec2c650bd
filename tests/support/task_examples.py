"""The example task files, the tools and the planner that their scripts describe, and how they are run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from virtual_time import VirtualTimeLoop

from agentnb import Run, Store, Workflow
from agentnb.core.log.work_events import StepStarted
from agentnb.core.messages import Text
from agentnb.core.request import ToolSpec
from agentnb.errors import WorkflowError
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

HERE = Path(__file__).parents[1] / "workflow" / "examples" / "tasks"


def loaded(name: str) -> Any:
    """Return the contents of a file beside the examples."""
    return YAML(typ="safe", pure=True).load((HERE / name).read_text(encoding="utf-8"))


def script(name: str) -> dict[str, Any]:
    """A scripted run of an example, as in its file."""
    return dict(loaded(name))


class ScriptedTools:
    """Tools that answer as a script says, each call by its arguments; they note what was called, in its order."""

    def __init__(
        self, answers: Mapping[str, list[dict[str, Any]]], names: Iterable[str] = (), *, repeatable: bool = False
    ) -> None:
        """``names``: more tools, none of whose calls is in the script; ``repeatable``: calls that were cut off are repeated."""
        self.called: list[tuple[str, dict[str, Any]]] = []
        lines = {**dict.fromkeys(map(tool_of_word, names), ()), **answers}
        self.tools = [_ScriptedTool(name, list(told), self.called, repeatable) for name, told in lines.items()]


class _ScriptedTool:
    effects: frozenset[Effect] | None = frozenset({"read"})
    parallel_safe: bool | None = True
    blocking = False
    timeout: float | None = None

    def __init__(
        self, name: str, answers: list[dict[str, Any]], called: list[tuple[str, dict[str, Any]]], repeatable: bool
    ) -> None:
        self.repeatable = repeatable
        self.spec = ToolSpec(name, f"Answers as the script says of {name}.", {"type": "object"})
        self._answers = answers
        self._called = called

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        self._called.append((self.spec.name, arguments))
        found = next((one for one in self._answers if one["args"] == arguments), None)
        if found is None:
            return failure("tool_error", f"no such call in the script: {arguments}")
        self._answers.remove(found)
        if "error" in found:
            return failure("tool_error", found["error"])
        return ToolOutcome(True, (Text(found["result"]),), found["result"])


class ScriptedPlanner(ScriptedModel):
    """A planner's model with these replies."""

    @property
    def saw(self) -> list[list[str]]:
        """The names in the results that it was shown, each time."""
        return [[one["name"] for one in request.settings["planning"]["results"]] for request in self.requests]


def on_virtual_time(make: Callable[[], Any]) -> Any:
    """Return the result of the coroutine, on a loop with instant time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(make())


def played(text: str | Path, inputs: Mapping[str, Any] | None = None, store: Store | None = None, **settings: Any) -> Run:
    """The run of a task file, also if it failed."""
    return run_of(Workflow.from_yaml(text, inputs=tuple(inputs or ())), inputs, store, **settings)


def run_of(workflow: Workflow, inputs: Mapping[str, Any] | None, store: Store | None, **settings: Any) -> Run:
    """The run of a workflow, also if it failed."""

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


def without_ids(data: Any) -> Any:
    """Plain data without the ids that a run makes."""
    if isinstance(data, Mapping):
        return {key: without_ids(value) for key, value in data.items() if key != "id"}
    return [without_ids(one) for one in data] if isinstance(data, list) else data


def cut(source: Store, run: Run, lines: int, into: Path) -> Store:
    """Return a store with the first lines of a run's log."""
    store = Store(into)
    into.mkdir()
    text = source.path(run.id).read_text(encoding="utf-8").splitlines(keepends=True)
    (into / f"{run.id}.jsonl").write_text("".join(text[:lines]), encoding="utf-8")
    return store
