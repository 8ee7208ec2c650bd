"""Near outcomes: taken from the rounds after guidance, and unknown where a run was cut short before."""

from __future__ import annotations

import pytest
from scripted_runs import do, play, think, work

from agentnb import Matrix, ToolCall
from agentnb.detect.blocks.failing_tools import FailingTool
from agentnb.experiments.planning.near_outcomes import NearOutcome, find_near_outcome


class FailingTwice(FailingTool):
    """Fails twice in a row, which is not a loop yet."""

    def __init__(self) -> None:
        super().__init__(2)


def fail() -> str:
    """Fails."""
    raise ValueError("it is broken")


def values(name: str, *replies: object, **settings: object) -> list[bool | None]:
    outcome: NearOutcome = find_near_outcome(name)
    run = play(*replies, tools=[work, fail, think], todos=False, **settings)  # type: ignore[arg-type]
    value = outcome(run)
    return [value(index, None) for index in range(len(run.rounds))]


def test_near_outcomes_are_computed_from_the_following_rounds(subtests: pytest.Subtests) -> None:
    same = "The table has three columns and twelve rows, and none of its values is missing."
    talk = (do(1), same, same, "Another thing.", "[WORKFLOW_COMPLETE]")
    long = {"policy": Matrix(workflow_mode=True)}
    fails = (ToolCall("fail", {}), ToolCall("fail", {}), "Done.")
    cases = {
        "a call that ran": ("call_worked", (do(1), "Done."), {}, [True, False]),
        "a call that raised": ("call_worked", (ToolCall("fail", {}), do(1), "Done."), {}, [False, True, False]),
        "a call that plans": ("call_worked", (ToolCall("think", {}), "Done."), {}, [False, False]),
        "a call of a missing tool": ("call_worked", (ToolCall("wrok", {}), "Done."), {}, [False, False]),
        "a call that repeats too often": ("call_worked", (do(1),) * 3 + ("Done.",), {}, [True, True, False, False]),
        "a loop in the round itself": ("no_loop_within_1", talk, long, [True, True, False, True, True]),
        "a loop in the next": ("no_loop_within_2", talk, long, [True, False, False, True, True]),
        "another finding than a loop": ("no_loop_within_1", fails, {"detect": FailingTwice}, [True, True, True]),
        "cut short before": ("no_loop_within_2", (do(1), do(2)), {"max_rounds": 2}, [True, None]),
    }
    for name, (outcome, replies, settings, expected) in cases.items():
        with subtests.test(name):
            assert values(outcome, *replies, **settings) == expected
