"""The defaults of a session: what may be said, and what agents get of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb.agent.agent import Agent
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.session.defaults import CHOICES, LIMIT_KEYS, OTHERS, agent_settings, at_first, may_be_empty
from agentnb.session.session import Session
from agentnb.traces.store import Store


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Store(tmp_path))


def test_at_first_an_agent_is_as_one_that_is_given_no_settings() -> None:
    plain = Agent(ScriptedModel([]))
    for name, value in agent_settings(at_first()).items():
        assert getattr(plain, name) == value, name


@pytest.mark.req("KX.2")
def test_each_limit_has_its_own_name_and_agents_get_its_value(session: Session) -> None:
    said = {
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
    assert {*said, "session-budget"} == {*LIMIT_KEYS, *OTHERS} and set(CHOICES) <= set(said)
    for key, (text, _) in said.items():
        session.set_default(key, text)
    wanted = {key.replace("-", "_"): value for key, (_, value) in said.items()}
    assert session.agent_settings() == wanted
    agent = Agent(ScriptedModel([]), **session.agent_settings())
    assert {name: getattr(agent, name) for name in wanted} == wanted


@pytest.mark.parametrize("nothing", ["", "none", "None"])
def test_a_limit_is_taken_back_by_an_empty_value_or_none(session: Session, nothing: str) -> None:
    for key in filter(may_be_empty, LIMIT_KEYS):
        session.set_default(key, "3")
        session.set_default(key, nothing)
    assert session.defaults == at_first() and session.agent_settings()["max_tokens"] is None


def test_what_cannot_be_is_refused_in_a_sentence_and_changes_nothing(subtests: pytest.Subtests, session: Session) -> None:
    cases = [
        ("max-rounds", "1001", "max-rounds=1001 is not a whole number from 1 to 1,000"),
        ("max-rounds", "", "max-rounds= is not a whole number"),
        ("max-tool-calls", "0", "max-tool-calls=0 is not a whole number from 1 on"),
        ("max-tokens", "1.5", "is not a whole number from 1 on. Write a number, or max-tokens= for no such limit"),
        ("max-seconds", "inf", "max-seconds=inf is not a positive number of seconds"),
        ("budget", "-1", "budget=-1 is not a positive amount in US dollars"),
        ("budget", "5 EUR", "is not a positive amount in US dollars"),
        ("session-budget", "$0", "session-budget=$0 is not a positive amount in US dollars"),
        ("on-limit", "explode", "on-limit=explode is none of stop, final_answer, raise"),
        ("history", "short", "history=short is none of auto, documented, full"),
        ("instructions", "maybe", "instructions=maybe is neither yes nor no. Write, for example, instructions=no"),
        ("unpriced", "", "unpriced= is neither yes nor no"),
        ("session_budget", "5", "There is no default 'session_budget'. Did you mean session-budget"),
    ]
    for key, value, told in cases:
        with subtests.test(key=key, value=value):
            before = dict(session.defaults)
            with pytest.raises(SettingsError) as refused:
                session.set_default(key, value)
            assert told in str(refused.value)
            assert session.defaults == before and session.budget.limit is None


def test_a_key_that_was_pasted_there_is_not_repeated(session: Session) -> None:
    with pytest.raises(SettingsError) as refused:
        session.set_default("budget", "sk-ant-" + "api03-Really-Secret12")
    assert "Secret" not in str(refused.value)


def test_the_sessions_budget_is_its_purses_and_keeps_what_is_spent(session: Session) -> None:
    session.set_default("session-budget", "$5")
    session.budget.settle(2.0)
    assert (session.budget.limit, session.budget.left()) == (5.0, 3.0)
    session.set_default("session-budget", "6")
    assert session.budget.left() == 4.0
    session.set_default("session-budget", "")
    assert session.budget.limit is None and session.budget.spent == 2.0
