"""Events that begin and end a wait for the person."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentnb.core.log import events as e
from agentnb.core.questions import WaitingOnUser
from agentnb.core.run.wait_state import WaitState


def waits_after(*steps: tuple[type[e.Event], dict[str, Any]]) -> bool:
    waits = WaitState()
    for seq, (kind, fields) in enumerate(steps):
        waits.take(kind(seq=seq, at=datetime.now(UTC), run_id="r-1", **fields))  # type: ignore[arg-type]
    return bool(waits)


def asked(name: str = "q1") -> Any:
    return e.QuestionAsked, {"question": WaitingOnUser("confirm", "Well?", {}, name, "c1")}


def answered(name: str = "q1") -> Any:
    return e.QuestionAnswered, {"question_id": name, "answer": True}


def commanded(command: str) -> Any:
    return e.CommandReceived, {"command": command}


DIED = e.RunRecovered, {"schema": e.SCHEMA}
ENDED = e.RunFinished, {"status": "cancelled", "stop_reason": "cancelled", "seconds": 1.0}


def test_run_waits_for_open_questions_and_pauses(subtests: pytest.Subtests) -> None:
    cases = {
        "a question": [asked()],
        "a pause": [commanded("pause")],
        "two questions, one answered": [asked(), asked("q2"), answered()],
        "a pause, and a question that was answered": [commanded("pause"), asked(), answered()],
        "a question, and a pause that is over": [asked(), commanded("pause"), commanded("resume")],
        "a question, and a stop": [asked(), commanded("stop")],  # another event withdraws the question
        "a question after the answer to another": [answered("q0"), asked()],
        "a question after the process died": [DIED, asked()],
        "two pauses": [commanded("pause"), commanded("pause")],
    }
    for name, steps in cases.items():
        with subtests.test(name):
            assert waits_after(*steps)


def test_answering_resuming_or_process_death_ends_the_wait(subtests: pytest.Subtests) -> None:
    cases = {
        "nothing": [],
        "a question and its answer": [asked(), answered()],
        "a pause that is over": [commanded("pause"), commanded("resume")],
        "two pauses, one resume": [commanded("pause"), commanded("pause"), commanded("resume")],
        "a pause, and a stop": [commanded("pause"), commanded("stop")],
        "a resume alone": [commanded("resume")],
        "a message": [commanded("say")],
        "two questions, both answered": [asked(), asked("q2"), answered("q2"), answered()],
        "the process died": [asked(), commanded("pause"), DIED],
        "the run ended": [asked(), commanded("pause"), ENDED],
    }
    for name, steps in cases.items():
        with subtests.test(name):
            assert not waits_after(*steps)
