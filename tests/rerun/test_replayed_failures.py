"""Replay of the three named failures and the healthy run: recorded and expected decisions after each round."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from asserted_sentences import Snapshot

from agentnb import replay
from agentnb.policies.verdict import Stop
from agentnb.rerun.replay_result import Replay

FOUR = ("tools", "open", "mode", "continues")


def decisions(found: Replay, side: str) -> list[tuple[Any, ...] | None]:
    """Return the four decisions after each round of one side, or None."""
    table = found.table()
    rows = table[[f"{name}_{side}" for name in FOUR]]
    values = [tuple(None if value is pd.NA else value for value in row) for _, row in rows.iterrows()]
    return [row if any(value is not None for value in row) else None for row in values]


def next_cells(found: Replay) -> list[list[str]]:
    return [[one.cell for one in each.next_guidance] for each in found.rounds]


@pytest.mark.req("R0.85")
def test_gpt_simple_fail_would_have_continued_after_the_fifth_story() -> None:
    replayed = replay("simple-fail")
    recorded = [(True, 5 - n, False, True) for n in range(5)]
    assert decisions(replayed, "recorded") == [*recorded, (False, 1, False, False)]
    assert decisions(replayed, "would_be") == [*recorded, (False, 1, False, True)]
    assert next_cells(replayed) == [*[["todos_tools"]] * 5, ["intervention", "todos_text"]]
    parting = replayed.first_divergence
    assert parting is not None and (parting.number, replayed.caught_at) == (6, None)  # discipline, no guard
    reminder = parting.next_guidance[0]
    assert reminder.level == 1 and reminder.text.startswith("REMINDER") and "todo 5" in reminder.text
    assert '{"id": 5, "status": "completed"}' in reminder.text
    assert not replayed.would_be.loops and replayed.stop is None


@pytest.mark.req("R0.86", "R0.43")
def test_complex_workflow_would_have_continued_for_the_todo_in_progress() -> None:
    replayed = replay("complex-workflow-didn't-close-out.json")
    recorded = [(True, left, False, True) for left in (3, 3, 2, 1)]
    assert decisions(replayed, "recorded") == [*recorded, (False, 1, False, False)]
    assert decisions(replayed, "would_be") == [*recorded, (False, 1, False, True)]
    parting = replayed.first_divergence
    assert parting is not None and (parting.number, replayed.caught_at) == (5, None)
    assert [one.cell for one in parting.next_guidance] == ["intervention", "todos_text"]
    text = parting.next_guidance[0].text
    assert text.startswith("REMINDER") and "todo 3" in text and '{"id": 3, "status": "completed"}' in text


@pytest.mark.req("R0.32", "R0.38")
def test_complex_fails_without_workflow_mode_would_end_with_first_summary(snapshot: Snapshot) -> None:
    replayed = replay("complex-fails", workflow_mode=False)
    assert decisions(replayed, "recorded") == [
        *[(True, 0, True, True)] * 2,
        *[(False, 0, True, True)] * 4,
        (False, 0, True, None),  # its end is not recorded
    ]
    assert decisions(replayed, "would_be") == [*[(True, 0, False, True)] * 2, (False, 0, False, False), None, None, None, None]
    assert next_cells(replayed)[:2] == [["tools"], ["tools"]]
    assert isinstance(replayed.stop, Stop) and replayed.stop.stop_reason == "natural"
    assert replayed.sentence == snapshot
    assert (replayed.caught_at, replayed.rounds_saved) == (None, 0)  # the end of a turn catches nothing
    assert [round_.hypothetical for round_ in replayed.rounds] == [False] * 3 + [True] * 4


@pytest.mark.req("R0.32", "R0.81")
def test_complex_fails_replays_as_recorded_until_the_loop_guard() -> None:
    replayed = replay("complex-fails")
    assert replayed.turn_ending.kind == "same_agent" and replayed.turn_ending.after_texts["same_agent"] == (3, 4, 5, 6)
    would_be = [*[(True, 0, False, True)] * 2, *[(False, 0, False, True)] * 3, (False, 0, False, False), None]
    assert decisions(replayed, "would_be") == would_be
    assert next_cells(replayed) == [["tools"], ["tools"], ["text"], *[["already_said", "text"]] * 2, [], []]
    assert replayed.stop is not None and replayed.stop.stop_reason == "loop_detected"
    assert (replayed.caught_at, replayed.rounds_saved) == (4, 1)


@pytest.mark.req("R0.32", "R0.81")
def test_complex_fails_in_workflow_mode_would_end_as_a_loop() -> None:
    replayed = replay("complex-fails", workflow_mode=True)
    would_be = [*[(True, 0, True, True)] * 2, *[(False, 0, True, True)] * 3, (False, 0, True, False), None]
    assert decisions(replayed, "would_be") == would_be
    said_again = ["workflow", "already_said", "text"]
    assert next_cells(replayed) == [["tools"], ["tools"], ["workflow", "text"], said_again, said_again, [], []]
    assert isinstance(replayed.stop, Stop) and replayed.stop.stop_reason == "loop_detected"
    parting = replayed.first_divergence
    assert parting is not None and (parting.number, replayed.caught_at, replayed.rounds_saved) == (6, 4, 1)


@pytest.mark.req("R0.84")
def test_healthy_run_would_have_gone_as_recorded() -> None:
    replayed = replay("healthy")
    assert decisions(replayed, "recorded") == decisions(replayed, "would_be")
    assert (replayed.first_divergence, replayed.caught_at, replayed.rounds_saved) == (None, None, 0)
    assert replayed.outcome_sentence == "The run would have gone as recorded."
