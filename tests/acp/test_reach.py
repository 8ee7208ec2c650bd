"""What permissions reach of an agent that asks nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from agentnb import Agent
from agentnb.acp import reach
from agentnb.acp.known_agents import KnownAgent
from agentnb.core.log.events import Warned
from agentnb.errors import SettingsError


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"approve": "read_only"}, "read_only would not hold"),
        ({"approve": "never"}, "never would not hold"),
        ({"approve": "ask"}, "ask would not hold"),
        ({"permissions": {"bash(rm *)": "deny"}}, r"bash\(rm \*\) would not hold"),
    ],
)
def test_what_it_would_not_keep_is_refused_before_its_start(
    fake: Callable[..., Agent], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        fake(mode="auto").run_sync("write", **options)


def test_a_system_that_cannot_run_it_is_named(fake: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "RUNS_HERE", False)
    with pytest.raises(SettingsError, match="POSIX"):
        fake().run_sync("hello")


def test_the_person_is_warned_about_what_they_are_not_asked(fake: Callable[..., Agent]) -> None:
    run = fake(mode="auto").run_sync("hello", approve="auto")
    assert ["asks nobody in its mode auto" in event.message for event in run.events if isinstance(event, Warned)] == [True]
    assert not [event for event in fake().run_sync("hello").events if isinstance(event, Warned)]


def test_an_agent_of_which_nothing_is_known_needs_the_word_auto(
    fake: Callable[..., Agent], table: dict[str, KnownAgent]
) -> None:
    table["fake"] = replace(table["fake"], asks=False, asks_in="")
    with pytest.raises(SettingsError, match="approve=auto"):
        fake().run_sync("hello")
    assert fake().run_sync("hello", approve="auto").text == "Hello there."
