"""Runs by hand that ask the person."""

from __future__ import annotations

from typing import Any

from run_builder import Fact, begun
from run_builder import run_of as run_of_facts

from agentnb.core.log import events as e
from agentnb.core.messages import Message, ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.detect.run import Run


def run_of(*facts: Fact) -> Run:
    """A run in its first round."""
    return run_of_facts(*begun(0), *facts)


def asked(
    message: str = "Which?",
    schema: dict[str, Any] | None = None,
    kind: Any = "elicitation",
    id: str = "q1",
    call_id: str = "",
    **fields: str,
) -> Fact:
    return e.QuestionAsked, {"question": WaitingOnUser(kind, message, schema or {"type": "string"}, id, call_id, **fields)}


PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 40},
        "mail": {"type": "string", "format": "email", "description": "Where the confirmation goes"},
        "day": {"type": "string", "format": "date", "default": "2026-07-28"},
        "guests": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
        "room": {"type": "string", "oneOf": [{"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}]},
        "meals": {"type": "array", "items": {"type": "string", "enum": ["breakfast", "dinner"]}, "maxItems": 2},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "note": {"type": "string", "description": "For the kitchen"},
        "sure": {"type": "boolean", "default": False},
    },
    "required": ["name", "mail", "room"],
}
"""The form of a booking: a field of each kind."""


def answered(answer: Any, id: str = "q1") -> Fact:
    return e.QuestionAnswered, {"question_id": id, "answer": answer}


def declined_by(who: str) -> Fact:
    """The answer of who is not the person, and did not answer."""
    return e.QuestionAnswered, {"question_id": "q1", "declined": True, "by": who}


DECLINED = (e.QuestionAnswered, {"question_id": "q1", "declined": True})
CANCELLED = (e.QuestionAnswered, {"question_id": "q1", "declined": True, "cancelled": True})
WITHDRAWN = (e.QuestionAnswered, {"question_id": "q1", "withdrawn": True})


def asking_call(*facts: Fact, name: str = "ask_person", call_id: str = "c1") -> list[Fact]:
    """A reply with one call, during which these facts happen; the call is still open."""
    call = ToolCall(name, {}, call_id)
    return [(e.ModelReplied, {"message": Message("assistant", (call,))}), (e.ToolStarted, {"call": call}), *facts]
