"""Permissions of runs: questions, sources, logs, and files that change meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from run_checks import codes, results
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, Workflow, fork, recover, tool
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.run.rounds import DENIED
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Allow, Ask
from agentnb.runtime.host import consent
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.questions.grants import SessionGrants
from agentnb.tools.tool import ToolContext

STATUS, LOG, REMOVE = [ToolCall("bash", {"command": line}) for line in ("git status -s", "git log", "rm -rf x")]
SAVE, MEASURE = ToolCall("save", {"path": "data/a.txt", "text": "new\n"}), ToolCall("measure")


@pytest.fixture(autouse=True)
def no_mode(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("AGENT_MODE", raising=False)
    yield


class Desk:
    """Tools that record their effects in a folder, and agents with them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, list[str]()
        (folder / "data").mkdir(exist_ok=True)

    def tools(self) -> list[Any]:
        @tool(effects=["execute"], command="command")
        async def bash(command: str) -> str:
            """Run a command."""
            self.done.append(command)
            return "ran"

        @tool(effects=["write"], path="path", content="text")
        async def save(path: str, text: str) -> str:
            """Write a file."""
            (self.folder / path).write_text(text)
            self.done.append(f"save {path}")
            return "saved"

        async def measure() -> str:
            """Measure."""
            self.done.append("measure")
            return "3"

        return [bash, save, measure]

    def agent(self, *replies: Any, **settings: Any) -> Agent:
        model = ScriptedModel([*replies, "Done."])
        return Agent(model, tools=self.tools(), todos=False, work_dir=self.folder, **settings)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "work").mkdir()
    return Desk(tmp_path / "work")


def answered(live: LiveRun, *answers: Any) -> Run:
    """Return the run after answering its questions, in order."""
    for place, answer in enumerate(answers):
        wait_until(lambda place=place: len(live.run.questions) > place or live.done)
        live.answer(answer)
    return live.result(PATIENCE)


@pytest.mark.req("R2.15")
def test_defaults_ask_about_declared_effects_but_not_plain_functions(desk: Desk) -> None:
    live = desk.agent([STATUS, SAVE, MEASURE]).start("go")
    run = answered(live, "approve", "deny: not there")
    assert desk.done == ["git status -s", "measure"] and codes(run) == [None, DENIED, None]
    assert [question.question.about and question.question.about.tool for question in run.questions] == ["bash", "save"]
    assert "approve" not in run.settings and "permissions" not in run.settings


def test_denial_without_asking_names_the_rule_that_allows_the_command(desk: Desk) -> None:
    rules = {"bash(rm *)": "deny"}
    tests = ToolCall("bash", {"command": "pytest -q | tail"})
    for mode, run in {
        mode: desk.agent([tests], approve=mode, permissions=rules).run_sync("go") for mode in ("auto", "never")
    }.items():
        assert codes(run) == [DENIED] and "A rule that allows it: bash(pytest *)" in results(run)[0].text, mode
    run = desk.agent([tests], approve="auto", permissions={**rules, "bash(pytest *)": "allow"}).run_sync("go")
    assert codes(run) == [None] and desk.done == ["pytest -q | tail"]


def test_calls_without_a_person_are_denied_or_suspended(desk: Desk, tmp_path: Path) -> None:
    run = desk.agent([STATUS, MEASURE]).run_sync("go")
    assert codes(run) == [DENIED, None] and "o person is attached" in results(run)[0].text
    store = Store(tmp_path / "runs")
    run = asyncio.run(desk.agent([STATUS]).run("go", RunOptions(suspend=True), store=store))
    assert run.status == "waiting_on_user" and desk.done == ["measure"]
    again = asyncio.run(recover(run.id, agent=desk.agent(), store=store, answers={"q1": "approve"}))
    assert again.status == "completed" and desk.done == ["measure", "git status -s"]
    for rules in ({"measure": "ask"}, {"bash(rm *)": "deny"}):
        run = desk.agent([ToolCall("bash", {"command": "$X"}), MEASURE], permissions=rules).run_sync("go", approve="never")
        assert codes(run)[0] == DENIED and "this run does not ask for permission" in results(run)[0].text


ALWAYS: dict[str, tuple[Any, list[str], int]] = {
    "no word, so the narrowest": ("always", ["git status -s"] * 2, 3),
    "this tool in this run": ({"always": "bash", "reach": "run"}, ["git status -s", "git log", "rm -rf x", "git status -s"], 1),
    "a pattern in this run": ({"always": "bash(git status *)", "reach": "run"}, ["git status -s"] * 2, 3),
    "a wider pattern, typed": ("always: bash(git *)", ["git status -s", "git log", "git status -s"], 2),
}


def test_always_answer_has_exactly_its_stated_scope(subtests: pytest.Subtests, desk: Desk) -> None:
    for name, (answer, done, asked) in ALWAYS.items():
        with subtests.test(name):
            desk.done.clear()
            live = desk.agent([STATUS], [LOG], [REMOVE], [STATUS]).start("go")
            run = answered(live, answer, *["deny"] * (asked - 1))
            assert desk.done == done and len(run.questions) == asked


def test_session_grant_applies_to_other_runs_until_revoked(desk: Desk) -> None:
    session = SessionGrants()
    with use_host(Host(grants=session)):
        first = desk.agent([STATUS]).start("go")
        wait_until(lambda: bool(first.run.waiting))
        offered = first.run.waiting[0].about
        assert offered is not None and [(one.rule, one.reach) for one in offered.grants] == [
            ("bash(git status *)", "run"),
            ("bash(git status *)", "session"),
            ("bash(git status *)", "project"),
            ("bash", "run"),
        ]
        run = answered(first, "always in session")
        assert [(grant.rule, grant.reach) for grant in run.grants] == [("bash(git status *)", "session")]
        run = desk.agent([STATUS, LOG]).run_sync("go", RunOptions(can_ask=False))
        assert codes(run) == [None, DENIED] and [grant.rule for grant in run.grants] == ["bash(git status *)"]
        (given,) = session.in_force()
        session.withdraw(given["grant_id"])
        assert codes(desk.agent([STATUS]).run_sync("go", RunOptions(can_ask=False))) == [DENIED]
    lone = desk.agent([STATUS]).start("go")
    wait_until(lambda: bool(lone.run.waiting))
    with pytest.raises(SettingsError):  # no session to remember it
        lone.answer({"always": "bash(git status *)", "reach": "session"})
    with pytest.raises(SettingsError):  # of another tool
        lone.answer({"always": "save", "reach": "run"})
    answered(lone, "deny")


def test_permission_granted_in_a_run_can_be_revoked_during_it(desk: Desk) -> None:
    live: list[LiveRun] = []

    async def stop_allowing() -> None:
        """Revoke the permission."""
        live[0].withdraw(live[0].run.grants[0].grant_id)

    model = ScriptedModel([[STATUS], [ToolCall("stop_allowing")], [STATUS], "Done."])
    live.append(Agent(model, tools=[*desk.tools(), stop_allowing], todos=False).start("go"))
    run = answered(live[0], "always", "deny")
    assert desk.done == ["git status -s"] and not run.grants
    waiting = desk.agent([STATUS]).start("go")
    with pytest.raises(SettingsError, match=r"has no grant 'g9'.*none"):
        waiting.withdraw("g9")
    waiting.stop()


def test_edited_arguments_are_checked_and_judged_again(desk: Desk) -> None:
    live = desk.agent([STATUS, SAVE], permissions={"bash(rm *)": "deny", "save(secret/**)": "deny"}).start("go")
    wait_until(lambda: bool(live.run.waiting))
    for wrong in ({"edit": {"command": 3}}, {"edit": {}}, {"edit": {"command": "ls", "more": 1}}):
        with pytest.raises(SettingsError):
            live.answer(wrong)
    run = answered(live, {"edit": {"command": "rm -rf y"}}, {"edit": {"path": "data/b.txt", "text": "other"}})
    assert desk.done == ["save data/b.txt"] and codes(run) == [DENIED, None]
    assert "The person changed the arguments" in results(run)[1].text


def test_file_question_shows_the_change_and_repeats_when_outdated(
    subtests: pytest.Subtests, desk: Desk, tmp_path: Path
) -> None:
    file = desk.folder / "data" / "a.txt"
    changes: dict[str, Callable[[], Any]] = {
        "changed": lambda: file.write_text("theirs\n"),
        "gone": lambda: file.unlink(),
        "a link": lambda: (file.unlink(), file.symlink_to("/etc/hostname")),
    }
    for name, change in changes.items():
        with subtests.test(name):
            desk.done.clear()
            file.unlink(missing_ok=True)
            file.write_text("old\n")
            live = desk.agent([SAVE]).start("go")
            wait_until(lambda live=live: bool(live.run.waiting))
            about = live.run.waiting[0].about
            assert about is not None and about.diff == "--- data/a.txt\n+++ data/a.txt\n@@ -1 +1 @@\n-old\n+new\n"
            change()
            run = answered(live, "approve", "deny")
            again = run.questions[1].question
            assert again.message.startswith("The file has changed since you were asked.") and desk.done == []
            assert again.about is not None and ("-theirs" in again.about.diff) == (name == "changed")
    file.unlink(missing_ok=True)
    file.write_text("old\n")
    store = Store(tmp_path / "runs")
    run = asyncio.run(desk.agent([SAVE]).run("go", RunOptions(suspend=True), store=store))
    file.write_text("changed while it waited\n")
    options = {"agent": desk.agent(), "store": store, "suspend": True}
    run = asyncio.run(recover(run.id, answers={"q1": "approve"}, **options))
    assert run.status == "waiting_on_user" and desk.done == []
    (again,) = run.waiting
    assert again.about is not None and "-changed while it waited" in again.about.diff
    run = asyncio.run(recover(run.id, answers={again.id: "approve"}, **{**options, "agent": desk.agent()}))
    assert run.status == "completed" and file.read_text() == "new\n"


def test_file_changing_at_every_question_is_not_written(desk: Desk) -> None:
    count = [0]

    def approve(call: ToolCall, run: Run) -> bool:
        count[0] += 1
        (desk.folder / "data" / "a.txt").write_text(f"{count[0]}\n")
        return True

    run = desk.agent([SAVE]).run_sync("go", approve=approve)
    assert codes(run) == [DENIED] and desk.done == [] and len(run.questions) < 20
    assert "keeps changing" in results(run)[0].text


def test_changes_to_foreign_large_or_binary_files_are_not_logged(desk: Desk) -> None:
    (desk.folder / "data" / "bytes").write_bytes(b"\xff\xfe")
    (desk.folder / "data" / "large").write_text("x\n" * 600_000)
    (desk.folder / "data" / "out").symlink_to("/etc")
    for path, has_digest in (
        ("/etc/hostname", False),
        ("data/out/hostname", False),
        ("data/bytes", True),
        ("data/large", True),
    ):
        live = desk.agent([ToolCall("save", {"path": path, "text": "new"})]).start("go")
        run = answered(live, "deny")
        about = run.questions[0].question.about
        assert about is not None and about.diff == "" and bool(about.before) == has_digest, path


def test_run_option_overrides_agent_host_and_environment(
    subtests: pytest.Subtests, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: list[tuple[str | None, str | None, str, str, str | None]] = [
        ("auto", "ask", "ask", "ask", "auto"),
        (None, "read_only", "auto", "auto", "read_only"),
        (None, None, "read_only", "auto", "read_only"),
        (None, None, "", "read-only", "read_only"),
        (None, None, "", "AUTO", "auto"),
        (None, None, "", "true", None),
        (None, None, "", "", None),
    ]
    for option, agent, host, environment, expected in cases:
        with subtests.test(f"{option} {agent} {host} {environment}"), use_host(Host(approval_mode=lambda host=host: host)):
            monkeypatch.setenv("AGENT_MODE", environment)
            run = desk.agent([MEASURE], approve=agent).run_sync("go", approve=option)
            assert run.settings.get("approve") == expected
    monkeypatch.setenv("AGENT_MODE", "readonly")
    with pytest.raises(SettingsError, match=r"AGENT_MODE='readonly'.*read_only"):
        desk.agent([MEASURE]).run_sync("go")
    monkeypatch.setenv("AGENT_MODE", "false")
    assert len(desk.agent([MEASURE]).toolbox) == 0


def test_approve_function_of_the_agent_applies_by_default(desk: Desk) -> None:
    agent = desk.agent([STATUS, SAVE], approve=lambda call, run: call.name == "bash")
    run = agent.run_sync("go")
    assert codes(run) == [None, DENIED] and {question.by for question in run.questions} == {"program"}
    run = desk.agent([STATUS], approve=lambda call, run: True).run_sync("go", approve=lambda call, run: False)
    assert codes(run) == [DENIED]
    for wrong in ("free", 3):
        with pytest.raises(SettingsError, match="mode"):
            desk.agent(approve=wrong)


def test_custom_gates_and_rules_ask_even_in_mode_auto(desk: Desk) -> None:
    def careful(call: ToolCall, run: Run) -> Any:
        return Ask("May it?") if call.name == "measure" else Allow()

    rules = {"bash(git log*)": "ask", "bash(rm *)": "deny"}
    unclear = ToolCall("bash", {"command": "$X"})
    live = desk.agent([MEASURE, LOG, STATUS, SAVE, unclear], gates=[careful], permissions=rules).start("go", approve="auto")
    run = answered(live, "approve", "approve", "deny")
    asked = [question.question.message.partition("? ")[0] for question in run.questions]
    assert asked == ["May it?", "May the tool 'bash' run", "May the tool 'bash' run"]
    assert [question.question.about and question.question.about.command for question in run.questions] == ["", "git log", "$X"]
    assert desk.done == ["measure", "git log", "git status -s", "save data/a.txt"]
    run = desk.agent([SAVE], gates=[careful]).run_sync("go", approve="ask")
    assert codes(run) == [None]  # an allowing gate lifts questions of the mode or a default


def test_outer_rules_bind_nested_runs_inner_calls_and_steps(subtests: pytest.Subtests, desk: Desk) -> None:
    @tool(effects=["read"])
    async def through(context: ToolContext) -> str:
        """Call another tool."""
        return (await context.call("bash", {"command": "git status -s"})).text

    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["measure"]),
        ({"approve": "auto"}, ["git status -s", "save data/a.txt", "measure"]),
        ({"approve": "auto", "permissions": {"save": "deny"}}, ["git status -s", "measure"]),
        ({"permissions": {"bash(git status*)": "allow"}}, ["git status -s", "measure"]),
        ({"approve": "read_only"}, []),
    ]
    for options, done in cases:
        with subtests.test(str(options)):
            desk.done.clear()
            calls = [ToolCall("inner", {"prompt": "go"})]
            agent = Agent(ScriptedModel([calls, "Done."]), tools=[freer_agent(desk)], todos=False)
            agent.run_sync("go", RunOptions(can_ask=False), **options)
            assert desk.done == done
    freer = desk.agent([STATUS], gates=[lambda call, run: Allow()], name="inner")
    agent = Agent(ScriptedModel([[ToolCall("inner", {"prompt": "go"})], "Done."]), tools=[freer], todos=False)
    desk.done.clear()
    agent.run_sync("go", RunOptions(can_ask=False))
    assert desk.done == []  # its gate lifts no question in a nested run
    asked: list[str] = []
    agent = Agent(ScriptedModel([[ToolCall("inner", {"prompt": "go"})], "Done."]), tools=[freer_again(desk)], todos=False)
    agent.run_sync("go", RunOptions(can_ask=False))
    assert desk.done == []  # its function denies, and leaves approval to the run around it
    agent = Agent(ScriptedModel([[ToolCall("inner", {"prompt": "go"})], "Done."]), tools=[freer_again(desk)], todos=False)
    agent.run_sync("go", approve=lambda call, run: asked.append(call.name) or True)
    assert asked == ["bash"] and desk.done == ["git status -s"]
    desk.done.clear()
    middle = Agent(
        ScriptedModel([[ToolCall("inner", {"prompt": "go"})], "Done."]),
        tools=[desk.agent([STATUS], name="inner")],
        todos=False,
        approve=lambda call, run: True,
        name="middle",
    )
    agent = Agent(ScriptedModel([[ToolCall("middle", {"prompt": "go"})], "Done."]), tools=[middle], todos=False)
    agent.run_sync("go", RunOptions(can_ask=False))
    assert desk.done == []  # nor does it approve for the runs within its own
    assert "o person is attached" in results(calling(desk, through).run_sync("go"))[0].text and desk.done == []
    assert codes(calling(desk, through).run_sync("go", permissions={"bash(git *)": "allow"})) == [None]
    text = "workflow:\n  steps:\n    - {id: a, type: tool, name: bash, args: {command: git status -s}}\n"
    workflow = Workflow.from_yaml(text, tools=desk.tools())
    desk.done.clear()
    with pytest.raises(Exception, match="bash was not allowed"):
        workflow.run_sync("go")
    workflow.run_sync("go", permissions={"bash(git *)": "allow"})
    assert desk.done == ["git status -s"]


def freer_agent(desk: Desk) -> Agent:
    """Return an agent with more permissions than its parent runs."""
    return desk.agent([STATUS, SAVE, MEASURE], permissions={"bash": "allow", "save": "allow"}, approve="auto", name="inner")


def freer_again(desk: Desk) -> Agent:
    return desk.agent([STATUS, SAVE], approve=lambda call, run: call.name == "bash", name="inner")


def calling(desk: Desk, tool_of_tools: Any) -> Agent:
    return Agent(ScriptedModel([[ToolCall("through")], "Done."]), tools=[*desk.tools(), tool_of_tools], todos=False)


# Loosening by the person


@pytest.fixture
def another_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forget the permissions of this process, like a new process."""
    return lambda: monkeypatch.setattr(consent, "_begun_here", set())


def cut_run(desk: Desk, store: Store, **how: Any) -> tuple[str, Path]:
    """Return the id and log of a run with these options whose process died before its call."""
    desk.done.clear()
    run = desk.agent([STATUS]).run_sync("go", store=store, **how)
    (path,) = [one for one in store.folder.glob("*.jsonl") if one.stem == run.id]
    cut_log(path, "tool_started" if desk.done else "call_blocked", before=True)
    desk.done.clear()
    return run.id, path


FREE: list[dict[str, Any]] = [
    {"approve": "auto"},
    {"permissions": {"bash(git *)": "allow"}},
    {"permissions": {"bash": "allow"}},
]


def test_logged_permissions_apply_in_the_same_process_or_if_trusted(
    subtests: pytest.Subtests, desk: Desk, tmp_path: Path, another_process: Callable[[], None]
) -> None:
    for number, how in enumerate(FREE):
        store = Store(tmp_path / f"free {number}")
        with subtests.test(f"recover {how}"):
            here, _ = cut_run(desk, store, **how)
            again = asyncio.run(recover(here, agent=desk.agent(), store=store))
            assert codes(again) == [None] and desk.done == ["git status -s"]
            elsewhere, _ = cut_run(desk, store, **how)
            another_process()
            again = asyncio.run(recover(elsewhere, agent=desk.agent(), store=store))
            assert codes(again) == [DENIED] and desk.done == []
            assert again.settings.get("approve", "rules") == "rules"
            (warning,) = again.warned
            assert "applies only in the process that set it" in str(warning) and "trust_log=True" in str(warning)
            taken, _ = cut_run(desk, store, **how)
            another_process()
            again = asyncio.run(recover(taken, agent=desk.agent(), store=store, trust_log=True))
            assert codes(again) == [None] and desk.done == ["git status -s"]
            said, _ = cut_run(desk, store, **how)
            another_process()
            again = asyncio.run(recover(said, agent=desk.agent(), store=store, **how))
            assert codes(again) == [None] and desk.done == ["git status -s"]
        with subtests.test(f"fork {how}"):
            run = desk.agent([MEASURE]).run_sync("go", **how)
            another_process()
            desk.done.clear()
            forked = asyncio.run(fork(run, 2, model=ScriptedModel([[STATUS], "Done."]), tools=desk.tools()))
            assert codes(forked) == [None, DENIED] and desk.done == []
            assert asyncio.run(fork(run, 2, model=ScriptedModel([[STATUS], "Done."]))).settings["approve"] == "auto"


def test_foreign_log_allows_nothing_the_person_refuses(subtests: pytest.Subtests, desk: Desk, tmp_path: Path) -> None:
    for number, how in enumerate(FREE):
        with subtests.test(str(how)):
            store = Store(tmp_path / f"foreign {number}")
            run_id, path = cut_run(desk, store, **how)
            path.write_bytes(path.read_bytes().replace(b'"prompt":{"role"', b'"prompt": {"role"', 1))  # its mark is void
            with pytest.raises(SettingsError, match="was not written by your agentnb"):
                asyncio.run(recover(run_id, agent=desk.agent(), store=store))
            again = asyncio.run(recover(run_id, agent=desk.agent(), store=store, trust_log=False))
            assert codes(again) == [DENIED] and desk.done == [] and again.settings["approve"] == "ask"


def test_logged_denials_apply_in_resumed_forked_and_continued_runs(
    subtests: pytest.Subtests, desk: Desk, tmp_path: Path, another_process: Callable[[], None]
) -> None:
    strict: list[dict[str, Any]] = [
        {"permissions": {"bash": "deny"}},
        {"permissions": ["file_read"], "approve": "read_only"},
        {"permissions": {"bash": "ask"}, "approve": "auto"},
    ]
    for number, how in enumerate(strict):
        with subtests.test(str(how)):
            store = Store(tmp_path / str(number))
            run_id, _ = cut_run(desk, store, **how)
            another_process()
            freer = desk.agent(permissions={"bash": "allow"})
            again = asyncio.run(recover(run_id, agent=freer, store=store))
            assert codes(again) == [None if how.get("approve") == "auto" else DENIED]  # set here, before the asking rule
            run = desk.agent([MEASURE]).run_sync("go", **how)
            model = ScriptedModel([[STATUS], "Done."])
            assert codes(asyncio.run(fork(run, 2, model=model, tools=desk.tools())))[-1] == DENIED
    text = "workflow:\n  steps:\n    - {id: a, type: tool, name: bash, args: {command: git log}}\n"
    workflow = Workflow.from_yaml(text, tools=desk.tools())
    before = workflow.run_sync("go", permissions={"bash(git *)": "allow"})
    another_process()
    with pytest.raises(Exception, match="bash was not allowed"):
        workflow.run_sync("go", rerun_from="a", of=before)


def test_logged_grants_last_for_their_run_or_session(desk: Desk, tmp_path: Path, another_process: Callable[[], None]) -> None:
    store = Store(tmp_path / "runs")
    with use_host(Host(grants=SessionGrants())):
        live = desk.agent([STATUS], [LOG]).start("go", store=store)
        run = answered(live, "always in session", "always: bash(git log *)")
    assert len(run.grants) == 2
    cut_log(store.folder / f"{run.id}.jsonl", "round_started", 2)
    another_process()
    desk.done.clear()
    again = asyncio.run(recover(run.id, agent=desk.agent([STATUS, LOG]), store=store))
    assert desk.done == ["git log"]
    assert [grant.rule for grant in again.grants] == ["bash(git log *)"]
    assert [event.reach for event in run.events if isinstance(event, GrantGiven)] == ["session", "run"]
