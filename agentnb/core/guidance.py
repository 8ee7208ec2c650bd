"""Guidance: what is said to a model in passing, and whether it was followed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

CELLS = ("todos_tools", "todos_text", "tools", "text")
"""The four cells of the matrix: are todos open, and were tools used in the round before?"""
INTERVENTION = "intervention"
"""The cell of what is said where the loop goes on although the model gave no cause."""
WORKFLOW = "workflow"
ALREADY_SAID = "already_said"
TODO_LIST = "todo_list"
"""The cell of what only informs: the list, where the model has not seen it as it is."""


class Guidance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Words for the next request only: they are sent, logged and judged, and never part of the conversation."""

    set: str
    """The name of the guidance set they are from."""
    cell: str
    """One of `CELLS`, ``intervention``, ``workflow``, ``already_said`` or ``todo_list``."""
    text: str
    level: int = 1
    """How strong, 1 to 3."""
    trigger: str = ""
    """What brought it about."""
    version: str = ""
    """The content hash of the set."""


class Followed(NamedTuple):
    """Whether the reply to some guidance did what it asked; None where that cannot be known."""

    followed: bool | None
    why: str


class Conduct(NamedTuple):
    """What a round did, as far as guidance is concerned with it."""

    replied: bool
    called: bool
    """Whether it has a tool call."""
    answered: bool
    """Whether it is words alone."""
    worked: bool
    """Whether a work tool ran."""
    completed: bool
    """Whether the model completed a todo."""
    blocked: bool
    """Whether the model marked a todo as blocked."""
    undisciplined: bool
    """Whether a work tool ran while no todo was in progress."""
    complete: bool
    """Whether the model said with its marker that all is complete."""
    repeats: bool
    """Whether its answer was given before."""


def judged(cell: str, conduct: Conduct) -> Followed:
    """Whether the reply followed guidance of this cell. The rules stand in docs/guidance.md."""
    if cell == TODO_LIST:
        return Followed(None, "it asks for nothing")
    if not conduct.replied:
        return Followed(None, "no reply came")
    return _JUDGES.get(cell, _has_call)(conduct)


def _has_call(conduct: Conduct) -> Followed:
    return Followed(True, "a tool was called") if conduct.called else Followed(False, "no tool was called")


def _disciplined(conduct: Conduct) -> Followed:
    if conduct.undisciplined:
        return Followed(False, "a work tool ran while no todo was in progress")
    return _has_call(conduct)


def _called_or_answered(conduct: Conduct) -> Followed:
    return Followed(True, "answered after its tools") if conduct.answered else _called_or_complete(conduct)


def _called_or_complete(conduct: Conduct) -> Followed:
    return Followed(True, "said that all is complete") if conduct.complete else _has_call(conduct)


def _said_something_new(conduct: Conduct) -> Followed:
    if conduct.answered and not conduct.repeats:
        return Followed(True, "answered something new")
    return _called_or_complete(conduct)


def _progressed(conduct: Conduct) -> Followed:
    if conduct.completed:
        return Followed(True, "a todo was completed")
    if conduct.worked:
        return Followed(True, "a work tool ran")
    if conduct.blocked:
        return Followed(True, "a todo was marked as blocked")
    return Followed(False, "no work tool ran and no todo was completed")


_JUDGES = {
    "todos_tools": _disciplined,
    "tools": _called_or_answered,
    "text": _called_or_complete,
    WORKFLOW: _called_or_complete,
    ALREADY_SAID: _said_something_new,
    INTERVENTION: _progressed,
}
