"""Judges whose model is a function of what it was sent, and counts its calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agentnb.core.request import Request
from agentnb.experiments.judging.judge import Judge
from agentnb.models.scripted import ScriptedModel

RUBRIC = "Each line was checked by a call."


def verdict(word: str, reason: str = "It says so.") -> str:
    """The reply of a judge."""
    return json.dumps({"reason": reason, "verdict": word})


def sent(request: Request) -> str:
    """The text that a judge was sent, without its instructions."""
    return request.messages[0].text


def judge_by(answer: Callable[[str], Any], **settings: Any) -> tuple[Judge, ScriptedModel]:
    """A judge that replies with what a function makes of the text that it was sent, and its model."""
    model = ScriptedModel([lambda request: answer(sent(request))], name="scripted:judge", repeat=True)
    return Judge(model, RUBRIC, **settings), model


def judge_of_calls(**settings: Any) -> tuple[Judge, ScriptedModel]:
    """A judge that passes the runs in which a line was checked."""
    return judge_by(lambda text: verdict("passed" if '"tool": "check_line"' in text else "failed"), **settings)
