"""Replay of a recorded run: the effect of other guidance, guards and limits, decided by the live code."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from recorded_runs import LINES, LOOK, POLICIES, foreign, whatever
from scripted_runs import LONG_ANSWER, do, scripted
from todo_calls import write

from agentnb import DuplicateGuard, GuidanceSet, Matrix, Minimal, Run, ToolCall, load_trace, replay
from agentnb.core.log.events import Origin
from agentnb.detect.detector import Finding
from agentnb.errors import SettingsError
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.verdict import Continue, Stop
from agentnb.rerun.replay_result import Replay
from agentnb.tools.function import tool


def parting(found: Replay) -> int | None:
    return None if found.first_divergence is None else found.first_divergence.number


def reasons(found: Replay) -> list[str]:
    return [round_.decision.reason if round_.decision else "" for round_ in found.rounds]


def texts(run: Run) -> list[list[tuple[str, str]]]:
    return [[(one.cell, one.text) for one in each.guidance] for each in run.rounds]


@given(st.lists(LINES, max_size=9), POLICIES, st.integers(2, 12))
@examples(40)
def test_replay_under_the_same_settings_matches_the_record(lines: list[Any], policy: Any, most: int) -> None:
    run = whatever(lines, policy, max_rounds=most)
    replayed = replay(run)
    assert replayed.first_divergence is None and replayed.first_told_otherwise is None
    assert replayed.caught_at == (len(run.rounds) if run.stop_reason == "loop_detected" else None)
    assert texts(replayed.would_be) == texts(run)
    assert [round_.reason for round_ in replayed.would_be.rounds] == [round_.reason for round_ in run.rounds]
    assert [round_.followed for round_ in replayed.would_be.rounds] == [round_.followed for round_ in run.rounds]
    assert [round_.note for round_ in replayed.would_be.rounds] == [round_.note for round_ in run.rounds]
    assert [*replayed.would_be.messages] == [*run.messages]
    last = replayed.rounds[-1].verdict
    assert isinstance(last, Stop) and last.stop_reason == run.stop_reason


@given(st.lists(LINES, max_size=9), POLICIES)
@examples(20)
def test_replay_decides_like_a_live_run_until_they_diverge(lines: list[Any], policy: Any) -> None:
    recorded, live = whatever(lines, Minimal()), whatever(lines, policy)
    replayed = replay(recorded, policy=policy)
    decided = [round_ for round_ in replayed.rounds if not round_.hypothetical and not round_.differs]
    assert texts(replayed.would_be)[: len(decided)] == texts(live)[: len(decided)]
    following = [round_.reason for round_ in live.rounds][1:]
    wanted = [*following, live.stop_reason][: len(decided)]
    assert reasons(replayed)[: len(decided)] == wanted


def test_replay_is_deterministic() -> None:
    run = load_trace("complex-fails")
    one, other = (replay(run, policy=Matrix(workflow_mode=True)) for _ in range(2))
    assert one.table().equals(other.table()) and one.sentence == other.sentence and one.would_be == other.would_be


def test_call_that_a_guard_would_block_is_first_divergence(snapshot: Snapshot) -> None:
    run = foreign(*[LOOK] * 8, "A hat.")
    replayed = replay(run)
    assert (parting(replayed), replayed.caught_at) == (3, 3)
    (blocked,) = replayed.rounds[2].judged_calls
    assert (blocked.call.name, blocked.rule, blocked.blocked) == ("look", "consecutive", True)
    assert replayed.sentence == snapshot
    assert replayed.would_be.rounds[2].records[0].rule == "consecutive"
    assert replayed.stop is not None and replayed.stop.stop_reason == "loop_detected"
    assert [round_.hypothetical for round_ in replayed.rounds] == [False] * 3 + [True] * 6
    assert (replayed.rounds_saved, replayed.tokens_saved) == (2, 30)
    table = replayed.table()
    assert table["blocked_would_be"].notna().tolist() == [False] * 2 + [True] * 5 + [False] * 2
    assert table["hypothetical"].tolist() == [round_.hypothetical for round_ in replayed.rounds]


def test_replay_uses_the_guard_of_the_given_policy(subtests: pytest.Subtests) -> None:
    run = foreign(*[LOOK] * 4, "A hat.")
    cases: list[tuple[str, dict[str, Any], int | None]] = [
        ("usual", {}, 3),
        ("later", {"policy": Matrix(guard=DuplicateGuard(consecutive=4))}, 4),
        ("none", {"policy": Matrix(guard=None)}, None),
        ("tools that may repeat", {"repeatable": ["look"]}, None),
    ]
    for name, how, expected in cases:
        with subtests.test(name):
            assert parting(replay(run, **how)) == expected


def test_recorded_blocked_call_would_run_without_the_guard(snapshot: Snapshot) -> None:
    run, _ = scripted(do(1), do(1), do(1), "Done.")
    replayed = replay(run, policy=Matrix(guard=None))
    assert parting(replayed) == 3 and not replayed.rounds[2].judged_calls[0].blocked
    assert replayed.sentence == snapshot


def test_tools_allowed_to_repeat_are_not_blocked() -> None:
    @tool(repeatable=True)
    def work(n: int = 0) -> str:
        """Does the work of one item."""
        return f"made {n}"

    run, _ = scripted(do(1), do(1), do(1), do(1), "Done.", tools=[work])
    assert parting(replay(run)) is None
    assert parting(replay(run, policy=Matrix(guard=DuplicateGuard(consecutive=2)))) is None
    assert parting(replay(run, limits={"max_tool_calls": 2})) == 3


def test_limits_can_end_a_replay_earlier_or_later(subtests: pytest.Subtests) -> None:
    calls = [do(n) for n in range(6)]
    run, _ = scripted(*calls, "Done.", max_rounds=9)
    cut, _ = scripted(*calls[:3], max_rounds=3)
    cases: list[tuple[str, Run, dict[str, Any] | None, int | None, str | None]] = [
        ("its own", run, None, None, "natural"),
        ("earlier", run, {"max_rounds": 4}, 4, "max_rounds"),
        ("calls", run, {"max_tool_calls": 2}, 3, "max_tool_calls"),
        ("later", cut, {"max_rounds": 5}, 3, None),
        ("away", cut, {"max_rounds": None}, 3, None),
        ("as it was", cut, {}, None, "max_rounds"),
    ]
    for name, one, limits, expected, stop in cases:
        with subtests.test(name):
            replayed = replay(one, limits=limits)
            assert (parting(replayed), replayed.stop and replayed.stop.stop_reason) == (expected, stop)


def test_tokens_are_counted_as_recorded() -> None:
    run = foreign(LOOK, ToolCall("look", {"at": 2}), ToolCall("look", {"at": 3}), "A hat.")
    replayed = replay(run, limits={"max_tokens": 30})
    assert (parting(replayed), replayed.stop and replayed.stop.stop_reason) == (2, "max_tokens")
    assert replayed.tokens_saved == 30


def test_impossible_replay_is_refused_with_its_reason() -> None:
    run, _ = scripted(do(1), "Done.", max_seconds=60, gates=[lambda call, so_far: None])
    *others, gate = replay(run).not_replayed
    assert others == ["time and money", "the limit max_seconds"] and gate.startswith("the gate <lambda>-")
    assert "Not replayed: time and money" in replay(run).caution


def test_user_turns_of_a_foreign_trace_are_not_divergences() -> None:
    run = foreign(LOOK, "A hat.", ("person", "And now?"), ToolCall("look", {"at": 2}), "A stone.")
    replayed = replay(run)
    assert parting(replayed) is None and replayed.caught_at is None
    assert reasons(replayed) == ["tool_results", "natural", "tool_results", "natural"]
    assert [round_.reason for round_ in replayed.would_be.rounds] == ["prompt", "tool_results", "said", "tool_results"]


def test_turn_that_would_continue_is_the_first_divergence() -> None:
    run = foreign(ToolCall("todo_operations", write("one").arguments), "Done.", ("person", "Really?"), "Yes.")
    assert [todo.status for todo in run.todos] == ["not-started"]
    replayed = replay(run)
    assert parting(replayed) == 2
    assert [round_.would_be is None for round_ in replayed.rounds] == [False, False, True]


def test_markers_in_a_foreign_reply_are_parsed_by_policy() -> None:
    run = foreign(LOOK, "More to come.\n[CONTINUE]")
    assert isinstance(replay(run).rounds[-1].verdict, Continue)
    assert isinstance(replay(run, policy="minimal").rounds[-1].verdict, Stop)


def test_hypothetical_guidance_is_judged_by_the_recorded_reply() -> None:
    mine = GuidanceSet("mine", {"tools": "Call look again, round {{ round }} of {{ max_rounds }}."})
    replayed = replay(foreign(LOOK, "A hat.", "A hat."), guidance=mine, limits={"max_rounds": 7})
    assert [one.text for one in replayed.rounds[0].next_guidance] == ["Call look again, round 2 of 7."]
    assert [one.followed for one in replayed.rounds[0].next_followed] == [True]
    assert replayed.first_told_otherwise is not None and replayed.first_told_otherwise.number == 2


def test_turning_guidance_off_changes_no_decision() -> None:
    replayed = replay("healthy", guidance="off")
    assert replayed.first_told_otherwise is None and replayed.first_divergence is None


class EveryCall:
    """Finds each call of `look`."""

    def take(self, event: Any, run: Any) -> list[Finding]:
        if type(event).__name__ == "ToolStarted" and run.last_round.index > 0:
            return [Finding("looked", "loop", run.last_round.index, run.last_round.index)]
        return []


def test_detectors_see_recorded_rounds_after_the_hypothetical_end() -> None:
    run = foreign(LOOK, ToolCall("look", {"at": 2}), "Hm.", ToolCall("look", {"at": 3}), "Done.")
    replayed = replay(run, detect=[EveryCall], limits={"max_rounds": 3})
    assert [[finding.rule for finding in each.findings] for each in replayed.rounds] == [[], ["looked"], [], ["looked"], []]
    assert replayed.caught_at == 2 and replayed.rounds[1].caught_by == ("finds looked",)
    assert parting(replayed) == 3


class AtEnd:
    """Reports a family and a severity at the end of the second round."""

    def __init__(self, family: str, severity: str) -> None:
        self.finding = Finding("seen", family, 1, 1, severity)

    def take(self, event: Any, run: Any) -> list[Finding]:
        return [self.finding] if type(event).__name__ == "RoundFinished" and run.last_round.index == 1 else []


def test_discipline_notice_does_not_count_as_catching_a_failure(subtests: pytest.Subtests) -> None:
    run = foreign(LOOK, ToolCall("look", {"at": 2}), "A hat.")
    cases = [("discipline", "notice", None), ("loop", "notice", 2), ("stall", "notice", 2), ("discipline", "nudge", 2)]
    for family, severity, caught_at in cases:
        with subtests.test(f"{family}, {severity}"):
            replayed = replay(run, detect=[partial(AtEnd, family, severity)])
            assert [finding.rule for finding in replayed.rounds[1].findings] == ["seen"] and replayed.caught_at == caught_at


def test_loop_that_ended_the_recorded_run_counts_as_caught() -> None:
    run, _ = scripted(*[LONG_ANSWER] * 4, policy=Matrix(workflow_mode=True))
    replayed = replay(run)
    assert run.stop_reason == "loop_detected" and replayed.first_divergence is None
    assert replayed.caught_at == len(run.rounds) and replayed.rounds[-1].caught_by == ("ends (loop_detected)",)


class Own:
    """An own policy."""

    name = "own"

    def rules(self, words: Any, *limits: Any, repeatable: Any = ()) -> PolicyBundle:
        return Matrix().rules(words, *limits, repeatable=repeatable)


def test_impossible_settings_are_refused_with_advice(subtests: pytest.Subtests) -> None:
    run, _ = scripted("Done.", policy=Own())
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (run, {}, "replay(run, policy=...)"),
        ("healthy", {"limits": {"max_round": 3}}, "max_rounds"),
        ("healthy", {"limits": {"max_rounds": 0}}, "max_rounds"),
        ("healthy", {"guidance": "mtrix"}, "matrix"),
        ("healthy", {"policy": "minimal", "workflow_mode": True}, "matrix"),
    ]
    for one, how, hint in cases:
        with subtests.test(hint), pytest.raises(SettingsError) as caught:
            replay(one, **how)
        assert hint in str(caught.value)
    assert parting(replay(run, policy=Own())) is None


def test_run_without_rounds_has_nothing_to_replay() -> None:
    writer = RunWriter(Origin("by_hand"), model="m")
    writer.say("Go")
    replayed = replay(writer.finish())
    assert len(replayed.rounds) == len(replayed.table()) == 0 and replayed.caught_at is None


@given(st.lists(LINES, max_size=9))
@examples(15)
def test_run_with_detectors_replays_as_recorded(lines: list[Any]) -> None:
    run = whatever(lines, Matrix(guard=None), detect="default")
    replayed = replay(run)
    assert replayed.first_divergence is None and replayed.first_told_otherwise is None
    assert texts(replayed.would_be) == texts(run)
    assert [(finding.rule, finding.last) for finding in replayed.would_be.findings] == [
        (finding.rule, finding.last) for finding in run.findings
    ]
    assert "the extension detect" not in replayed.not_replayed


def test_detector_preset_acts_as_in_a_live_run() -> None:
    lines = [*[do(1)] * 9, "Done."]
    off, on = (whatever(lines, Matrix(guard=None), detect=one) for one in (None, "default"))
    assert on.findings
    replayed = replay(off, detect="default")
    assert replayed.caught_at is not None and replayed.variant.sentence.startswith(
        "guidance matrix, policy matrix, detectors default"
    )
    until = (parting(replayed) or 99) - 1
    assert texts(replayed.would_be)[:until] == texts(on)[:until]
    assert any(given.cell == "detected" for round_ in replayed.would_be.rounds for given in round_.guidance)


def test_foreign_trace_ending_with_a_call_has_unknown_ending() -> None:
    replayed = replay(foreign(LOOK, ToolCall("submit", {})))
    assert parting(replayed) is None and replayed.caught_at is None
    assert replayed.rounds[-1].recorded_decision.continues is None and isinstance(replayed.rounds[-1].verdict, Continue)
