"""Settings of an `Agent` backed by an external agent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentnb import Agent, GuidanceSet, Run
from agentnb.errors import SettingsError, UnknownModel
from agentnb.notebook.agent_options import AgentOptions, make_agent
from agentnb.session.session import Session

REFUSED: dict[str, Any] = {
    "model": "simulated:chatty",
    "system": "Be brief.",
    "guidance": GuidanceSet("brief", {}),
    "policy": "minimal",
    "history": "full",
    "instructions": False,
    "output": int,
    "todos": False,
    "max_tokens": 10,
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_agent_setting_is_refused_by_name(fake: Callable[..., Agent], name: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} does not reach acp:fake"):
        fake(**{name: REFUSED[name]})


def test_final_answer_on_limit_is_refused(fake: Callable[..., Agent]) -> None:
    with pytest.raises(SettingsError, match=r"^on_limit='final_answer' does not reach acp:fake"):
        fake(on_limit="final_answer")
    assert {fake(on_limit=word).limits.on_limit for word in ("stop", "raise")} == {"stop", "raise"}


def test_unsupported_session_defaults_are_ignored_but_cell_options_refused() -> None:
    session = Session()
    for key, value in (("on-limit", "final_answer"), ("max-tokens", "500"), ("max-seconds", "9")):
        session.set_default(key, value)
    agent, note = make_agent(AgentOptions(acp="fake"), session, {})
    assert (agent.limits.on_limit, agent.limits.max_tokens, agent.limits.max_seconds) == ("stop", None, 9)
    assert note.endswith(": max-tokens, on-limit")
    agent, note = make_agent(AgentOptions(acp="fake", settings={"on_limit": "raise"}), session, {})
    assert (agent.limits.on_limit, note.endswith(": max-tokens")) == ("raise", True)
    with pytest.raises(SettingsError, match=r"^on_limit='final_answer' does not reach acp:fake"):
        make_agent(AgentOptions(acp="fake", settings={"on_limit": "final_answer"}), session, {})


def test_continued_run_keeps_its_external_agent(fake: Callable[..., Agent]) -> None:
    before = fake().run_sync("hello")
    agent, _ = make_agent(AgentOptions(), Session(), {}, before)
    assert agent.model_name == before.model == "acp:fake"
    agent, _ = make_agent(AgentOptions(model="simulated:chatty"), Session(), {}, before)
    assert agent.model_name == "simulated:chatty"
    with pytest.raises(SettingsError, match=r"used acp:fake, and its log is not yours\. Name the agent: --acp NAME"):
        make_agent(AgentOptions(), Session(), {}, Run.from_events(before.events))


def test_missing_package_is_named(fake: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "acp", None)
    with pytest.raises(SettingsError, match=r"agent-client-protocol, which is not installed\. Install it: .*agentnb\[acp\]"):
        fake()


def test_panel_takes_an_external_agent_as_a_tool_only(fake: Callable[..., Agent]) -> None:
    with pytest.raises(UnknownModel, match=r"'acp:fake' is an external agent, not a model\. Name it with --acp"):
        make_agent(AgentOptions("acp:fake"), Session(), {})
    agent, _ = make_agent(AgentOptions("simulated:chatty", ["helper"]), Session(), {"helper": fake()})
    assert [tool.spec.name for tool in agent.toolbox] == ["helper"]


def test_copied_agent_is_validated_like_the_original(fake: Callable[..., Agent]) -> None:
    first = fake()
    assert replace(first, mode="auto").run_sync("mode", approve="auto").text == "auto"
    assert replace(first, max_rounds=3) == fake(max_rounds=3)
    with pytest.raises(SettingsError, match=r"^system does not reach"):
        replace(first, system="Be brief.")


def test_first_request_is_not_available(fake: Callable[..., Agent]) -> None:
    with pytest.raises(SettingsError, match="acp:fake builds its requests itself"):
        fake().first_request("hello")


def test_model_in_the_agent_name_is_selected() -> None:
    assert Agent(acp="fake:big").run_sync("model").text == "big"
    assert Agent(acp="fake").run_sync("model").text == ""


def test_agent_without_a_model_is_refused() -> None:
    with pytest.raises(SettingsError, match="An agent needs a model"):
        Agent()
    with pytest.raises(SettingsError, match="mode applies only to external agents"):
        Agent("simulated:chatty", mode="plan")
