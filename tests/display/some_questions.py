"""Runs by hand that ask the person."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

from agentnb.core import events as e
from agentnb.core.messages import user
from agentnb.core.questions import WaitingOnUser
from agentnb.core.run import Run

Fact: TypeAlias = tuple[type[e.Event], dict[str, Any]]
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def run_of(*facts: Fact) -> Run:
    first: Fact = (e.RunStarted, {"schema": e.SCHEMA, "prompt": user("Go"), "model": "scripted:hand"})
    begun: Fact = (e.RoundStarted, {"index": 0, "reason": "prompt"})
    events = [kind(seq=seq, at=NOON, run_id="r", **fields) for seq, (kind, fields) in enumerate([first, begun, *facts])]
    return Run.from_events(events)  # type: ignore[arg-type]  # all of them are kinds


def asked(message: str = "Which?", schema: dict[str, Any] | None = None, kind: Any = "elicitation") -> Fact:
    return e.QuestionAsked, {"question": WaitingOnUser(kind, message, schema or {"type": "string"}, "q1")}
