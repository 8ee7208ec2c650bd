"""Permissions of an agent that asks nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from asserted_sentences import Snapshot
from msgspec.structs import replace
from property_settings import OTHER_CASES

from agentnb import Agent
from agentnb.acp import reach
from agentnb.acp.installed import Installed
from agentnb.acp.known_agents import KnownAgent
from agentnb.acp.turn_record import UNKNOWN_UPDATES
from agentnb.core.log.events import ModelReplied, Warned
from agentnb.core.messages import ToolCall
from agentnb.errors import ModelError, SettingsError


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"approve": "read_only"}, "read_only would have no effect"),
        ({"approve": "never"}, "never would have no effect"),
        ({"approve": "ask"}, "ask would have no effect"),
        ({"permissions": {"bash(rm *)": "deny"}}, r"bash\(rm \*\) would have no effect"),
        ({"permissions": ["file_read"]}, r"permissions=\['file_read'\] would have no effect"),
    ],
)
def test_unenforceable_options_are_refused_before_the_start(
    fake: Callable[..., Agent], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        fake(mode="auto").run_sync("write", **options)


@pytest.mark.parametrize(
    ("options", "asks_about", "named"),
    [
        ({"permissions": {"read_file(.env)": "deny"}}, "write execute network", r"read_file\(\.env\) .*reads in"),
        ({"permissions": {"write_file": "deny"}}, "read execute network", "write_file .*about writes in"),
        ({"permissions": {"bash(rm *)": "deny"}}, "read write network", r"bash\(rm \*\) .*about commands in"),
        ({"permissions": {"network": "deny"}}, "read write execute", "network .*about network access in"),
        ({"permissions": {"effect:write": "deny"}}, "write", "effect:write .*about commands, network access in"),
        ({"permissions": {"*": "deny"}}, "", r"\* .*about reads, writes, commands, network access in"),
        ({"permissions": ["file_read"]}, "read write execute", r"permissions=\['file_read'\] .*about network access in"),
        ({"approve": "read_only"}, "read write network", "read_only .*about commands in"),
        ({"approve": "never"}, "write execute", "never .*about network access in"),
    ],
)
def test_denial_of_what_the_agent_never_asks_about_is_refused(
    fake: Callable[..., Agent], table: dict[str, KnownAgent], options: dict[str, Any], asks_about: str, named: str
) -> None:
    table["fake"] = replace(table["fake"], asks_about=tuple(asks_about.split()))
    with pytest.raises(SettingsError, match=f"^{named} its mode default.*No mode or sandbox of it is known"):
        fake().run_sync("write", **options)
    table["fake"] = replace(table["fake"], sandbox="Its wall holds them")
    with pytest.raises(SettingsError, match="Its wall holds them"):
        fake().run_sync("write", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"permissions": {"bash": "deny", "write_file(*.md)": "deny", "web_fetch": "deny"}},
        {"permissions": {"read_file": "ask", "read_cells": "deny"}},
        pytest.param({"permissions": ["file_read"]}, marks=OTHER_CASES),
        pytest.param({"approve": "read_only"}, marks=OTHER_CASES),
        {"approve": "never"},
        pytest.param({"approve": "ask"}, marks=OTHER_CASES),
    ],
)
def test_denial_of_what_the_agent_asks_about_is_accepted(
    fake: Callable[..., Agent], table: dict[str, KnownAgent], options: dict[str, Any]
) -> None:
    table["fake"] = replace(table["fake"], asks_about=("write", "execute", "network"))
    run = fake().run_sync("hello", **options)
    assert (run.text, [*run.warnings]) == ("Hello there.", [])


def test_auto_mode_says_what_is_not_asked_about(
    fake: Callable[..., Agent], table: dict[str, KnownAgent], snapshot: Snapshot
) -> None:
    table["fake"] = replace(table["fake"], asks_about=("write", "execute"))
    run = fake().run_sync("hello", approve="auto")
    first = next(place for place, event in enumerate(run.events) if isinstance(event, Warned))
    assert first < next(place for place, event in enumerate(run.events) if isinstance(event, ModelReplied))
    assert [*run.warnings] == snapshot


@pytest.mark.parametrize(
    ("mode", "to", "approve"),
    [
        ("", "plan", None),
        ("auto", "plan", "auto"),
        pytest.param("", "plan", "auto", marks=OTHER_CASES),
        pytest.param("auto", "plan", None, marks=OTHER_CASES),
    ],
)
def test_mode_that_the_agent_chose_itself_is_named(
    fake: Callable[..., Agent], mode: str, to: str, approve: Any, snapshot: Snapshot
) -> None:
    run = fake(mode=mode).run_sync(f"drift {to}", approve=approve or (lambda call, run: True))
    assert [*run.warnings] == snapshot(f"{mode or 'default'} {approve}")
    assert run.status == "completed"


@pytest.mark.parametrize("options", [{"permissions": {"bash(rm *)": "deny"}}, {"approve": "read_only"}, {"approve": "never"}])
def test_mode_without_questions_ends_a_run_with_denials(
    fake: Callable[..., Agent], tmp_path: Path, options: dict[str, Any], snapshot: Snapshot
) -> None:
    with pytest.raises(ModelError, check=snapshot(str(options)).worded) as raised:
        fake().run_sync("drift auto", **options)
    run: Any = raised.value.run
    assert run.status == "failed"
    assert not (tmp_path / "drifted.txt").exists()


def test_mode_without_questions_ends_a_running_call(fake: Callable[..., Agent], snapshot: Snapshot) -> None:
    live = fake(max_seconds=60).start("wander", permissions={"bash(rm *)": "deny"}, approve=lambda call, run: True)
    run = live.result(20)
    assert run.status == "failed" and run.error is not None and run.error.message == snapshot


def test_agent_that_keeps_its_own_mode_is_named(
    fake: Callable[..., Agent], table: dict[str, KnownAgent], snapshot: Snapshot
) -> None:
    table["fake"] = replace(table["fake"], command=(*table["fake"].command, "stubborn"))
    assert [*fake().run_sync("hello").warnings] == snapshot
    with pytest.raises(ModelError, check=snapshot.worded):
        fake().run_sync("hello", approve="never")


def test_change_of_another_setting_is_named(fake: Callable[..., Agent], snapshot: Snapshot) -> None:
    first = fake().run_sync("settle small", permissions={"bash(rm *)": "deny"})
    assert not first.warnings, "it tells its model for the first time"
    assert first.last_round.metadata[UNKNOWN_UPDATES] == {"available_commands_update": {"count": 1, "first": "{}"}}
    assert [*Agent(acp="fake:big").run_sync("settle small").warnings] == snapshot


def test_unsupported_operating_system_is_reported(fake: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "RUNS_HERE", False)
    with pytest.raises(SettingsError, match="POSIX"):
        fake().run_sync("hello")


def test_user_is_warned_about_effects_without_approval(fake: Callable[..., Agent]) -> None:
    run = fake(mode="auto").run_sync("hello", approve="auto")
    assert [
        "does not ask for permission in its mode auto" in event.message for event in run.events if isinstance(event, Warned)
    ] == [True]
    assert not [event for event in fake().run_sync("hello").events if isinstance(event, Warned)]


@pytest.fixture(params=["never tried", "tried in another version"])
def unsure(request: pytest.FixtureRequest, table: dict[str, KnownAgent], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``fake`` an agent with an unknown asking behavior."""
    monkeypatch.setattr(reach, "find_installed", lambda agent: Installed(Path(agent.command[0]), "1.2"))
    is_tried = request.param != "never tried"
    table["fake"] = replace(table["fake"], asks=is_tried, tried="1.1", install="npm install -g fake@latest")


@pytest.mark.usefixtures("unsure")
@pytest.mark.parametrize("is_approved", [True, False])
def test_starting_an_unknown_agent_asks_once(fake: Callable[..., Agent], is_approved: bool) -> None:
    asked: list[str] = []

    def approve(call: ToolCall, run: object) -> bool:
        asked.append(call.name)
        return is_approved

    run = fake().run_sync("hello", approve=approve)
    assert asked == ["start_agent"]
    assert (run.status, run.text) == (("completed", "Hello there.") if is_approved else ("failed", ""))


@pytest.mark.usefixtures("unsure")
def test_start_question_has_no_empty_values(fake: Callable[..., Agent], table: dict[str, KnownAgent]) -> None:
    asked: list[ToolCall] = []

    def approve(call: ToolCall, run: object) -> bool:
        asked.append(call)
        return False

    fake().run_sync("hello", approve=approve)
    table["fake"] = replace(table["fake"], tried="", asks=False, command=("no-such-agent",))
    fake().run_sync("hello", approve=approve)
    first, second = asked
    assert set(first.arguments.values()) <= {"acp:fake", "unknown", "1.1"}
    assert second.arguments == {"agent": "acp:fake", "version": "unknown", "tried": "never"}


@pytest.mark.usefixtures("unsure")
def test_message_sent_during_the_question_follows_the_prompt(fake: Callable[..., Agent]) -> None:
    started = Event()

    def approve(call: ToolCall, run: object) -> bool:
        assert started.wait(20)
        live.say("hello")
        return True

    first = fake().run_sync("plan", approve=lambda call, run: True)
    live = fake().start("odd", approve=approve, continue_from=first)
    started.set()
    assert live.result(20).text == "Odd.Hello there."


@pytest.mark.usefixtures("unsure")
def test_unknown_agent_starts_without_asking_in_auto_mode(fake: Callable[..., Agent]) -> None:
    run = fake().run_sync("hello", approve="auto")
    assert (run.text, len(run.rounds)) == ("Hello there.", 1)
    assert ["without asking" in event.message for event in run.events if isinstance(event, Warned)] == [True]


@pytest.mark.usefixtures("unsure")
def test_ask_mode_is_refused_for_an_unknown_agent(fake: Callable[..., Agent], table: dict[str, KnownAgent]) -> None:
    with pytest.raises(SettingsError, match="ask would have no effect on acp:fake") as raised:
        fake().run_sync("hello", approve="ask")
    assert ("npm install -g fake@1.1" in str(raised.value)) is table["fake"].asks


def test_agent_at_the_tested_version_counts_as_known(
    fake: Callable[..., Agent], table: dict[str, KnownAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "find_installed", lambda agent: Installed(Path(agent.command[0]), "1.1"))
    table["fake"] = replace(table["fake"], tried="1.1")
    assert fake().run_sync("hello", approve="ask").text == "Hello there."
