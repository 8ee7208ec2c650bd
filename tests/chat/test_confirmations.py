"""Calls that a context confirms: the person is asked each time, whatever else allows them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from scripted_runs import bare
from waiting import wait_until

from agentnb import Agent, Allow, ContextType, ToolCall, tool
from agentnb.models import ScriptedModel
from agentnb.policies.permissions.permissions import Permissions
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.answerers import Approve

KEEPER = ContextType("keeper", tools={"confirm": ["delete_?*", "effect:network", "store(keep/**)"]})


@tool(effects=["read"])
def delete_row(n: int) -> str:
    """Deletes, whatever it says."""
    return f"deleted {n}"


@tool(effects=["network"])
async def send(n: int) -> str:
    """Sends."""
    return f"sent {n}"


@tool(effects=["write"], path="file")
def store(file: str) -> str:
    """Stores."""
    return f"stored {file}"


@tool(effects=["read"])
def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


TOOLS = [delete_row, send, store, look]
CALLS = [
    ToolCall("delete_row", {"n": 1}, "c1"),
    ToolCall("send", {"n": 2}, "c2"),
    ToolCall("store", {"file": "keep/a"}, "c3"),
    ToolCall("look", {"n": 4}, "c4"),
]
CONFIRMED = ["delete_row", "send", "store"]


def keeper(**settings: Any) -> Agent:
    return KEEPER.apply(bare(ScriptedModel([*CALLS, *CALLS, "Done."]), TOOLS, max_tool_calls_per_turn="none", **settings))


def noting(asked: list[str], *, approves: bool = True) -> Approve:
    """Return what decides about calls, and notes of which it was asked."""

    def approve(call: ToolCall, run: Any) -> bool:
        asked.append(call.name)
        return approves

    return approve


def test_they_are_asked_each_time_in_every_mode_but_those_that_ask_nobody(subtests: pytest.Subtests) -> None:
    allows = {"delete_row": "allow", "send": "allow", "store": "allow"}
    lenient: Any = lambda call, run: Allow()  # noqa: E731
    cases: dict[str, tuple[str | None, dict[str, Any], list[str]]] = {
        "by default": (None, {}, CONFIRMED),
        "auto": ("auto", {}, CONFIRMED),
        "allowed by rules": ("auto", {"permissions": allows}, CONFIRMED),
        "allowed by a gate": (None, {"gates": [lenient]}, CONFIRMED),
        "ask": ("ask", {}, CONFIRMED),
        "never": ("never", {}, []),
        "read_only": ("read_only", {}, []),
    }
    for name, (mode, settings, expected) in cases.items():
        with subtests.test(name):
            asked: list[str] = []
            options = RunOptions(approve=noting(asked), approval_mode=mode, show=False)
            run = keeper(**settings).run_sync("go", options)
            ran = [record.call.name for round in run.rounds for record in round.records if not record.rule]
            assert asked == expected * 2
            assert ran == (["look"] if not expected else [one.name for one in CALLS]) * 2, run.rounds


def test_the_question_offers_no_permission_for_later_and_says_which_rule_asks() -> None:
    live = keeper().start("go")
    wait_until(lambda: live.run.waiting)
    (question,) = live.run.waiting
    live.stop()
    live.result()
    assert question.about is not None and question.about.grants == ()
    assert "delete_?*" in question.message


THREADS = """
import threading
from agentnb import Agent, ContextType, ToolCall
from agentnb.models import ScriptedModel

def delete_row(n: int = 0) -> str:
    "Delete."
    return "deleted"

def clean() -> str:
    "Clean."
    inner = Agent(ScriptedModel([ToolCall("delete_row", {}, "c1"), "Deleted."]), tools=[delete_row], approve="auto")
    thread = threading.Thread(target=lambda: inner.run_sync("go", show=False))
    thread.start()
    thread.join()
    return "cleaned"

keeper = ContextType("keeper", tools={"confirm": ["delete_*"]})
agent = keeper.apply(Agent(ScriptedModel([ToolCall("clean", {}, "o1"), "Done."]), tools=[clean]))
agent.run_sync("go", show=False, approve=lambda call, run: print(call.name) is not None)
"""


def test_they_hold_in_runs_that_a_thread_of_a_tool_starts() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["delete_row"]


def test_the_log_of_a_nested_run_has_those_of_the_run_around_it() -> None:
    permissions = Permissions().within(Permissions().confirming(KEEPER.confirms))
    for loosens in (True, False):
        assert Permissions.logged(permissions.as_logged, loosens=loosens).confirms == KEEPER.confirms


def test_they_hold_in_nested_runs_as_in_the_run_around_them() -> None:
    inner = bare(ScriptedModel([CALLS[0], "Deleted."]), [delete_row], name="cleaner", approve="auto")
    outer = KEEPER.apply(bare(ScriptedModel([ToolCall("cleaner", {"prompt": "go"}, "o1"), "Done."]), [inner]))
    asked: list[str] = []
    run = outer.run_sync("go", approve=noting(asked, approves=False))
    assert asked == ["delete_row"] and run.status == "completed"
