"""Saved rules: kept in the person's folder for one working folder, counted only while nobody else can have written them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asserted_sentences import Snapshot
from own_folder import use_own_folder
from run_checks import codes
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, recover, settings, tool
from agentnb.core.log import events as e
from agentnb.core.questions import rule_parts
from agentnb.core.run.approvals import allows_all
from agentnb.core.run.rounds import DENIED
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.questions.grants import SessionGrants
from agentnb.runtime.questions.model_code import ModelCode
from agentnb.runtime.questions.saved_rules import SavedRules, may_save, rules_folder, saved_rules, withdraw_saved
from agentnb.runtime.questions.saved_rules import save as save_rule
from agentnb.tools.tool import ToolContext

LOG, TESTS = (ToolCall("bash", {"command": line}) for line in ("git log -5", "pytest -q"))
SAVE = ToolCall("save", {"path": "data/a.txt", "text": "new\n"})
ALWAYS = {"always": "bash(git log *)", "reach": "project"}


@tool(effects=["execute"], command="command")
async def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool(effects=["write"], path="path", content="text")
async def save(path: str, text: str) -> str:
    """Write a file."""
    return "saved"


@tool(effects=["write"])
async def send(to: str) -> str:
    """Send it."""
    return "sent"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder beside the person's own."""
    use_own_folder(monkeypatch, tmp_path / "data-home" / "agentnb")
    work = tmp_path / "work"
    (work / "data").mkdir(parents=True)
    yield work


def start(work: Path, *calls: ToolCall, grants: SessionGrants | None = None, **options: Any) -> Any:
    agent = Agent(ScriptedModel([list(calls), "Done."]), tools=[bash, save, send], todos=False, work_dir=work)
    with use_host(Host(grants=grants or SessionGrants())):
        return agent.start("go", RunOptions(**options))


def allowed(work: Path, *calls: ToolCall) -> list[bool]:
    """Return which of these calls run unasked, in another session."""
    run = start(work, *calls, approval_mode="never").result(PATIENCE)
    return [code is None for code in codes(run)]


def answer(work: Path, call: ToolCall, value: Any, **options: Any) -> Run:
    live = start(work, call, **options)
    wait_until(lambda: bool(live.run.waiting))
    try:
        live.answer(value)
    except SettingsError:
        live.stop()
        raise
    return live.result(PATIENCE)  # type: ignore[no-any-return]


def test_saved_rule_applies_to_later_sessions_in_its_folder(here: Path) -> None:
    run = answer(here, LOG, ALWAYS)
    ((grant_id, saved),) = saved_rules().rules.items()
    assert [grant.grant_id for grant in run.grants] == [grant_id]
    assert (saved.rule, saved.folder, saved.tool, saved.by) == ("bash(git log *)", str(here), "bash", "person")
    assert allowed(here, LOG, TESTS) == [True, False]
    (here / "inner").mkdir()
    (here.parent / "link").symlink_to(here)
    assert allowed(here / "inner", LOG) == allowed(here.parent, LOG) == [False]
    assert allowed(here.parent / "link", LOG) == [True], "the same folder, links followed"
    withdraw_saved(grant_id)
    assert allowed(here, LOG) == [False] and not [*rules_folder().iterdir()]


def test_withdrawn_rule_stops_applying_in_live_runs_too(here: Path) -> None:
    answer(here, LOG, ALWAYS)

    async def forget() -> None:
        """Withdraw it, as another process does."""
        withdraw_saved(next(iter(saved_rules().rules)))

    model = ScriptedModel([[LOG], [ToolCall("forget")], [LOG], "Done."])
    with use_host(Host(grants=SessionGrants())):
        run = Agent(model, tools=[bash, forget], todos=False, work_dir=here).run_sync("go", RunOptions(approval_mode="never"))
    assert codes(run) == [None, None, DENIED] and not run.grants


def test_rule_file_is_private_and_records_rule_folder_and_date(here: Path) -> None:
    old = os.umask(0)
    try:
        answer(here, LOG, ALWAYS)
    finally:
        os.umask(old)
    (path,) = rules_folder().iterdir()
    assert path.stat().st_mode & 0o777 == 0o600 and rules_folder().stat().st_mode & 0o777 == 0o700
    written = msgspec.json.decode(path.read_bytes())
    assert (written["rule"], written["folder"]) == ("bash(git log *)", str(here)) and written["saved_at"].startswith("20")
    assert path.stat().st_mtime_ns and not here.joinpath(".agentnb").exists()


def changed(**fields: Any) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def change(path: Path, _: pytest.MonkeyPatch) -> None:
        path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | fields))

    return change


def linked(path: Path, _: pytest.MonkeyPatch) -> None:
    path.rename(path.parent.parent / "elsewhere.json").chmod(0o600)
    path.symlink_to("../elsewhere.json")


def folder(path: Path, _: pytest.MonkeyPatch) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path, _: pytest.MonkeyPatch) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


FOREIGN: dict[str, Callable[[Path, pytest.MonkeyPatch], Any]] = {
    "damaged": lambda path, _: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path, _: path.write_bytes(b""),
    "too large": lambda path, _: path.write_bytes(b" " * 30_000 + path.read_bytes()),
    "writable by all": lambda path, _: path.chmod(0o602),
    "writable by the group": lambda path, _: path.chmod(0o620),
    "its folder writable by all": lambda path, _: path.parent.chmod(0o707),
    "of another owner": lambda path, monkeypatch: monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1),
    "a link": linked,
    "a pipe": pipe,
    "a folder": folder,
    "another rule": changed(rule="bash(rm *)"),
    "another folder": changed(folder="/"),
    "an unknown field": changed(verdict="deny"),
    "another name": lambda path, _: path.rename(path.with_name(f"{path.stem}0.json")),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_file_writable_by_others_allows_nothing(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(here, LOG, ALWAYS)
    (path,) = rules_folder().iterdir()
    FOREIGN[name](path, monkeypatch)
    grants = SessionGrants()
    live = start(here, LOG, approval_mode="never", grants=grants)
    assert codes(live.result(PATIENCE)) == [DENIED]
    ((_, found),) = grants.new_saved_rules()
    assert not found.rules and len(found.refused) == 1
    assert not [*grants.new_saved_rules()], "it is said once"


def test_overly_broad_saved_rule_allows_nothing(here: Path) -> None:
    answer(here, LOG, ALWAYS)
    ((_, saved),) = saved_rules().rules.items()
    for rule in (
        "bash",
        "bash(*)",
        "bash(/**)",
        "*",
        "b*",
        "save(git log *)",
        "bash(git\u202elog *)",
        "bash(run [key])",
        "bash(",
    ):
        other = msgspec.structs.replace(saved, rule=rule)
        (rules_folder() / f"{other.grant_id}.json").write_bytes(msgspec.json.encode(other))
        (rules_folder() / f"{other.grant_id}.json").chmod(0o600)
        found = saved_rules(str(here))
        assert [rule.rule for rule in found.rules.values()] == ["bash(git log *)"] and len(found.refused) == 1, rule
        withdraw_saved(other.grant_id)


def test_path_rule_stops_applying_when_a_symlink_changes(here: Path) -> None:
    answer(here, SAVE, "always in project: save(data/**)")
    assert allowed(here, SAVE) == [True]
    (here / "data").rmdir()
    (here / "data").symlink_to(here.parent, target_is_directory=True)
    assert allowed(here, SAVE) == [False] and len(saved_rules(str(here)).refused) == 1


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (LOG, {"always": "bash", "reach": "project"}),
        (LOG, "always in project: bash"),
        (LOG, "always in session: bash(* *)"),
        (LOG, "always in project: bash(**)"),
        (SAVE, "always in project: save(./**)"),
        (LOG, "always in project: bash(curl -H sk-ant-api03-aaaaaaaaaaaaaaaaaaaa *)"),
        (LOG, "always in project: bash(run [key] *)"),
        (LOG, "always in project: bash(git\u200blog *)"),
        (LOG, "always in project: save(a)"),
        (ToolCall("send", {"to": "x"}), "always in project"),
        (ToolCall("send", {"to": "x"}), "always in project: send"),
    ],
)
def test_answer_that_may_not_be_saved_is_refused(call: ToolCall, value: Any, here: Path) -> None:
    with pytest.raises(SettingsError):
        answer(here, call, value)
    assert saved_rules() == SavedRules({})


def test_known_key_is_never_saved(here: Path) -> None:
    settings.keep_key("MY_OWN_TOKEN", "correct-horse-battery")
    with pytest.raises(SettingsError, match="with a key"):
        answer(here, LOG, "always in project: bash(git log correct-horse-battery *)")
    call = ToolCall("bash", {"command": "deploy correct-horse-battery"})
    live = start(here, call)
    wait_until(lambda: bool(live.run.waiting))
    assert "project" not in [offer.reach for offer in live.run.waiting[0].about.grants]
    live.stop()
    assert not rules_folder().exists()


def around(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "personal_folder", lambda: here / "home" / "agentnb")
    (here.parent / "data-home").rename(here / "home")


def linked_folder(here: Path, _: pytest.MonkeyPatch) -> None:
    rules_folder().rename(here.parent / "dotfiles")
    rules_folder().symlink_to(here.parent / "dotfiles")


FOLDERS: dict[str, Callable[[Path, pytest.MonkeyPatch], Any]] = {
    "holds the person's own, so a project could bring rules": around,
    "the folder of rules is a link, whose target tools may write": linked_folder,
    "its name has a key": lambda here, _: settings.keep_key("MY_OWN_TOKEN", str(here)),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_is_saved_where_others_could_write_rules(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(here, LOG, ALWAYS)
    FOLDERS[name](here, monkeypatch)
    assert allowed(here, LOG) == [False]
    live = start(here, LOG)
    wait_until(lambda: bool(live.run.waiting))
    about = live.run.waiting[0].about
    assert [offer.reach for offer in about.grants] == ["run", "session", "run"] and about.folder == ""
    live.stop()


def test_folder_with_an_undecodable_name_has_no_rules(here: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(here) + b"/caf\xe9"))
    odd.mkdir()
    assert allowed(odd, LOG) == [False]
    assert [may_save(str(folder)) for folder in (odd, rules_folder(), rules_folder().parent, here)] == [False] * 3 + [True]


def test_concurrent_processes_keep_each_others_rules(here: Path) -> None:
    lines = [f"git log -1{number}" for number in range(8)]
    with ThreadPoolExecutor(len(lines)) as pool:
        each = {"reach": "project"}
        of = {line: pool.submit(answer, here, LOG, {"always": f"bash({line})", **each}) for line in lines}
        [future.result() for future in of.values()]
    assert sorted(rule_parts(saved.rule)[1] for saved in saved_rules().rules.values()) == lines
    answer(here, TESTS, {"always": "bash(pytest *)", "reach": "project"})
    assert len(saved_rules().rules) == len(lines) + 1


def swapped(here: Path) -> None:
    (here / "data").rmdir()
    (here / "data").symlink_to(here.parent, target_is_directory=True)


def open_to_others(_: Path) -> None:
    rules_folder().mkdir(parents=True)
    rules_folder().chmod(0o770)


def file_in_its_place(here: Path) -> None:
    rules_folder().parent.parent.mkdir()
    rules_folder().parent.touch()


def nothing(_: Path) -> None:
    """Change nothing."""


SAVING_FAILS: dict[str, tuple[Callable[[Path], None], ToolCall, Any, str]] = {
    "a file in its place": (file_in_its_place, SAVE, "always in project: save(data/**)", "Not a directory"),
    "a folder open to others": (open_to_others, LOG, ALWAYS, "the rule would have no effect, as others may write {rules}"),
    "a link made meanwhile": (swapped, SAVE, "always in project", "it leads to {parent}"),
    "out of the folder": (nothing, SAVE, "always in project: save(x/../../**)", "it leads to {parent}"),
}


@pytest.mark.parametrize("name", SAVING_FAILS)
def test_unsavable_rule_still_applies_to_the_run(name: str, here: Path) -> None:
    change, call, value, reason = SAVING_FAILS[name]
    grants = SessionGrants()
    live = start(here, call, grants=grants)
    wait_until(lambda: bool(live.run.waiting))
    change(here)
    live.answer(value)
    wait_until(lambda: any(isinstance(event, e.Warned) for event in live.run.events))
    live.stop()
    run = live.result(PATIENCE)
    (warning,) = [event.message for event in run.events if isinstance(event, e.Warned)]
    reason = reason.format(rules=rules_folder(), parent=here.parent)
    assert warning.endswith(f" was not saved: {reason}. It applies in this run.")
    assert not [*grants.in_force()] and [grant.reach for grant in run.grants] == ["run"]
    assert saved_rules() == SavedRules({}) and not [*rules_folder().parent.glob("*/saved*")]


@pytest.mark.parametrize("who", ["a function", "code between cells"])
def test_only_an_answer_by_the_person_is_saved(
    who: str, here: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    if who == "a function":
        run = start(here, LOG, answer=lambda question: ALWAYS).result(PATIENCE)
    else:
        monkeypatch.setattr("agentnb.runtime.questions.model_code.running_cells", [])
        run = answer(here, LOG, ALWAYS)
    (warning,) = [event.message for event in run.events if isinstance(event, e.Warned)]
    assert warning == snapshot(who)
    assert not saved_rules().rules and [grant.reach for grant in run.grants] == ["run"]


def suspended(here: Path) -> Run:
    """Return a run that waits for its person, in a store."""
    live = start(here, LOG, store=Store(here.parent / "runs"))
    wait_until(lambda: bool(live.run.waiting))
    live.suspend()
    return live.result(PATIENCE)  # type: ignore[no-any-return]


def resume(run: Run, work: Path) -> Run:
    """Resume it with an answer that saves a rule."""
    agent, store = Agent(ScriptedModel(["Done."]), tools=[bash], todos=False, work_dir=work), Store(work.parent / "runs")
    with use_host(Host(grants=SessionGrants())):
        return asyncio.run(recover(run, agent=agent, store=store, answers={run.waiting[0].id: ALWAYS}))


def test_question_of_a_moved_folder_saves_nothing_with_a_warning(here: Path, snapshot: Snapshot) -> None:
    run = suspended(here)
    moved = here.rename(here.parent / "moved")
    resumed = resume(run, moved)
    (warning,) = [event.message for event in resumed.events if isinstance(event, e.Warned)]
    assert warning.replace(str(here), "FOLDER") == snapshot
    assert codes(resumed) == [None] and [grant.reach for grant in resumed.grants] == ["run"]


def by_answer(here: Path, later: Any) -> None:
    live = start(here, LOG)
    wait_until(lambda: bool(live.run.waiting))
    try:
        later(live.answer, ALWAYS)
    finally:
        later(live.answer, "deny")
        assert codes(live.result(PATIENCE)) == [DENIED]


BY_CODE: dict[str, Callable[[Path, Any], Any]] = {
    "an answer": by_answer,
    "an answer to a suspended run": lambda here, later: later(resume, suspended(here), here),
    "a file": lambda here, later: later(save_rule, str(here), "bash", "bash(git log *)", "person", "", ""),
}


@pytest.mark.parametrize("name", BY_CODE)
def test_leftover_model_code_cannot_save_rules(name: str, here: Path) -> None:
    code, names = ModelCode(None), dict[str, Any]()
    exec(compile("def later(function, *args):\n    return function(*args)", code.filename, "exec"), names)
    code.is_over = True
    with pytest.raises(SettingsError, match="Saving a rule is reserved for the person"):
        BY_CODE[name](here, names["later"])
    assert not saved_rules().rules


def test_nested_run_in_another_folder_saves_for_that_folder(here: Path) -> None:
    inner = Agent(ScriptedModel([[LOG], "Done."]), tools=[bash], todos=False, work_dir=here / "data")

    async def delegate(context: ToolContext) -> str:
        """Delegate."""
        return str((await context.start_run(inner, "go")).text)

    outer = Agent(ScriptedModel([[ToolCall("delegate")], "Done."]), tools=[delegate, bash], todos=False, work_dir=here)
    with use_host(Host(grants=SessionGrants())):
        live = outer.start("go")
    wait_until(lambda: bool(live.run.waiting))
    live.answer(ALWAYS)
    run = live.result(PATIENCE)
    assert [saved.folder for saved in saved_rules().rules.values()] == [str(here / "data")]
    assert not [event for event in run.events if isinstance(event, e.Warned)]
    assert not run.grants and allowed(here, LOG) == [False] and allowed(here / "data", LOG) == [True]


@pytest.mark.parametrize(
    ("rule", "parts", "is_all"),
    [
        ("bash", ("bash", ""), True),
        ("bash(git log *)", ("bash", "git log *"), False),
        ("bash(echo (a) b)", ("bash", "echo (a) b"), False),
        ("bash(* *)", ("bash", "* *"), True),
        ("save(/**)", ("save", "/**"), True),
        ("fetch(https://*:443/**)", ("fetch", "https://*:443/**"), True),
        ("fetch(https://*.org/**)", ("fetch", "https://*.org/**"), False),
        ("mcp:clock/now", ("mcp:clock/now", ""), True),
        ("bash()", ("bash()", ""), True),
        ("bash(ls", ("bash(ls", ""), True),
    ],
)
def test_rule_text_is_parsed_into_tool_and_pattern(rule: str, parts: tuple[str, str], is_all: bool) -> None:
    assert (rule_parts(rule), allows_all(rule)) == (parts, is_all)
