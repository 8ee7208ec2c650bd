"""Guidance: what is said to a model in passing, and whether it was followed."""

from __future__ import annotations

import msgspec

CELLS = ("todos_tools", "todos_text", "tools", "text")
"""The four cells of the matrix: are todos open, and were tools used in the round before?"""
INTERVENTION = "intervention"
"""The cell of what is said where the loop goes on although the model gave no cause."""
WORKFLOW = "workflow"
ALREADY_SAID = "already_said"
TOOL_FAILED = "tool_failed"
"""The cell of what is said after a round in which a tool failed."""
FAILURE_LOOP = "failure_loop"
"""The cell of what is said where one tool failed in several rounds in a row."""
TODO_LIST = "todo_list"
"""The cell of what only informs: the list, where the model has not seen it as it is."""


class Guidance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Words for the next request only: they are sent, logged and judged, and never part of the conversation."""

    set: str
    """The name of the guidance set they are from."""
    cell: str
    """One of `CELLS`, ``intervention``, ``workflow``, ``already_said``, ``tool_failed``, ``failure_loop`` or ``todo_list``."""
    text: str
    level: int = 1
    """How strong, 1 to 3."""
    trigger: str = ""
    """What brought it about."""
    version: str = ""
    """The content hash of the set."""


class Followed(msgspec.Struct, frozen=True, gc=False):
    """Whether the reply to some guidance did what it asked; None where that cannot be known."""

    followed: bool | None
    why: str


class Conduct(msgspec.Struct, frozen=True, gc=False):
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
    made_again: bool = False
    """Whether it has calls, and all of them failed in the round before and were made again, unchanged."""
    failed_again: bool = False
    """Whether it has calls, all of tools that failed in several rounds in a row, and none of them went well."""


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


def _adapted(conduct: Conduct) -> Followed:
    if conduct.made_again:
        return Followed(False, "the call that had failed was made again, unchanged")
    return Followed(True, "another call was made") if conduct.called else _spoke_or_called(conduct)


def _broke_the_loop(conduct: Conduct) -> Followed:
    if conduct.failed_again:
        return Followed(False, "the tool that keeps failing was called again, and nothing else")
    return _spoke_or_called(conduct)


def _spoke_or_called(conduct: Conduct) -> Followed:
    return Followed(True, "answered in words") if conduct.answered else _has_call(conduct)


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
    TOOL_FAILED: _adapted,
    FAILURE_LOOP: _broke_the_loop,
    INTERVENTION: _progressed,
}
