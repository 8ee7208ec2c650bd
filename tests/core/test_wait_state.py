"""Which events begin and end a wait for the person."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentnb.core import events as e
from agentnb.core.questions import WaitingOnUser
from agentnb.core.wait_state import WaitState


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


@pytest.mark.parametrize(
    "steps",
    [
        [asked()],
        [commanded("pause")],
        [asked(), asked("q2"), answered()],
        [commanded("pause"), asked(), answered()],
        [asked(), commanded("pause"), commanded("resume")],
        [asked(), commanded("stop")],  # the question is withdrawn by an event of its own
        [answered("q0"), asked()],
        [DIED, asked()],
        [commanded("pause"), commanded("pause")],
    ],
)
def test_it_waits_for_answers_and_for_the_end_of_a_pause(steps: list[Any]) -> None:
    assert waits_after(*steps)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [asked(), answered()],
        [commanded("pause"), commanded("resume")],
        [commanded("pause"), commanded("pause"), commanded("resume")],
        [commanded("pause"), commanded("stop")],
        [commanded("resume")],
        [commanded("say")],
        [asked(), asked("q2"), answered("q2"), answered()],
        [asked(), commanded("pause"), DIED],
        [asked(), commanded("pause"), ENDED],
    ],
)
def test_it_waits_no_more_when_all_of_them_have_come_or_whoever_waited_is_gone(steps: list[Any]) -> None:
    assert not waits_after(*steps)
