"""Guidance: ephemeral text for a model, and whether the model followed it."""

from __future__ import annotations

import msgspec

CELLS = ("todos_tools", "todos_text", "tools", "text")
"""The four cells of the matrix: are todos open, and did the round before use tools?"""
INTERVENTION = "intervention"
"""The cell of an intervention: the loop continues although the model gave no cause."""
WORKFLOW = "workflow"
ALREADY_SAID = "already_said"
TOOL_FAILED = "tool_failed"
"""The cell of guidance after a round in which a tool failed."""
FAILURE_LOOP = "failure_loop"
"""The cell of guidance after one tool failed in several rounds in a row."""
TODO_LIST = "todo_list"
"""The cell that only informs: the todo list, if the model has not seen its current state."""


class Guidance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Ephemeral guidance for the next request: it is sent, logged and judged, and never part of the conversation."""

    set: str
    """The name of its guidance set."""
    cell: str
    """One of `CELLS`, ``intervention``, ``workflow``, ``already_said``, ``tool_failed``, ``failure_loop`` or ``todo_list``."""
    text: str
    level: int = 1
    """Strength, 1 to 3."""
    trigger: str = ""
    """What caused it."""
    version: str = ""
    """The content hash of the set."""


class Followed(msgspec.Struct, frozen=True, gc=False):
    """Whether the reply followed the guidance; None where that cannot be known."""

    followed: bool | None
    why: str


class RoundFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of a round by which guidance is judged."""

    replied: bool
    called: bool
    """Whether it has a tool call."""
    answered: bool
    """Whether it is a text-only reply."""
    worked: bool
    """Whether a work tool ran."""
    completed: bool
    """Whether the model completed a todo."""
    blocked: bool
    """Whether the model marked a todo as blocked."""
    undisciplined: bool
    """Whether a work tool ran while no todo was in progress."""
    complete: bool
    """Whether the model's marker says that everything is complete."""
    repeats: bool
    """Whether its answer was given before."""
    made_again: bool = False
    """Whether it has calls, and all of them repeat, unchanged, calls that failed in the round before."""
    failed_again: bool = False
    """Whether it has calls, all of tools that failed in several rounds in a row, and none succeeded."""


def judged(cell: str, facts: RoundFacts) -> Followed:
    """Return whether the reply followed guidance of this cell. The rules are in docs/guidance.md."""
    if cell == TODO_LIST:
        return Followed(None, "it asks for nothing")
    if not facts.replied:
        return Followed(None, "no reply came")
    return _JUDGES.get(cell, _has_call)(facts)


def _has_call(facts: RoundFacts) -> Followed:
    return Followed(True, "a tool was called") if facts.called else Followed(False, "no tool was called")


def _disciplined(facts: RoundFacts) -> Followed:
    if facts.undisciplined:
        return Followed(False, "a work tool ran while no todo was in progress")
    return _has_call(facts)


def _called_or_answered(facts: RoundFacts) -> Followed:
    return Followed(True, "answered after its tools") if facts.answered else _called_or_complete(facts)


def _called_or_complete(facts: RoundFacts) -> Followed:
    return Followed(True, "said that all is complete") if facts.complete else _has_call(facts)


def _said_something_new(facts: RoundFacts) -> Followed:
    if facts.answered and not facts.repeats:
        return Followed(True, "answered something new")
    return _called_or_complete(facts)


def _adapted(facts: RoundFacts) -> Followed:
    if facts.made_again:
        return Followed(False, "the call that had failed was made again, unchanged")
    return Followed(True, "another call was made") if facts.called else _spoke_or_called(facts)


def _broke_the_loop(facts: RoundFacts) -> Followed:
    if facts.failed_again:
        return Followed(False, "the tool that keeps failing was called again, and nothing else")
    return _spoke_or_called(facts)


def _spoke_or_called(facts: RoundFacts) -> Followed:
    return Followed(True, "answered in words") if facts.answered else _has_call(facts)


def _progressed(facts: RoundFacts) -> Followed:
    if facts.completed:
        return Followed(True, "a todo was completed")
    if facts.worked:
        return Followed(True, "a work tool ran")
    if facts.blocked:
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
