"""Runs by hand that ask the person."""

from __future__ import annotations

from typing import Any

from run_builder import Fact, begun
from run_builder import run_of as run_of_facts

from agentnb.core import events as e
from agentnb.core.questions import WaitingOnUser
from agentnb.detect.run import Run


def run_of(*facts: Fact) -> Run:
    """A run in its first round."""
    return run_of_facts(*begun(0), *facts)


def asked(message: str = "Which?", schema: dict[str, Any] | None = None, kind: Any = "elicitation") -> Fact:
    return e.QuestionAsked, {"question": WaitingOnUser(kind, message, schema or {"type": "string"}, "q1")}
