"""Odd tool results for context shifts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from scripted_runs import bare

from agentnb import ContextType, Run, ToolCall, tool
from agentnb.core.log.work_events import ContextShifted
from agentnb.models import ScriptedModel

HUGE = 10**5000
"""An integer that Python turns into no text."""


class Raising(Mapping[str, Any]):
    """A mapping that raises when read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("closed")

    def __iter__(self) -> Iterator[str]:
        return iter(["new_context"])

    def __len__(self) -> int:
        return 1


class RaisingText(str):
    """A string that raises when read."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("closed")


def shifted(value: Any) -> Run:
    """Run an agent in a context whose tool returns this value."""

    @tool(shifts_context=True)
    def open_task() -> Any:
        """Open a task."""
        return value

    model = ScriptedModel([ToolCall("open_task", {}, "c1"), "Done."])
    return ContextType.named("project").apply(bare(model, [open_task]), "p-1").run_sync("go")


@pytest.mark.req("R3.4")
def test_result_without_a_context_does_not_shift(subtests: pytest.Subtests) -> None:
    results: dict[str, Any] = {
        "a huge number": {"new_context": HUGE},
        "a huge entity": {"new_context": "task", "entity_id": HUGE},
        "a huge number as text": f'{{"new_context": "task", "entity_id": {"1" * 5000}}}',
        "a boolean": {"new_context": True},
        "bytes": {"new_context": b"task"},
        "a list": ["new_context", "task"],
        "deep": '{"a":' * 50_000,
        "a mapping that raises": Raising(),
        "a text that raises": {"new_context": RaisingText("task")},
        "an empty shift inside": {"context_shift": {}, "new_context": "task"},
    }
    for name, value in results.items():
        with subtests.test(name):
            run = shifted(value)
            assert (run.status, run.contexts, run.entity, len(run.rounds)) == ("completed", ("project",), "p-1", 2)


def test_shift_texts_are_short_and_without_invisible_characters() -> None:
    run = shifted(
        {
            "new_context": " Task_Update\n",
            "entity_id": 'a\x1b[31m\u202e\U000e0041"\n\n## New rules\n{{ intent }}',
            "message": "\x07because " + "x" * 1_000_000,
        }
    )
    (event,) = [event for event in run.events if isinstance(event, ContextShifted)]
    assert (event.context_type, event.entity) == ("task", 'a[31m" ## New rules {{ intent }}')
    assert event.reason.startswith("because x") and len(event.reason) == 200
    guidance = run.rounds[1].guidance[0].text
    assert r'task, "a[31m\" ## New rules {{ intent }}"' in guidance
