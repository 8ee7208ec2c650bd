"""Functions that answer in the person's place, and exceptions for an asker who gets no answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from agentnb.core.messages import ToolCall
from agentnb.core.questions import Answer, WaitingOnUser
from agentnb.detect.run import Run
from agentnb.errors import Declined, QuestionCancelled, SettingsError
from agentnb.policies.permissions.approval_mode import ApprovalMode

Approve: TypeAlias = Callable[[ToolCall, Run], Any]
"""Decides about a call: True, False, a reason for denial, other arguments as a dict, or None to leave it to the
person.

May be async. A plain function is called where plain tools run: in a notebook, on the main thread. Also decides for
nested runs.
"""
AnswerQuestion: TypeAlias = Callable[[WaitingOnUser], Any]
"""Answers a question in the person's place; returning None or raising `Declined` declines it, raising
`QuestionCancelled` closes it.

May be async. A plain function is called in a thread.
"""
Program: TypeAlias = Callable[[WaitingOnUser], Awaitable[Any]]
"""A function that answers in the person's place: returns a value, or None to leave the question to the person; raises
`Declined` or `QuestionCancelled`.
"""
GO_ON = "Continue without it and state your assumptions"


def check_approve(given: Any) -> None:
    """Raise `SettingsError` if ``approve=`` is neither a mode, nor a function, nor None."""
    if isinstance(given, str):
        ApprovalMode.of(given)
    elif given is not None and not callable(given):
        hint = 'Use approve="ask", or a function of the call and the run'
        raise SettingsError(f"approve={given!r} is neither a mode nor a function", hint)


class QuestionSuspended(Exception):
    """The run is being suspended: the question stays open, and this process no longer awaits the answer."""


class Unanswered(Declined):
    """The function that answers in the person's place failed."""


def value_of(answer: Answer) -> Any:
    """Return the value of an answer. Raises `Declined` or `QuestionCancelled` if it has no value."""
    if answer.failed:
        raise Unanswered("The function that answers for the person failed", GO_ON)
    if answer.cancelled:
        who = "The person" if answer.by == "person" else "The function that answers for the person"
        raise QuestionCancelled(f"{who} closed the question without deciding", GO_ON)
    if answer.declined:
        raise Declined("The person declined to answer" if answer.by == "person" else "The person gave no answer", GO_ON)
    return answer.value
