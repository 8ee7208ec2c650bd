"""Confirmed calls are asked about each time, whatever allows them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scripted_runs import bare
from virtual_time import VirtualTimeLoop
from waiting import wait_until

from agentnb import Agent, Allow, Chat, ContextType, Store, ToolCall, fork_sync, tool
from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolSpec
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.permissions.approval_mode import ApprovalMode
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.runtime.calls.virtual_tools import VirtualTool
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.answerers import Approve
from agentnb.tools.tool import ToolContext

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


class Behind(NamedTuple):
    """A server tool for permission checks."""

    name: str
    origin: ToolOrigin | None = None
    flag: str | None = None
    effects: frozenset[str] = frozenset({"execute"})
    timeout: float | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "", {})


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
    """Return an approver that records the calls."""

    def approve(call: ToolCall, run: Any) -> bool:
        asked.append(call.name)
        return approves

    return approve


def test_confirmations_are_asked_in_every_asking_mode(subtests: pytest.Subtests) -> None:
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


def test_confirmation_question_offers_no_grant_and_names_its_rule() -> None:
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


def test_confirmations_apply_in_runs_started_by_tool_threads() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["delete_row"]


def test_nested_run_log_includes_its_parents_confirmations() -> None:
    permissions = Permissions().within(Permissions().confirming(KEEPER.confirms))
    for loosens in (True, False):
        assert Permissions.from_log(permissions.as_logged, loosens=loosens).confirms == KEEPER.confirms


def test_confirmations_apply_in_nested_runs() -> None:
    inner = bare(ScriptedModel([CALLS[0], "Deleted."]), [delete_row], name="cleaner", approve="auto")
    outer = KEEPER.apply(bare(ScriptedModel([ToolCall("cleaner", {"prompt": "go"}, "o1"), "Done."]), [inner]))
    asked: list[str] = []
    run = outer.run_sync("go", approve=noting(asked, approves=False))
    assert asked == ["delete_row"] and run.status == "completed"


def test_confirmations_ignore_case_and_match_server_tools(subtests: pytest.Subtests) -> None:
    for name, origin, is_confirmed in (
        ("Delete_Row", None, True),
        ("mcp_desk_delete_row", ToolOrigin("desk", "program", tool="Delete_row"), True),
        ("mcp_desk_delete_row", ToolOrigin("desk", "program", tool="undelete_row"), False),
        ("undelete_row", None, False),
    ):
        with subtests.test(name):
            permissions = Permissions(ApprovalMode.of("auto")).confirming(KEEPER.confirms)
            behind: Any = Behind(name, origin)
            judged = permissions.for_tool(name, behind, Path()).judge({})
            assert judged.is_confirmed is is_confirmed


def test_meaningless_brackets_are_refused_before_the_run() -> None:
    context = ContextType("keeper", tools={"confirm": ["look(keep/**)"]})
    with pytest.raises(SettingsError, match="brackets"):
        context.apply(bare(ScriptedModel([]), TOOLS))
    assert context.apply(bare(ScriptedModel([]), [store])).context


def test_confirmations_apply_to_tool_handlers() -> None:
    made: Any = Behind("mcp_desk_write", ToolOrigin("desk", "program", tool="write"), "network")
    virtual = VirtualTool("mcp_desk_write", lambda arguments, context: "wrote", made)
    for text in ("mcp:desk", "mcp:desk/write", "write", "network"):
        permissions = Permissions(ApprovalMode.of("auto")).confirming([Rule.read(text, "ask")])
        assert permissions.for_tool("mcp_desk_write", virtual, Path()).judge({}).is_confirmed, text


def test_confirmations_apply_in_forks_and_forked_nested_runs(tmp_path: Path) -> None:
    whole, store = ToolCall("cleaner", {"prompt": "go"}, "o1"), Store(tmp_path)
    inner = bare(ScriptedModel([CALLS[0], "Deleted."], name="scripted:inner"), [delete_row], name="cleaner")
    outer = KEEPER.apply(bare(ScriptedModel([whole, "Done."], name="scripted:outer"), [inner, delete_row]))
    run = outer.run_sync("go", store=store, approve=noting([]))
    nested = store.load(run.rounds[0].records[0].nested[0].run_id)
    for original in (run, nested):
        asked: list[str] = []
        model = ScriptedModel([CALLS[0], "Other."])
        fork = fork_sync(original, 1, model=model, tools=[delete_row, send], approve=noting(asked))
        assert (fork.text, asked) == ("Other.", ["delete_row"])


SHORT = Chat(max_seconds=5, tool_seconds=3)


async def after_a_while(call: ToolCall, run: Any) -> bool:
    """Allow a call after exceeding the turn and tool timeouts."""
    await asyncio.sleep(8)
    return True


def test_waiting_for_the_user_does_not_count_towards_limits(subtests: pytest.Subtests) -> None:
    @tool(effects=["read"])
    async def delete_row(n: int) -> str:  # not in a thread, which virtual time would not await
        """Deletes, whatever it says."""
        return f"deleted {n}"

    def cleaner() -> Agent:
        return bare(ScriptedModel([CALLS[0], "Deleted."]), [delete_row], policy=SHORT, name="cleaner")

    async def delegate(context: ToolContext) -> str:
        """Has the cleaner do it."""
        return str((await context.start_run(cleaner(), "go")).text)

    async def again(context: ToolContext) -> str:
        """Deletes."""
        return (await context.call("delete_row", {"n": 1})).text

    calls = {
        "in the run": CALLS[0],
        "in a nested run": ToolCall("cleaner", {"prompt": "go"}, "o1"),
        "in a run that a tool begins": ToolCall("delegate", {}, "o1"),
        "in a tool": ToolCall("again", {}, "o1"),
    }
    for name, call in calls.items():
        with subtests.test(name), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            agent = KEEPER.apply(bare(ScriptedModel([call, "Done."]), [cleaner(), delete_row, delegate, again], policy=SHORT))
            run = runner.run(agent.run("go", approve=after_a_while))
            assert (run.stop_reason, run.rounds[0].results[0].is_error) == ("natural", False)
