"""``%agent approve``: the draft or call that it approves, among the live runs and those without a process."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentnb.core.questions import WaitingOnUser
from agentnb.errors import SettingsError
from agentnb.notebook.commands.answer import approve_command


def draft(plan_id: str, question_id: str = "q1") -> WaitingOnUser:
    return WaitingOnUser("plan_review", "May it?", {}, question_id, plan_id)


CALL = WaitingOnUser("approval", "May it?", {}, "q7", "call_7")
OTHER = WaitingOnUser("elicitation", "Which?", {}, "q8", "call_8")


def session(live: Any = (), suspended: Any = (), interrupted: Any = ()) -> Any:
    """A session with these runs, each with its open questions; all oldest first."""
    runs = {
        name: SimpleNamespace(id=name, waiting=waiting)
        for name, waiting in (*dict(suspended).items(), *dict(interrupted).items())
    }
    running = [SimpleNamespace(run_id=name, run=SimpleNamespace(waiting=waiting)) for name, waiting in dict(live).items()]
    stored = {"suspended_ids": lambda: iter(dict(suspended)), "interrupted_ids": lambda: iter(dict(interrupted))}
    return cast("Any", SimpleNamespace(running=lambda: running, store=SimpleNamespace(load=runs.__getitem__), **stored))


@pytest.fixture
def approved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines with which runs are answered."""
    lines: list[str] = []
    module = sys.modules[approve_command.__module__]
    monkeypatch.setattr(module, "answerable_later", lambda run: run.waiting)
    monkeypatch.setattr(module, "answer_command", lambda session, shell, line: lines.append(line))
    return lines


LIVE = {"run-old": [draft("plan-1")], "run-new": [OTHER, CALL, draft("plan-2", "q2")]}
LEFT: dict[str, Any] = {"suspended": {"run-left": [draft("plan-3")]}}
SEVERAL: dict[str, Any] = {
    "suspended": {"run-a": [draft("plan-1")], "run-b": [CALL]},
    "interrupted": {"run-c": [draft("plan-3")]},
}


def test_newest_waiting_or_named_draft_is_approved(approved: list[str], subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, str, str]] = {
        "a draft before a call": (session(LIVE), "", "run-new q2 approve"),
        "a live run before others": (session(LIVE, **LEFT), "", "run-new q2 approve"),
        "by its plan": (session(LIVE), "plan-1", "run-old q1 approve"),
        "by its question": (session(LIVE), "q2", "run-new q2 approve"),
        "by its run": (session(LIVE, **LEFT), "left", "run-left q1 approve"),
        "a call by its run": (session({"run-1": [OTHER, CALL]}), "run-1", "run-1 q7 approve"),
        "with options": (session(LIVE), "-m talker", "run-new -m talker q2 approve"),
        "by its plan, with options": (session(**SEVERAL), "plan-1 -m talker", "run-a -m talker q1 approve"),
        "of a process that died": (session(**SEVERAL), "plan-3", "run-c q1 approve"),
        "the only draft": (session(suspended={"run-a": [CALL], "run-b": [draft("plan-1")]}), "", "run-b q1 approve"),
    }
    for name, (given, rest, line) in cases.items():
        with subtests.test(name):
            approved.clear()
            approve_command(given, cast("Any", None), rest)
            assert approved == [line]


def test_approval_is_refused_if_no_draft_or_several_wait(approved: list[str], subtests: pytest.Subtests) -> None:
    calls: dict[str, Any] = {"run-a": [CALL], "run-b": [CALL]}
    cases: dict[str, tuple[Any, str, list[str]]] = {
        "another question": (session({"run-1": [OTHER]}), "", ["Nothing is waiting"]),
        "an unknown id": (session(LIVE), "plan-70", ["plan-70"]),
        "a call of the plan": (
            session({"run-1": [WaitingOnUser("approval", "May it?", {}, "q1", "plan-1")]}),
            "plan-1",
            ["plan-1"],
        ),
        "several drafts": (session(**SEVERAL), "", ["plan-1", "plan-3"]),
        "several calls": (session(suspended=calls), "", ["%agent approve run-a\n  run-a: May it?\n  run-b: May it?"]),
    }
    for name, (given, rest, told) in cases.items():
        with subtests.test(name), pytest.raises(SettingsError) as refused:
            approve_command(given, cast("Any", None), rest)
        assert all(one in str(refused.value) for one in told) and not approved
