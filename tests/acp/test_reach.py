"""Permissions of an agent that asks nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentnb import Agent
from agentnb.acp import reach
from agentnb.acp.installed import Installed
from agentnb.acp.known_agents import KnownAgent
from agentnb.core.log.events import Warned
from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"approve": "read_only"}, "read_only would have no effect"),
        ({"approve": "never"}, "never would have no effect"),
        ({"approve": "ask"}, "ask would have no effect"),
        ({"permissions": {"bash(rm *)": "deny"}}, r"bash\(rm \*\) would have no effect"),
    ],
)
def test_unenforceable_options_are_refused_before_the_start(
    fake: Callable[..., Agent], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        fake(mode="auto").run_sync("write", **options)


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
def test_message_sent_during_the_question_follows_the_prompt(fake: Callable[..., Agent]) -> None:
    def approve(call: ToolCall, run: object) -> bool:
        live.say("hello")
        return True

    first = fake().run_sync("plan", approve=lambda call, run: True)
    live = fake().start("odd", approve=approve, continue_from=first)
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
