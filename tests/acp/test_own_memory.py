"""Answers that an external agent remembers itself: offered in its own words, and chosen by the person alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from property_settings import OTHER_CASES
from waiting import wait_until

from agentnb import Agent, RunOptions, Store, tables
from agentnb.core.log.events import QuestionAsked
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.questions import JudgedCall
from agentnb.core.run.approvals import APPROVE
from agentnb.display.texts.question_labels import answer_told
from agentnb.errors import SettingsError
from agentnb.notebook.card.actions import ACTIONS
from agentnb.notebook.commands.answer import answer_command, answers_to_offer
from agentnb.policies.gates.gate_verdicts import Ask
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.questions.model_code import as_code
from agentnb.session.session import Session

Make = Callable[..., Agent]
WORDS = "Yes, always"
BY_AGENT = {"always": WORDS, "reach": "agent"}
LONG = 30


def at_night(*cases: Any) -> list[Any]:
    """Return cases of a test whose other cases run by day."""
    return [pytest.param(case, marks=OTHER_CASES) for case in cases]


def asked(live: LiveRun) -> JudgedCall:
    """Wait for the question of a run, and return the call that it is about."""
    wait_until(lambda: bool(live.run.waiting))
    about = live.run.waiting[0].about
    assert about is not None
    return about


def in_card(live: LiveRun) -> None:
    ACTIONS["always"](live, {"rule": WORDS, "reach": "agent", "key": live.run.waiting[0].id})


def in_command(live: LiveRun) -> None:
    session = cast("Session", SimpleNamespace(running=lambda: [live]))
    offered = answers_to_offer(session)
    assert offered[-2:] == [f"always in agent: {WORDS}", "deny: REASON"]
    answer_command(session, cast("Any", None), f"{live.run_id} {offered[-2]}")


@pytest.mark.parametrize(
    "answer",
    [in_card, in_command, *at_night(lambda live: live.answer(BY_AGENT), lambda live: live.answer("always in agent"))],
)
def test_agent_remembers_only_what_the_person_chose(fake: Make, answer: Callable[[LiveRun], None], tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    live = fake().start("blind", RunOptions(can_ask=True, store=store))
    about = asked(live)
    assert (about.agent, about.agent_words) == ("fake", (WORDS,))
    answer(live)
    assert live.result(LONG).text == "ever"
    run = store.load(live.run_id)
    assert not [event for event in run.events if isinstance(event, GrantGiven)]
    (closed,) = run.questions
    assert answer_told(closed) == f"You approved; fake remembers it: '{WORDS}'"
    (row,) = tables.questions(run).to_dict("records")
    assert json.loads(row["answer"]) in (BY_AGENT, f"always in agent: {WORDS}", "always in agent")


@pytest.mark.parametrize("answer", [APPROVE, {"always": "bash", "reach": "run"}, *at_night("always", "always in run")])
def test_other_approvals_are_answered_with_allow_once(fake: Make, answer: Any) -> None:
    live = fake().start("blind", RunOptions(can_ask=True))
    asked(live)
    live.answer(answer)
    assert live.result(LONG).text == "yes"


@pytest.mark.parametrize(
    "options",
    [
        {"approve": lambda call, run: True},
        {"permissions": {"bash(*)": "allow"}, "approve": "ask", "answer": lambda question: "approve"},
        *at_night({"approve": "auto"}, {"permissions": {"bash": "allow"}}),
    ],
)
def test_no_rule_mode_or_function_makes_it_remember(fake: Make, options: dict[str, Any]) -> None:
    assert fake().run_sync("blind", **options).text == "yes"


def test_function_in_the_persons_place_cannot_choose_it(fake: Make) -> None:
    run = fake().run_sync("blind", answer=lambda question: BY_AGENT)
    assert run.text == "no"
    assert "An answer that an agent remembers is reserved for the person" in " ".join(run.warnings)


def test_code_of_a_model_cannot_choose_it_later(fake: Make) -> None:
    live = fake().start("blind", RunOptions(can_ask=True))
    asked(live)
    with as_code(cast("Any", SimpleNamespace(is_over=True))):
        with pytest.raises(SettingsError, match="reserved for the person"):
            live.answer(BY_AGENT)
        live.answer(APPROVE)
    assert live.result(LONG).text == "yes"


@pytest.mark.parametrize(
    "options",
    [
        {"permissions": {"write_file(*.txt)": "deny"}},
        *at_night({"permissions": {"bash(rm *)": "deny"}}),
        {"gates": [lambda call, run: Ask("Really?")]},
    ],
)
def test_it_is_not_offered_where_later_calls_must_be_judged(fake: Make, options: dict[str, Any]) -> None:
    live = fake(gates=options.pop("gates", ())).start("blind", RunOptions(can_ask=True, **options))
    assert asked(live).agent_words == ()
    with pytest.raises(SettingsError):
        live.answer(BY_AGENT)
    live.answer(APPROVE)
    assert live.result(LONG).text == "yes"


OFFERED = [
    ("a", "", "allow_always"),
    ("b", " For\n ls", "allow_always"),
    ("c", WORDS, "allow_always"),
    ("d", "Yes", "allow_once"),
]


@pytest.mark.parametrize(
    ("words", "told"), [(WORDS, "c ever"), ("", "d yes"), pytest.param("For ls", "b yes", marks=OTHER_CASES)]
)
def test_each_option_is_offered_in_its_words(fake: Make, words: str, told: str) -> None:
    live = fake().start(f"choices {json.dumps(OFFERED)}", RunOptions(can_ask=True))
    assert asked(live).agent_words == ("For ls", WORDS)
    for wrong in ({**BY_AGENT, "always": "Yes"}, {**BY_AGENT, "reach": "run"}, {**BY_AGENT, "always": "bash"}):
        with pytest.raises(SettingsError):
            live.answer(wrong)
    live.answer({**BY_AGENT, "always": words} if words else APPROVE)
    assert live.result(LONG).text == told, "another request about the call gets the same words, or allow_once"


def test_inner_call_offers_it_too(fake: Make) -> None:
    live = fake().start("subagent", RunOptions(can_ask=True))
    assert asked(live).agent_words == ()
    live.answer(APPROVE)
    wait_until(lambda: sum(isinstance(event, QuestionAsked) for event in live.run.events) == 2)
    assert asked(live).agent_words == (WORDS,)
    live.answer(BY_AGENT)
    assert live.result(LONG).text == "ever"


@pytest.mark.parametrize(
    "options", [[("c", WORDS, "allow_always"), ("no", "No", "reject_once")], [("c", WORDS, "allow_always")], []]
)
def test_question_says_that_only_its_memory_approves(fake: Make, options: list[Any]) -> None:
    live = fake().start(f"choices {json.dumps(options)}", RunOptions(can_ask=True))
    about, (question,) = asked(live), live.run.waiting
    assert "acp:fake accepts no approval of this call alone. Approving declines it" in question.message
    assert about.agent_words == ((WORDS,) if options else ())
    assert (f"only {WORDS!r} allows it, which fake remembers itself" in question.message) is bool(options)
    assert ("no answer here allows it" in question.message) is not bool(options)
    live.answer(APPROVE)
    run = live.result(LONG)
    assert run.text == f"{'no' if len(options) == 2 else 'cancelled'} no"
    (record,) = run.rounds[0].records
    assert record.result is not None and record.result.is_error
    assert "acp:fake accepts no approval of this call alone" in record.result.text


def test_its_memory_approves_where_nothing_else_does(fake: Make) -> None:
    live = fake().start(f"choices {json.dumps(OFFERED[2:3])}", RunOptions(can_ask=True))
    asked(live)
    live.answer(BY_AGENT)
    run = live.result(LONG)
    assert (run.text, run.rounds[0].records[0].result.is_error) == ("c ever", False)  # type: ignore[union-attr]


@pytest.mark.parametrize("options", [{"approve": "auto"}, *at_night({"permissions": {"bash": "allow"}})])
def test_approval_by_a_rule_never_selects_its_memory(fake: Make, options: dict[str, Any]) -> None:
    run = fake().run_sync(f"choices {json.dumps(OFFERED[2:3])}", **options)
    assert run.text == "cancelled no"
    assert "accepts no approval of this call alone" in run.rounds[0].records[0].result.text  # type: ignore[union-attr]
