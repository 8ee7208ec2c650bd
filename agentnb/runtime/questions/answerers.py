"""What answers in the person's place, and what the asker gets where there is no answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from agentnb.core.messages import ToolCall
from agentnb.core.questions import Answer, WaitingOnUser
from agentnb.detect.run import Run
from agentnb.errors import Declined, QuestionCancelled, SettingsError
from agentnb.policies.permissions.approval_mode import ApprovalMode

Approve: TypeAlias = Callable[[ToolCall, Run], Any]
"""Decides about a call: True, False, a reason why not, or other arguments as a dict; None leaves it to the person.

It may be async. A plain function is called where plain tools run: in a notebook, on the main thread. It decides for nested
runs too.
"""
AnswerQuestion: TypeAlias = Callable[[WaitingOnUser], Any]
"""Answers a question in the person's place; None or raising `Declined` declines, raising `QuestionCancelled` closes it.

It may be async. A plain function is called in a thread.
"""
Program: TypeAlias = Callable[[WaitingOnUser], Awaitable[Any]]
"""A function that answers in the person's place: with a value, with None to leave the question to the person, or by raising
`Declined` or `QuestionCancelled`."""
GO_ON = "Go on without it and say what you assumed"


def check_approve(given: Any) -> None:
    """Raise `SettingsError` if ``approve=`` is neither an approval mode, nor a function, nor None."""
    if isinstance(given, str):
        ApprovalMode.of(given)
    elif given is not None and not callable(given):
        hint = 'Write approve="ask", or give a function of the call and the run'
        raise SettingsError(f"approve={given!r} is neither an approval mode nor a function", hint)


class QuestionSuspended(Exception):
    """The run is being suspended: the question stays open, and nobody awaits its answer in this process."""


class Unanswered(Declined):
    """The function that answers in the person's place has failed."""


def value_of(answer: Answer) -> Any:
    """Return the value of an answer; raise `Declined` or `QuestionCancelled` if it is none."""
    if answer.failed:
        raise Unanswered("The answer could not be obtained", GO_ON)
    if answer.cancelled:
        who = "The person" if answer.by == "person" else "The function that answers for the person"
        raise QuestionCancelled(f"{who} closed the question without deciding", GO_ON)
    if answer.declined:
        raise Declined("The person declined to answer" if answer.by == "person" else "The person gave no answer", GO_ON)
    return answer.value
