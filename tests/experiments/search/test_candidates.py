"""Candidates: sets made from proposals, and their new lines."""

from __future__ import annotations

import pytest

from agentnb import GuidanceSet
from agentnb.errors import SettingsError
from agentnb.experiments.search.candidates import Proposal, added_lines, apply_proposal, candidate_of, without_line

OFF = GuidanceSet("off", {})
TWO = candidate_of({**OFF.parts, "text": "First.\nSecond."})


def test_proposal_changes_one_line_of_one_part() -> None:
    for proposal, text in (
        (Proposal("text", "Third."), "First.\nSecond.\nThird."),
        (Proposal("text", "New.", "First."), "New.\nSecond."),
        (Proposal("Text", "", " Second. "), "First."),
    ):
        made = apply_proposal(TWO, proposal)
        assert made.parts["text"] == text
        assert {name: part for name, part in made.parts.items() if name != "text"} == {
            name: part for name, part in OFF.parts.items() if name != "text"
        }


def test_unusable_proposals_state_the_reason() -> None:
    for proposal, why in (
        (Proposal("text", " "), "empty"),
        (Proposal("text", "a\nb"), "not one line"),
        (Proposal("text", "a" * 401), "not one line"),
        (Proposal("text", "New.", "Third."), "has no line 'Third.'"),
        (Proposal("song", "New."), "no part named 'song'"),
        (Proposal("text", "Do {{ nothing }}."), "nothing"),
    ):
        with pytest.raises(SettingsError, match=why):
            apply_proposal(TWO, proposal)


def test_identical_candidates_share_one_name() -> None:
    one = apply_proposal(apply_proposal(OFF, Proposal("text", "A.")), Proposal("tools", "B."))
    other = apply_proposal(apply_proposal(OFF, Proposal("tools", "B.")), Proposal("text", "A."))
    assert one == other and one.name != apply_proposal(OFF, Proposal("text", "B.")).name


def test_removing_the_added_lines_restores_the_original_set() -> None:
    best = apply_proposal(apply_proposal(TWO, Proposal("text", "First.")), Proposal("tools", "New."))
    lines = added_lines(TWO, best)
    assert [tuple(line) for line in lines] == [("text", "First."), ("tools", "New.")] or lines[0].part == "tools"
    for line in lines:
        best = without_line(best, line)
    assert best == TWO
