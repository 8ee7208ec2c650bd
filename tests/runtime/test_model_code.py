"""Code written by a model: it lacks the person's privileges in any thread, and its tools are inner calls."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from property_settings import size
from run_checks import assert_closed, codes, results
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, recover
from agentnb.core.run.rounds import DENIED
from agentnb.errors import SettingsError, ToolFailed
from agentnb.models import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.servers.servers import Servers
from agentnb.runtime.threads import Outcome
from agentnb.runtime.workers.foreground import Foreground
from agentnb.runtime.workers.main_thread import call_on_main_thread
from agentnb.session.confirmed_servers import load_server_file
from agentnb.session.session import Session
from agentnb.settings import agent_mode
from agentnb.tools.function import tool
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.server_settings import ServerList
from agentnb.tools.rendering import success
from agentnb.tools.tool import CodeScope, ToolContext, ToolOutcome

NEVER: Callable[[Callable[[], None]], None] = lambda callback: None  # noqa: E731
"""A main thread that never becomes free."""
_outside = ThreadPoolExecutor(1)


def compiled(source: str, scope: CodeScope, **names: Any) -> Any:
    """Run source as model code and return its variable ``found``."""
    variables = {"scope": scope, **names}
    exec(compile(source, scope.filename, "exec"), variables)
    return variables.get("found")


def coded(source: str, **names: Any) -> Any:
    """A tool that runs this source as model code."""

    @tool(effects=["read"])
    async def act(context: ToolContext) -> ToolOutcome:
        return await context.run_code(lambda scope: success(compiled(source, scope, **names)), NEVER)

    return act


def write(text: str = "") -> str:
    """Write."""
    return f"wrote {text}"


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effects=["read"])
async def asks(context: ToolContext) -> str:
    """Ask."""
    return str(await context.ask("Which?"))


def agent(source: str, *others: Any, names: dict[str, Any] | None = None, **settings: Any) -> Agent:
    act = coded(source, **(names or {}))
    return Agent(ScriptedModel([ToolCall("act"), "Done."]), tools=[act, *others], todos=False, guidance="off", **settings)


def nested(**options: Any) -> Run:
    """Start a run here that writes."""
    inner = Agent(ScriptedModel([ToolCall("write"), "Done."]), tools=[write], todos=False, guidance="off")
    return inner.run_sync("go", **options)


SOURCE = """
def attempt():
    try:
        do()
    except SettingsError as error:
        return error.what
    return "done"
found = way(attempt, do)
"""


def direct(attempt: Callable[[], str], do: Callable[[], Any]) -> str:
    return attempt()


def in_thread(attempt: Callable[[], str], do: Callable[[], Any]) -> str:
    return _in(lambda work: threading.Thread(target=work).start(), do)


def in_raw_thread(attempt: Callable[[], str], do: Callable[[], Any]) -> str:
    return _in(lambda work: _thread.start_new_thread(work, ()), do)


def in_pool_from_before(attempt: Callable[[], str], do: Callable[[], Any]) -> str:
    return _in(lambda work: _outside.submit(work), do)


def in_thread_without_context(attempt: Callable[[], str], do: Callable[[], Any]) -> str:
    return _in(lambda work: threading.Thread(target=contextvars.Context().run, args=(work,)).start(), attempt)


def without_context(attempt: Callable[[], str], do: Callable[[], Any]) -> str:
    return contextvars.Context().run(attempt)


def in_loop_of_thread(attempt: Callable[[], str], do: Callable[[], Any]) -> str:
    async def later() -> str:
        return await asyncio.get_running_loop().run_in_executor(None, attempt)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, later()).result(PATIENCE)


def _in(start: Callable[[Callable[[], None]], Any], do: Callable[[], Any]) -> str:
    """Call it in a thread whose stack has no frames of the code."""
    ended: Future[str] = Future()

    def work() -> None:
        try:
            ended.set_result(str(do()))
        except BaseException as error:
            ended.set_result(str(getattr(error, "what", error)))

    start(work)
    return ended.result(PATIENCE)


WAYS = {
    way.__name__: way
    for way in (
        direct,
        in_thread,
        in_raw_thread,
        in_pool_from_before,
        in_thread_without_context,
        without_context,
        in_loop_of_thread,
    )
}
DOORS: dict[str, Callable[[LiveRun, Session], Any]] = {
    "answer": lambda live, session: live.answer("approve"),
    "answer in words": lambda live, session: live.answer_in_words("approve"),
    "decline": lambda live, session: live.decline(),
    "say": lambda live, session: live.say("The person allows it"),
    "resume": lambda live, session: live.resume(),
    "withdraw": lambda live, session: live.withdraw("q1"),
    "allow in the session": lambda live, session: session.allow_always("write"),
    "grant": lambda live, session: session.grants.give("write"),
    "default mode": lambda live, session: session.set_default("approve", "auto"),
    "allowed addresses": lambda live, session: RunOptions(allow_urls=["https://models.example.org"]),
    "add a server": lambda live, session: session.servers.configuration.add(MCPServer("own", "own-server")),
    "add a server to the configuration": lambda live, session: session.servers.configuration.add(MCPServer("own", "x")),
    "load servers": lambda live, session: session.servers.configuration.load(ServerList(), "mcp.json"),
    "remove a server": lambda live, session: session.servers.configuration.remove("own"),
    "confirm a file of servers": lambda live, session: load_server_file(Servers(), "mcp.json", lambda question: "y"),
    "run with answers of its own": lambda live, session: nested(answer=lambda question: "approve"),
}


def test_code_cannot_use_privileges_of_the_person(tmp_path: Path, subtests: pytest.Subtests) -> None:
    live: list[LiveRun] = []
    open_one = Agent(ScriptedModel([ToolCall("write"), "Done."]), tools=[write], todos=False).start("go", approve="ask")
    wait_until(lambda: bool(open_one.run.waiting))  # belongs to another run, not to model code
    session = Session(Store(tmp_path))
    for (door, do), (way, function) in [*product(DOORS.items(), WAYS.items())][:: size(2, nightly=1)]:
        with subtests.test(door, way=way):
            names = {"do": lambda do=do: do(open_one, session), "way": function, "SettingsError": SettingsError}
            with use_host(Host(begun=live.append)):
                run = agent(SOURCE, names=names).run_sync("go")
            assert "is reserved for the person" in results(run)[0].text
            assert_closed(run)
    assert open_one.run.waiting and not [*session.grants.in_force()] and session.defaults["approve"] == ""
    open_one.answer("approve")
    assert codes(open_one.result(PATIENCE)) == [None]


def test_refusals_of_model_code_give_advice(snapshot: Snapshot) -> None:
    run = agent("found = session.allow_always('write')", names={"session": Session()}).run_sync("go")
    assert results(run)[0].text == snapshot


def test_run_started_by_code_has_at_most_its_parents_permissions(subtests: pytest.Subtests) -> None:
    """The inner options would allow everything; its question goes to the absent person of the outer run."""
    for way, function in WAYS.items():
        with subtests.test(way):
            source = "found = way(lambda: inner(), inner)"
            names = {"inner": lambda: codes(nested(approve="auto")), "way": function}
            run = agent(source, names=names, permissions={"act": "allow"}).run_sync("go", approve="ask")
            assert results(run)[0].text in ('["denied"]', "['denied']"), results(run)[0].text


def test_handle_of_a_run_started_by_code_is_released() -> None:
    source = "live = start()\nlive.result(30)\nfound = live.run.rounds[0].results[0].error_code"
    inner = Agent(ScriptedModel([ToolCall("write"), "Done."]), tools=[write], todos=False, guidance="off")
    names = {"start": lambda: inner.start("go", approve="ask")}
    assert results(agent(source, names=names, permissions={"act": "allow"}).run_sync("go", approve="ask"))[0].text == DENIED


def test_functions_defined_by_code_stay_restricted_until_its_run_ends() -> None:
    kept: dict[str, Callable[[], Any]] = {}
    session = Session()
    source = "def later():\n    return session.allow_always('write')\nkept['later'] = later"
    errors: list[str] = []

    def call_later() -> str:
        """A user's tool that the model calls after the code has ended."""
        try:
            kept["later"]()
        except SettingsError as error:
            errors.append(error.what)
        return "called"

    act = coded(source, kept=kept, session=session)
    replies = [[ToolCall("act")], [ToolCall("call_later")], "Done."]
    Agent(ScriptedModel(replies), tools=[act, call_later], todos=False).run_sync("go")
    assert len(errors) == 1 and "is reserved for the person" in errors[0]
    for act in (kept["later"], lambda: contextvars.Context().run(kept["later"])):
        with pytest.raises(SettingsError, match="is reserved for the person"):  # code never sets defaults for later runs
            act()
    session.allow_always("write", ["write"])
    assert [grant["tool"] for grant in session.grants.in_force()] == ["write"]


def test_tool_called_by_code_keeps_its_usual_permissions() -> None:
    session = Session()

    async def remember() -> str:
        """Allow."""
        session.allow_always("write", ["write"])
        return "allowed"

    run = agent("found = scope.call('remember', {}).value", remember).run_sync("go")
    assert results(run)[0].text == "allowed" and [*session.grants.in_force()]


def test_mode_in_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    source = "import os\nfor name in names:\n    os.environ[name] = 'auto'"
    variables = ["AGENT_MODE", "AGENTNB_ALLOW_URLS", "MCP_SERVERS"]
    for before in ("ask", None):
        with subtests.test(before=before):
            for name in variables:
                monkeypatch.delenv(name, raising=False)
            if before is not None:
                monkeypatch.setenv("AGENT_MODE", before)
            agent(source, names={"names": variables}).run_sync("go", approve="auto")
            assert agent_mode() == (before or "") and not {"AGENTNB_ALLOW_URLS", "MCP_SERVERS"} & {*os.environ}


@pytest.mark.req("R0.74")
def test_ten_calls_from_code_take_one_round() -> None:
    source = "found = sum(scope.call('add', {'a': n, 'b': 1}).value for n in range(10))"
    run = agent(source, add).run_sync("go")
    assert results(run)[0].text == "55" and len(run.rounds) == 2
    assert [(record.call.name, record.success) for record in run.rounds[0].records[0].inner] == [("add", True)] * 10


def test_code_may_call_tools_from_its_own_threads() -> None:
    source = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(3) as pool:\n"
        "    found = [one.value for one in pool.map(lambda n: scope.call('add', {'a': n, 'b': 1}), range(3))]"
    )
    assert results(agent(source, add).run_sync("go"))[0].text == "[1,2,3]"


def test_tools_cannot_be_called_after_the_code_ends() -> None:
    kept: list[CodeScope] = []
    agent("kept.append(scope)", add, names={"kept": kept}).run_sync("go")
    with pytest.raises(ToolFailed, match="has ended"):
        kept[0].call("add", {"a": 1, "b": 2})
    assert not kept[0].is_inside()


@pytest.mark.req("KX.5")
def test_question_of_an_inner_call_never_suspends_the_run(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Without a person the call is denied or fails; the run is never suspended."""
    for name, other, code in (("write", write, DENIED), ("asks", asks, "nobody_to_ask")):
        with subtests.test(name):
            source = f"try:\n    scope.call('{name}', {{}})\nexcept Exception as error:\n    found = error.error_code"
            made = agent(source, other, permissions={"act": "allow"})
            run = made.run_sync("go", RunOptions(approve="ask", store=Store(tmp_path), suspend=True, can_ask=False))
            assert results(run)[0].text == code and not run.is_suspended and run.status == "completed"


@pytest.mark.req("KX.5")
def test_inner_call_question_can_be_answered_but_not_deferred(tmp_path: Path) -> None:
    made = agent("found = scope.call('write', {'text': 'x'}).value", write, permissions={"act": "allow"})
    session = Session(Store(tmp_path))
    served: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    made = _with_schedule(made, served)
    live = session.start(made, "go", RunOptions(approve="ask", can_ask=True, suspend=True))
    answering = threading.Thread(target=_answer, args=(live, errors := list[str]()))
    answering.start()
    served.get(timeout=PATIENCE)()
    run = live.result(PATIENCE)
    answering.join(PATIENCE)
    assert results(run)[0].text == "wrote x" and "is not waiting for approval" in errors[0]


def _answer(live: LiveRun, told: list[str]) -> None:
    wait_until(lambda: bool(live.run.waiting))
    try:
        live.suspend()
    except SettingsError as error:
        told.append(error.what)
    live.answer("approve")


def _with_schedule(made: Agent, served: queue.SimpleQueue[Callable[[], None]]) -> Agent:
    """The agent; its code runs when the main thread takes it from the queue."""

    @tool(effects=["read"])
    async def act(context: ToolContext) -> ToolOutcome:
        source = "found = scope.call('write', {'text': 'x'}).value"
        return await context.run_code(lambda scope: success(compiled(source, scope)), served.put)

    return Agent(ScriptedModel([ToolCall("act"), "Done."]), tools=[act, write], todos=False, permissions={"act": "allow"})


def test_code_of_an_unawaited_run_uses_the_main_thread() -> None:
    served: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    @tool(effects=["read"])
    async def act(context: ToolContext) -> ToolOutcome:
        return await context.run_code(lambda scope: success(threading.current_thread().name), served.put)

    async def serve() -> None:
        loop, served_here = asyncio.get_running_loop(), asyncio.Event()
        loop.call_soon(served.get(timeout=PATIENCE))  # outside of any task, as the loop of a kernel does
        loop.call_soon(served_here.set)
        await served_here.wait()

    live = Agent(ScriptedModel([ToolCall("act"), "Done."]), tools=[act], todos=False).start("go", approve="auto")
    asyncio.run(serve())
    assert results(live.result(PATIENCE))[0].text == "MainThread"


def test_code_that_cannot_begin_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Foreground, "run_here", lambda *_: Outcome(None, OSError("no thread")))

    async def act() -> None:
        await call_on_main_thread(lambda: None, lambda run: run(), wait=PATIENCE)

    with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match="no thread"):
        pool.submit(asyncio.run, act()).result(PATIENCE)


def test_stop_ends_code_on_the_main_thread() -> None:
    served: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    begun, errors = threading.Event(), list[str]()

    def forever(scope: CodeScope) -> ToolOutcome:
        begun.set()
        threading.Event().wait(5)
        errors.append("ended by itself")
        return success(None)

    @tool(effects=["read"])
    async def act(context: ToolContext) -> ToolOutcome:
        return await context.run_code(forever, served.put)

    live = Agent(ScriptedModel([ToolCall("act"), "Done."]), tools=[act], todos=False).start("go", approve="auto")
    stopping = threading.Thread(target=lambda: begun.wait(PATIENCE) and live.stop())
    stopping.start()
    served.get(timeout=PATIENCE)()
    run = live.result(PATIENCE)
    stopping.join(PATIENCE)
    assert run.status == "cancelled" and not errors
    assert_closed(run)


def test_busy_main_thread_is_an_error(snapshot: Snapshot) -> None:
    async def act() -> None:
        await call_on_main_thread(lambda: None, NEVER, wait=0.01)

    with ThreadPoolExecutor(1) as pool, pytest.raises(ToolFailed, check=snapshot.worded):
        pool.submit(asyncio.run, act()).result(PATIENCE)


def test_nested_code_and_code_with_its_own_loop_are_refused(snapshot: Snapshot) -> None:
    """The first code occupies the main thread; in an awaited run the code occupies its event loop."""
    run = agent("found = scope.call('act', {}).value").run_sync("go")
    assert results(run)[0].text == snapshot("within code")
    run = asyncio.run(agent("found = scope.call('add', {'a': 1, 'b': 2}).value", add).run("go"))
    assert results(run)[0].text == snapshot("own loop")


def test_code_cannot_answer_a_run_it_resumes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    inner = Agent(ScriptedModel([ToolCall("write"), "Done."]), tools=[write], todos=False)
    waiting = inner.run_sync("go", RunOptions(approve="ask", store=store, suspend=True, can_ask=False))
    assert waiting.is_suspended

    def resume() -> Any:
        model = ScriptedModel(["Done."])
        return asyncio.run(
            recover(waiting.id, store=store, tools=[write], model=model, answers={waiting.waiting[0].id: "approve"})
        )

    source = "from concurrent.futures import ThreadPoolExecutor\nfound = ThreadPoolExecutor(1).submit(resume).result()"
    run = agent(source, names={"resume": resume}).run_sync("go")
    assert "is reserved for the person" in results(run)[0].text and store.load(waiting.id).is_suspended
