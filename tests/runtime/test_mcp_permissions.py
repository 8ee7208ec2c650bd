"""Permissions for MCP tools: asked by default, and granted to the configured server and the tool as first seen."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from marked_logs import cut_log
from mcp_runs import PROGRAM, bench
from own_folder import use_own_folder
from run_checks import codes

from agentnb import Agent, Run, Store, ToolCall, recover, reproduce, settings
from agentnb.core.log.work_events import ServerChanged
from agentnb.core.questions import REACHES, WaitingOnUser
from agentnb.core.run.rounds import DENIED
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.policies.gates.gate_verdicts import Allow
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.questions.grants import SessionGrants
from agentnb.runtime.questions.model_code import ModelCode
from agentnb.runtime.servers.first_seen import FOLDER, accept, compare_tools, forget
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.tool import ToolContext

ADD = ToolCall("mcp_bench_add", {"a": 1, "b": 2})
STATS = ToolCall("mcp_bench_stats", {"xs": [1]})
RULES = {"mcp_bench_*": "allow"}
OTHER = bench("--other")
"""The same program, configured with another argument."""


@pytest.fixture(autouse=True)
def first_sight(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user folder without known servers."""
    return use_own_folder(monkeypatch, tmp_path_factory.mktemp("person") / "agentnb")


class Answers:
    """Answers the questions of a run in order, and records them."""

    def __init__(self, *answers: Any) -> None:
        self.questions: list[WaitingOnUser] = []
        self._left = list(answers)

    def __call__(self, question: WaitingOnUser) -> Any:
        self.questions.append(question)
        return self._left.pop(0) if self._left else "approve"


def play(
    replies: list[Any], servers: Servers, *answers: Any, grants: SessionGrants | None = None, tools: Any = None, **options: Any
) -> tuple[Run, list[str]]:
    """Return a run with a person who answers, and the tools in their questions."""
    asked = Answers(*answers)
    given = {name: options.pop(name) for name in ("permissions", "gates") if name in options}
    agent = Agent(ScriptedModel([*replies, "Done."]), tools=tools or [bench()], todos=False, **given)
    with use_host(Host(servers=servers, grants=grants or SessionGrants())):
        run = agent.run_sync("Go.", answer=asked, **options)
    return run, [question.about.tool.removeprefix("mcp_") for question in asked.questions if question.about]


def grow(name: str) -> list[ToolCall]:
    """Return a reply that makes the server add or change a tool: its description counts the others."""
    return [ToolCall("mcp_bench_grow", {"name": name})]


def called(name: str) -> list[ToolCall]:
    """Return a reply with a new call of an added tool."""
    return [ToolCall(f"mcp_bench_{name}", {"value": str(next(_values))})]


_values = count()


def test_server_tool_declared_read_only_still_needs_approval(servers: Servers, snapshot: Snapshot) -> None:
    run, asked = play([[ADD]], servers)
    assert asked == ["bench_add"] and codes(run) == [None]
    question = run.questions[0].question
    assert question.message.replace(PROGRAM, "PROGRAM").replace(bench().command_or_url, "PYTHON") == snapshot
    assert question.about is not None and question.about.origin is not None
    origin, offered = question.about.origin, [(grant.rule, grant.reach) for grant in question.about.grants]
    assert (origin.server, origin.tool, origin.description, origin.changed) == ("bench", "add", "Add two numbers.", ())
    assert origin.server_identity == bench().identity
    assert offered == [("mcp_bench_add", "run"), *[("mcp:bench", reach) for reach in REACHES]]
    modes = {"read_only": [DENIED], "never": [DENIED], "auto": [None], "ask": [None]}
    for mode, expected in modes.items():
        run, asked = play([[ADD]], servers, approve=mode)
        assert codes(run) == expected and bool(asked) == (mode == "ask"), mode


def test_call_violating_its_server_schema_asks_no_question(servers: Servers, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any, bool]] = [
        ("add", {"a": 1}, False),
        ("add", {"a": 1, "b": "two"}, False),
        ("add", {"a": 1, "b": [2]}, False),
        ("add", "a", False),
        ("stats", {"xs": [1, "two"]}, False),
        ("add", {"a": "1", "b": 2.0}, True),
        ("stats", {"xs": ["1.5", 2]}, True),
        ("stats", {"xs": "[1.5, 2]"}, True),
    ]
    for name, arguments, fits in cases:
        with subtests.test(name, arguments=arguments):
            run, asked = play([[ToolCall(f"mcp_bench_{name}", arguments)]], servers)
            assert codes(run) == [None if fits else "invalid_arguments"] and len(asked) == fits


def test_each_answer_has_its_stated_scope(servers: Servers, subtests: pytest.Subtests) -> None:
    calls, later = [[ADD], [ADD], [STATS]], [[ADD], [STATS]]
    tool, every = ["bench_add", "bench_stats"], ["bench_add"]
    cases: list[tuple[Any, list[str], list[str]]] = [
        ("approve", ["bench_add", "bench_add", "bench_stats"], tool),
        ("always", tool, tool),
        ("always in run", tool, tool),
        ({"always": "mcp_bench_add"}, tool, tool),
        ("always in run: mcp_bench_add", tool, tool),
        ({"always": "mcp:bench"}, every, tool),
        ({"always": "mcp:bench", "reach": "run"}, every, tool),
        ("always in session", every, []),
        ("always in session: mcp:bench", every, []),
        ({"always": "mcp:bench", "reach": "session"}, every, []),
        ({"always": "mcp_bench_add", "reach": "session"}, tool, ["bench_stats"]),
        ("always in project", every, tool),  # functions save nothing
    ]
    for answer, expected, expected_later in cases:
        with subtests.test(str(answer)):
            grants = SessionGrants()
            run, asked = play(calls, servers, answer, grants=grants)
            assert (codes(run), asked) == ([None] * 3, expected)
            assert play(later, servers, grants=grants)[1] == expected_later
            assert Run.from_events(run.events) == run


def test_server_grant_does_not_cover_servers_with_longer_names(servers: Servers) -> None:
    tools = [bench(), bench(name="bench_b")]
    other = ToolCall("mcp_bench_b_add", {"a": 1, "b": 2})
    for rule in ("mcp:bench", "mcp_bench_add"):
        assert play([[ADD], [other]], servers, {"always": rule}, tools=tools)[1] == ["bench_add", "bench_b_add"]
    assert play([[ADD], [other]], servers, tools=tools, permissions={"mcp:bench": "allow"})[1] == ["bench_b_add"]


def test_misspelled_server_tool_rule_ends_the_run_before_rounds(servers: Servers) -> None:
    for rule in ("mcp_bench_ad", "mcp:bench/ad"):
        with pytest.raises(SettingsError, match="mcp_bench_add"):
            play([[ADD]], servers, permissions={rule: "deny"}, approve="auto")
    run, _ = play([[ADD]], servers, permissions={"mcp_bench_elsewhere_and_later": "deny"}, approve="auto")
    assert codes(run) == [None], "a server may offer it later"


def test_server_with_a_changed_configuration_asks_again(
    servers: Servers, snapshot: Snapshot, subtests: pytest.Subtests
) -> None:
    session, typed = SessionGrants(), SessionGrants()
    assert play([[ADD]], servers, "always in session", grants=session)[1] == ["bench_add"]
    typed.give("mcp_bench_*", rule="")
    ways: dict[str, dict[str, Any]] = {
        "rule": {"permissions": RULES},
        "rule for the server": {"permissions": {"mcp:bench": "allow"}},
        "grant": {"grants": session},
        "typed grant": {"grants": typed},
    }
    for name, options in ways.items():
        with subtests.test(name):
            assert play([[ADD]], servers, **dict(options))[1] == []
            run, asked = play([[ADD]], servers, tools=[OTHER], **dict(options))
            assert asked == ["bench_add"]
            assert [event.is_other for event in run.events if isinstance(event, ServerChanged)] == [True]
    message = run.questions[0].question.message
    assert message.replace(PROGRAM, "PROGRAM").replace(bench().command_or_url, "PYTHON") == snapshot
    with subtests.test("roots"):
        run, asked = play([[ADD]], servers, tools=[bench(roots=["/"])], permissions=RULES)
        assert asked == ["bench_add"] and "(roots: /)" in run.questions[0].question.message
    with subtests.test("denials count always"):
        run, asked = play([[ADD]], servers, tools=[OTHER], permissions={"mcp_bench_add": "deny"})
        assert (codes(run), asked) == ([DENIED], [])
    with subtests.test("bound to the new server"):
        assert play([[ADD], [STATS], [ADD]], servers, {"always": "mcp:bench"}, tools=[OTHER])[1] == ["bench_add"]
        session = SessionGrants()
        assert play([[ADD]], servers, "always in session", tools=[OTHER], grants=session)[1] == ["bench_add"]
        assert play([[ADD], [STATS]], servers, tools=[OTHER], grants=session)[1] == []
        assert play([[ADD]], servers, grants=session)[1] == ["bench_add"], "and to no other"
        assert play([[ADD]], servers, permissions=RULES)[1] == [], "the tool seen first is unchanged"


def test_tool_changing_during_a_run_asks_again(servers: Servers, subtests: pytest.Subtests) -> None:
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "rule": ("approve", {"permissions": RULES}),
        "tool": ("always", {"permissions": {"mcp_bench_grow": "allow"}}),
        "server": ({"always": "mcp:bench"}, {"permissions": {"mcp_bench_grow": "allow"}}),
    }
    for place, (name, (answer, options)) in enumerate(ways.items()):
        with subtests.test(name):
            tool = f"changing{place}"
            first = [] if name == "rule" else [f"bench_{tool}"]
            changed = [grow(tool), called(tool), called(tool), called(tool), grow(f"more{place}"), grow(tool), called(tool)]
            replies = [grow(tool), called(tool), called(tool), *changed]
            answers = [answer] * len(first) + ["approve", "always"]
            run, asked = play(replies, servers, *answers, **options)
            assert set(codes(run)) == {None}
            assert asked == [*first, *[f"bench_{tool}"] * 3], "once, always, and after the next change"
            about = run.questions[-1].question.about
            assert about is not None and about.origin is not None
            assert about.origin.changed == ("tool",) and "others" in about.origin.diff
            changes = [event for event in run.events if isinstance(event, ServerChanged) and f"mcp_bench_{tool}" in event.tools]
            assert len(changes) == 2, "each change is logged once"


def test_new_tool_of_a_granted_server_needs_no_approval(servers: Servers) -> None:
    run, asked = play([[ADD], grow("late"), called("late")], servers, {"always": "mcp:bench"})
    assert asked == ["bench_add"]
    assert not [event for event in run.events if isinstance(event, ServerChanged)]


def test_mode_auto_logs_server_changes_without_asking(servers: Servers) -> None:
    replies = [grow("quiet"), called("quiet"), grow("quiet"), called("quiet"), called("quiet")]
    run, asked = play(replies, servers, approve="auto")
    assert (set(codes(run)), asked) == ({None}, [])
    assert len([event for event in run.events if isinstance(event, ServerChanged)]) == 1
    for mode in ("never", "read_only"):
        run, asked = play([called("quiet")], servers, approve=mode, permissions=RULES)
        assert (codes(run), asked) == ([DENIED], []), mode


def test_allowing_gate_does_not_skip_questions_about_changed_servers(servers: Servers) -> None:
    gates = [lambda call, run: Allow()]
    assert play([[ADD]], servers, gates=gates)[1] == []
    assert play([[ADD]], servers, gates=gates, tools=[OTHER])[1] == ["bench_add"]


def of(servers: Servers, server: MCPServer) -> LiveServer:
    """Return the connection of a server that a run has used."""
    return next(live for live in reversed([*servers.used]) if live.server == server)  # others belong to earlier folders


def accept_now(servers: Servers, server: MCPServer) -> list[str]:
    """Accept a server as it is; return its changed tools."""
    live = of(servers, server)
    tools = compare_tools(live, live.tools)
    changed = [tool.tool_name for tool in tools if tool.origin.changed]
    assert accept(live.server, tools)
    return changed


def test_rules_cover_the_accepted_command_and_the_earlier_one(servers: Servers) -> None:
    assert play([[ADD]], servers, permissions=RULES)[1] == []
    assert play([[ADD]], servers, tools=[OTHER], permissions=RULES)[1] == ["bench_add"]
    assert "add" in accept_now(servers, OTHER)
    for server in (OTHER, bench()):
        assert play([[ADD]], servers, tools=[server], permissions=RULES)[1] == []
    assert play([[ADD]], servers, tools=[bench("--third")], permissions=RULES)[1] == ["bench_add"]


def test_accepted_tool_is_covered_by_rules_at_once(servers: Servers) -> None:
    changed: list[list[str]] = []

    def answer(question: WaitingOnUser) -> str:
        changed.append(accept_now(servers, bench()))
        return "approve"

    replies = [grow("moved"), called("moved"), grow("moved"), called("moved"), called("moved")]
    agent = Agent(ScriptedModel([*replies, "Done."]), tools=[bench()], todos=False, permissions=RULES)
    with use_host(Host(servers=servers)):
        run = agent.run_sync("Go.", answer=answer)
    assert (set(codes(run)), changed) == ({None}, [["moved"]])


def test_model_code_cannot_accept_server_changes(servers: Servers) -> None:
    play([[ADD]], servers, approve="auto")
    assert play([[ADD]], servers, tools=[OTHER], permissions=RULES)[1] == ["bench_add"]
    with ModelCode(None).running(), pytest.raises(SettingsError, match="reserved for the person"):
        accept_now(servers, OTHER)
    assert play([[ADD]], servers, tools=[OTHER], permissions=RULES)[1] == ["bench_add"]


IN_ANOTHER_PROCESS = """
from mcp_runs import bench
from agentnb import Agent, ToolCall
from agentnb.models.scripted import ScriptedModel
for server in (bench(), bench("--other")):
    model = ScriptedModel([[ToolCall("mcp_bench_add", {"a": 1, "b": 2})], "Done."])
    run = Agent(model, tools=[server], permissions={"mcp_bench_*": "allow"}).run_sync("Go.")
    print(run.rounds[0].records[0].result.error_code)
"""


@pytest.mark.nightly("by day test_first_process_to_see_a_server_decides reads what another process wrote")
@pytest.mark.slow("a process that imports everything and starts two servers")
def test_first_seen_server_is_remembered_by_other_processes(servers: Servers, first_sight: Path) -> None:
    paths = os.pathsep.join([str(Path(PROGRAM).parent), *filter(None, sys.path)])
    environment = {**os.environ, "XDG_DATA_HOME": str(first_sight.parent), "PYTHONPATH": paths}
    play([[ADD]], servers, tools=[OTHER], approve="auto")
    program = [sys.executable, "-c", IN_ANOTHER_PROCESS]
    done = subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == ["denied", "None"], "this process saw the other one first"


def test_resumed_run_asks_again_about_changed_tools(servers: Servers, tmp_path: Path, subtests: pytest.Subtests) -> None:
    grows = {"permissions": {"mcp_bench_grow": "allow"}}
    cases: dict[str, tuple[Any, dict[str, Any], str]] = {
        "rule": ("approve", {"permissions": RULES}, "tool_finished"),
        "grant for the server": ({"always": "mcp:bench"}, grows, "tool_finished"),
        "grant for the tool": ("always", grows, "tool_finished"),
        "answer": ("approve", grows, "question_answered"),
        "answer that is handed in": ("approve", grows, "question_asked"),
    }
    for place, (name, (answer, options, end)) in enumerate(cases.items()):
        for changes in (False, True):
            with subtests.test(f"{name}, {'changed' if changes else 'the same'}"):
                tool, store = f"logged{place}{changes}", Store(tmp_path / f"{place}{changes}")
                run, _ = play([grow(tool), called(tool), called(tool)], servers, *[answer] * 2, store=store, **options)
                cut_log(store.path(run.id), end, 1)
                if changes:
                    play([grow(tool)], servers, approve="auto")
                shutil.rmtree(settings.personal_folder() / FOLDER)  # only the log has the earlier tool
                forget()
                asked, replies = Answers(), [called(tool), "Done."] if end == "tool_finished" else ["Done."]
                answers = {run.questions[-1].question.id: "approve"} if end == "question_asked" else {}
                agent = Agent(ScriptedModel(replies), tools=[bench()], todos=False, **options)
                with use_host(Host(servers=servers, grants=SessionGrants())):
                    resumed = asyncio.run(recover(run.id, agent=agent, store=store, answer=asked, answers=answers))
                assert set(codes(resumed)) == {None}
                assert [question.about.tool for question in asked.questions if question.about] == [
                    f"mcp_bench_{tool}"
                ] * changes


def test_resumed_run_asks_again_about_another_server(servers: Servers, tmp_path: Path) -> None:
    other_value = ToolCall("mcp_bench_add", {"a": 3, "b": 4})
    for name, answer, options in (("rule", "approve", {"permissions": RULES}), ("grant", {"always": "mcp:bench"}, {})):
        for server in (bench(), OTHER, bench(roots=["/"])):
            store = Store(tmp_path / f"{name}{server.identity}")
            run, _ = play([[ADD]], servers, answer, store=store, **options)
            cut_log(store.path(run.id), "tool_finished")
            shutil.rmtree(settings.personal_folder() / FOLDER)  # only the log has the earlier server
            forget()
            asked = Answers()
            agent = Agent(ScriptedModel([[other_value], "Done."]), tools=[server], todos=False, **options)
            with use_host(Host(servers=servers, grants=SessionGrants())):
                resumed = asyncio.run(recover(run.id, agent=agent, store=store, answer=asked))
            assert (set(codes(resumed)), len(asked.questions)) == ({None}, 0 if server == bench() else 1), name


def test_run_with_server_grants_is_reproducible(servers: Servers) -> None:
    session = SessionGrants()
    play([[ADD]], servers, "always in session", grants=session)
    for answers, grants in (([{"always": "mcp:bench"}], SessionGrants()), ([], session)):
        run, _ = play([[ADD], [STATS]], servers, *answers, grants=grants)
        again = asyncio.run(reproduce(run))
        assert codes(run) == codes(again) == [None, None]


def test_grant_applies_to_nested_runs(servers: Servers) -> None:
    async def delegate(context: ToolContext) -> str:
        calls = [[STATS], [ToolCall("mcp_bench_where", {})]]
        inner = Agent(ScriptedModel([*calls, "Done."]), tools=[bench()], todos=False)
        nested.append(await context.start_run(inner, "go"))
        return "done"

    def bound(run: Run) -> list[tuple[str, str, str]]:
        return [(grant.rule, grant.server_identity, grant.tool_identity) for grant in run.grants]

    nested: list[Run] = []
    for answer, expected in (({"always": "mcp:bench"}, 1), ("always", 3)):
        run, asked = play([[ADD], [ToolCall("delegate")]], servers, answer, tools=[bench(), delegate])
        assert (set(codes(run)), len(asked)) == ({None}, expected), asked
        assert bound(nested.pop()) == bound(run)
        assert all(server and tool for _, server, tool in bound(run))


def test_unusable_data_folder_is_reported(servers: Servers, first_sight: Path, subtests: pytest.Subtests) -> None:
    with subtests.test("not writable: it holds in this process"):
        first_sight.mkdir()
        (first_sight / FOLDER).write_text("in the way")
        assert play([[ADD]], servers, permissions=RULES)[1] == []
        assert play([[ADD]], servers, tools=[OTHER], permissions=RULES)[1] == ["bench_add"]
        (first_sight / FOLDER).unlink()
        forget()
    with subtests.test("damaged: it asks"):
        for server in (bench(), OTHER):
            play([[ADD]], servers, tools=[server], permissions=RULES)
        accept_now(servers, OTHER)
        for path in (first_sight / FOLDER).glob("*/*.json"):
            path.write_bytes(b"{")
        run, asked = play([[ADD]], servers, permissions=RULES)
        origin = run.questions[0].question.about.origin  # type: ignore[union-attr]
        assert (asked, origin and origin.changed) == (["bench_add"], ("server", "tool"))
        accept_now(servers, bench())
        assert play([[ADD]], servers, permissions=RULES)[1] == []


def test_first_process_to_see_a_server_decides(servers: Servers, first_sight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quicker(source: Any, target: Any) -> None:
        Path(target).write_bytes(b'{"name":"bench","identity":"another","text":"theirs"}')
        raise FileExistsError

    def without_links(source: Any, target: Any) -> None:
        raise OSError("no hard links here")

    for link, expected in ((quicker, ["bench_add"]), (without_links, [])):
        monkeypatch.setattr(os, "link", link)
        run, asked = play([[ADD]], servers, permissions=RULES)
        assert asked == expected
        assert [event.target_before for event in run.events if isinstance(event, ServerChanged)] == ["theirs"] * len(expected)
        assert any(first_sight.rglob("*.json")) and not any(first_sight.rglob(".*")), "whole files, and no others"
        shutil.rmtree(first_sight)
        forget()
