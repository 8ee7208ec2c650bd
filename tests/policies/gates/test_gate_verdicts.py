"""What several gates say together of one call."""

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
    return judge([gate(one) for one in verdicts], CALL, Run())


def test_the_first_of_allow_and_ask_decides(subtests: pytest.Subtests) -> None:
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


def test_a_denial_beats_every_allowance_and_question_whatever_the_order() -> None:
    for verdicts in itertools.permutations([Allow(), Ask("May I?"), Deny("No files."), None]):
        found = together(*verdicts)
        assert isinstance(found, Block) and found.rule == DENIED
    for verdicts in itertools.permutations([Allow(), Ask("May I?"), BLOCK]):
        assert together(*verdicts) == BLOCK


def test_the_first_of_several_denials_is_told_with_its_reason_and_rule() -> None:
    found = together(Deny("Not in \ud800 here.", "folders"), Deny("Never."), BLOCK)
    assert isinstance(found, Block) and found.rule == "folders"
    assert (found.result.call_id, found.result.is_error, found.result.error_code) == ("c1", True, DENIED)
    assert "write was not run: Not in \ufffd here." in found.result.text


def test_what_is_no_verdict_is_refused() -> None:
    wrong: Any = True
    with pytest.raises(SettingsError, match="not a verdict"):
        together(wrong)


def test_one_text_as_the_approvals_is_refused_as_each_letter_would_approve() -> None:
    with pytest.raises(SettingsError, match="a tuple"):
        judge([lambda call, run: Ask("May it?", approvals="always")], ToolCall("write", {}, "c1"), Run())  # type: ignore[arg-type]
