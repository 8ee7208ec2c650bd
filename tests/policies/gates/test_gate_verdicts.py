"""Verdicts of several gates on one call."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run.rounds import DENIED
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates import Allow, Ask, Block, Deny, Gate, Verdict, judge

CALL = ToolCall("write", {"path": "a"}, "c1")
BLOCK = Block("mine", ToolResult("c1", "write", (Text("blocked"),), is_error=True, error_code="mine"))


def gate(verdict: Verdict) -> Gate:
    return lambda call, run: verdict


def together(*verdicts: Verdict) -> Ask | Block | None:
    return judge([gate(verdict) for verdict in verdicts], CALL, Run())


def test_first_allow_or_ask_verdict_decides(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[tuple[Verdict, ...], Verdict]] = {
        "no gate": ((), None),
        "nothing to say": ((None, None), None),
        "allowed": ((None, Allow()), None),
        "asked": ((None, Ask("May I?")), Ask("May I?")),
        "allowed before it is asked": ((Allow(), Ask("May I?")), None),
        "asked before it is allowed": ((Ask("May I?"), Allow()), Ask("May I?")),
        "two questions": ((Ask("First?"), Ask("Second?")), Ask("First?")),
    }
    for name, (verdicts, expected) in cases.items():
        with subtests.test(name):
            assert together(*verdicts) == expected


def test_denial_overrides_every_allow_and_ask() -> None:
    for verdicts in itertools.permutations([Allow(), Ask("May I?"), Deny("No files."), None]):
        verdict = together(*verdicts)
        assert isinstance(verdict, Block) and verdict.rule == DENIED
    for verdicts in itertools.permutations([Allow(), Ask("May I?"), BLOCK]):
        assert together(*verdicts) == BLOCK


def test_first_denial_determines_reason_and_rule() -> None:
    verdict = together(Deny("Not in \ud800 here.", "folders"), Deny("Never."), BLOCK)
    assert isinstance(verdict, Block) and verdict.rule == "folders"
    assert (verdict.result.call_id, verdict.result.is_error, verdict.result.error_code) == ("c1", True, DENIED)
    assert "write was not run: Not in \ufffd here." in verdict.result.text


def test_invalid_verdict_is_refused() -> None:
    wrong: Any = True
    with pytest.raises(SettingsError, match="not a verdict"):
        together(wrong)


def test_approvals_given_as_one_string_are_refused() -> None:
    with pytest.raises(SettingsError, match="a tuple"):
        judge([lambda call, run: Ask("May it?", approvals="always")], ToolCall("write", {}, "c1"), Run())  # type: ignore[arg-type]
