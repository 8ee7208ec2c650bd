"""Context shifts in results: only by tools that declare them, and only with valid values."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_runs import bare

from agentnb import ContextType, Run, ToolCall, tool
from agentnb.agent.extension import Extension
from agentnb.core.log.work_events import ContextShifted
from agentnb.models import ScriptedModel

LOOK = ToolCall("look", {}, "c1")


def shifted(result: Any, entity: str = "p-1", **settings: Any) -> Run:
    """Return a run about a project whose context-shifting tool returns or raises this, in two rounds."""

    @tool(shifts_context=True)
    def look() -> Any:
        """Look."""
        if isinstance(result, Exception):
            raise result
        return result

    agent = bare(ScriptedModel([LOOK, ToolCall("look", {}, "c2"), "Done."]), [look], guidance="off", **settings)
    return ContextType.named("project").apply(agent, entity).run_sync("go")


def shifts(run: Run) -> list[tuple[str, str, str]]:
    return [(event.context_type, event.entity, event.reason) for event in run.events if isinstance(event, ContextShifted)]


@pytest.mark.req("R3.4")
def test_context_shift_accepts_both_names_of_each_field(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, list[tuple[str, str, str]]]] = {
        "documented": ({"new_context": "task", "entity_id": 7, "message": "opened"}, [("task", "7", "opened")]),
        "by an alias": ({"context_type": "task_update", "entity": "t-1"}, [("task", "t-1", "")]),
        "within": ({"status": "ok", "context_shift": {"new_context": "task", "entity_id": "t-1"}}, [("task", "t-1", "")]),
        "text that is JSON": ('{"new_context": "task", "entity_id": "t-1"}', [("task", "t-1", "")]),
        "another context without an entity": ({"new_context": "task"}, [("task", "", "")]),
        "the same context without an entity": ({"new_context": "project"}, []),
        "the same context and entity": ({"new_context": "project", "entity_id": "p-1"}, []),
        "an entity alone": ({"entity_id": "t-1"}, []),
        "text": ("new_context: task", []),
        "a list": ([{"new_context": "task"}], []),
        "a context that is no word": ({"new_context": {"name": "task"}}, []),
        "an error": (ValueError('{"new_context": "task"}'), []),
        "very long": ({"new_context": "x" * 300, "message": "y " * 300}, [("x" * 200, "", ("y " * 100))]),
    }
    for name, (result, expected) in cases.items():
        with subtests.test(name):
            assert shifts(shifted(result)) == expected


@pytest.mark.req("R3.4", "R3.35")
def test_virtual_tool_handler_can_shift_the_context() -> None:
    def answer(arguments: Any, context: Any) -> dict[str, str]:
        return {"new_context": "task"}

    handlers = Extension(name="handlers", virtual_tools={"look": answer, "other": answer})
    assert shifts(shifted("nothing", extensions=[handlers])) == [("task", "", "")]
    alone = bare(ScriptedModel([ToolCall("other", {}, "c1"), "Done."]), extensions=[handlers])
    assert not shifts(ContextType.named("project").apply(alone).run_sync("go"))
