"""Session defaults: valid values, and the settings agents get."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb.agent.agent import Agent
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.session.option_defaults import CHOICES, LIMIT_KEYS, OF_CELLS, OTHERS, agent_settings, at_first, may_be_empty
from agentnb.session.session import Session
from agentnb.store.store import Store


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Store(tmp_path))


def test_initial_defaults_equal_an_agent_without_settings() -> None:
    plain = Agent(ScriptedModel([]))
    for name, value in agent_settings(at_first()).items():
        assert getattr(plain, name) == value, name


@pytest.mark.req("KX.2")
def test_each_limit_has_its_own_key_and_reaches_agents(session: Session) -> None:
    values = {
        "max-rounds": ("7", 7),
        "max-tool-calls": ("9", 9),
        "max-tool-calls-per-turn": ("8", 8),
        "max-seconds": ("1.5", 1.5),
        "max-tokens": ("1000", 1000),
        "budget": ("$0.5", 0.5),
        "on-limit": ("final-answer", "final_answer"),
        "history": ("documented", "documented"),
        "instructions": ("No", False),
        "unpriced": ("yes", True),
    }
    assert {*values, "session-budget"} == {*LIMIT_KEYS, *OTHERS} and set(CHOICES) <= {*values, *OF_CELLS}
    for key, (text, _) in values.items():
        session.set_default(key, text)
    wanted = {key.replace("-", "_"): value for key, (_, value) in values.items()}
    assert session.agent_settings() == wanted
    agent = Agent(ScriptedModel([]), **session.agent_settings())
    assert {name: getattr(agent, name) for name in wanted} == wanted


def test_option_key_may_be_written_with_underscores(session: Session) -> None:
    session.set_default("max_tool_calls_per_turn", "7")
    assert session.defaults["max-tool-calls-per-turn"] == "7" and "max_tool_calls_per_turn" not in session.defaults


@pytest.mark.parametrize("nothing", ["", "none", "None"])
def test_limit_is_reset_by_an_empty_value_or_none(session: Session, nothing: str) -> None:
    for key in filter(may_be_empty, LIMIT_KEYS):
        session.set_default(key, "3")
        session.set_default(key, nothing)
    assert session.defaults == at_first() and session.agent_settings()["max_tokens"] is None


def test_invalid_default_is_refused_and_changes_nothing(subtests: pytest.Subtests, session: Session) -> None:
    cases = [
        ("max-rounds", "1001", "max-rounds must be a whole number from 1 to 1,000, got '1001'"),
        ("max-rounds", "", "max-rounds must be a whole number"),
        ("max-tool-calls", "0", "max-tool-calls must be a whole number above 0, got '0'"),
        ("max-tokens", "1.5", "must be a whole number above 0, got '1.5'. Use a number, or max-tokens= for no limit"),
        ("max-seconds", "inf", "max-seconds must be a positive number of seconds, got 'inf'"),
        ("budget", "-1", "budget must be a positive amount in US dollars, got '-1'"),
        ("budget", "5 EUR", "must be a positive amount in US dollars, got '5 EUR'"),
        ("session-budget", "$0", "session-budget must be a positive amount in US dollars, got '$0'"),
        ("on-limit", "explode", "on-limit must be one of stop, final_answer, raise, got 'explode'"),
        ("on-stop", "explode", "on-stop must be one of raise, continue, got 'explode'"),
        ("history", "short", "history must be one of auto, documented, full, got 'short'"),
        ("instructions", "maybe", "instructions must be yes or no, got 'maybe'. For example: instructions=no"),
        ("unpriced", "", "unpriced must be yes or no, got ''"),
        ("session_budgt", "5", "There is no default 'session-budgt'. Did you mean session-budget"),
    ]
    for key, value, told in cases:
        with subtests.test(key=key, value=value):
            before = dict(session.defaults)
            with pytest.raises(SettingsError) as refused:
                session.set_default(key, value)
            assert told in str(refused.value)
            assert session.defaults == before and session.budget.limit is None


def test_pasted_api_key_is_not_repeated(session: Session) -> None:
    with pytest.raises(SettingsError) as refused:
        session.set_default("budget", "sk-ant-" + "api03-Really-Secret12")
    assert "Secret" not in str(refused.value)


def test_session_budget_default_changes_the_limit_but_not_spending(session: Session) -> None:
    session.set_default("session-budget", "$5")
    session.budget.settle(2.0)
    assert (session.budget.limit, session.budget.left()) == (5.0, 3.0)
    session.set_default("session-budget", "6")
    assert session.budget.left() == 4.0
    session.set_default("session-budget", "")
    assert session.budget.limit is None and session.budget.spent == 2.0
