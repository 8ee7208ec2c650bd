"""Turn endings of recorded loops are inferred from their records; only guards, limits and detectors catch a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from recorded_loops import LOOPS, recorded_loop
from recorded_runs import LOOK, foreign
from scripted_runs import do, scripted
from todo_calls import write

from agentnb import GuidanceSet, Matrix, Minimal, Run, ToolCall, fork_sync, replay, survey
from agentnb.core.log.events import Origin
from agentnb.core.messages import Thinking
from agentnb.detect.agent_runs import works_in_steps
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.files import iter_traces
from agentnb.models import ScriptedModel
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.turn_rules import turn_rule
from agentnb.policies.verdict import Continue, Stop
from agentnb.rerun.replay_result import Replay, ReplayedRound

VARIANTS: dict[str, list[Any]] = {
    "guidance": [None, "off", GuidanceSet("mine", {"text": "Do more."})],
    "policy": [None, "matrix", "minimal", Matrix(guard=None), Matrix(strict_todos=True), Matrix(workflow_mode=True)],
}
SAMPLES = Path(__file__).parents[1] / "interchange" / "formats" / "files"
RECORDED = Path(os.environ.get("AGENTNB_RECORDED_RUNS", Path(__file__).parents[3] / "shared" / "traces"))
"""A folder of recorded runs that does not ship with agentnb."""


def team(*turns: tuple[str, str], status: Any = "completed") -> Run:
    """Build a run from agents and texts in order; an empty text is a thought."""
    writer = RunWriter(Origin("by_hand"), model="m")
    writer.say("Go")
    for author, text in turns:
        writer.reply(text or [Thinking("Hm.")], author=author)
    return writer.finish(status)


def followed(replayed: Replay) -> int:
    return sum(round_.would_be is not None for round_ in replayed.rounds)


def test_kind_of_turn_ending_is_derived_from_the_record(subtests: pytest.Subtests) -> None:
    for name, (_, kind) in LOOPS.items():
        with subtests.test(name):
            assert replay(recorded_loop(name)).turn_ending.kind == kind
    run, _ = scripted("Done.")
    assert replay(run).turn_ending.kind == "logged"


def test_turn_ending_lists_its_evidence_as_round_numbers(snapshot: Snapshot) -> None:
    ending = replay(recorded_loop("Magentic-One")).turn_ending
    assert ending.after_texts == {"agent": (3, 4, 7, 8), "same_agent": (1, 2, 5, 6, 9), "end": (10,)} and not ending.by_text
    assert ending.sentence == snapshot
    after = [round_.after_text for round_ in replay(recorded_loop("mini-swe-agent")).rounds]
    assert after == ["harness", "harness", None, None]


def test_unchanged_replay_of_any_loop_matches_the_record(subtests: pytest.Subtests) -> None:
    for name in LOOPS:
        with subtests.test(name):
            run = recorded_loop(name)
            replayed = replay(run)
            assert followed(replayed) == len(run.rounds) and replayed.first_divergence is None
            assert (replayed.caught_at, replayed.rounds_saved, replayed.outcome_sentence) == (
                None,
                0,
                "The run would have gone as recorded.",
            )
            said = [*replayed.would_be.messages]
            assert said == [*run.messages][: len(said)]
            reasons = [round_.reason for round_ in replayed.would_be.rounds]
            assert reasons[: len(run.rounds)] == [round_.reason for round_ in run.rounds]


def test_healthy_loops_are_disturbed_by_no_policy(snapshot: Snapshot) -> None:
    runs = [recorded_loop(name) for name in LOOPS]
    for failed in (True, False):
        table = survey(runs, **VARIANTS, failed=lambda run, failed=failed: failed)
        counts = table[["caught", "disturbed", "rounds_saved", "rounds_cut"]].to_numpy()
        assert len(table) == 18 and not counts.any(), table
    assert table["turns"].unique().tolist() == snapshot


def test_limits_end_every_loop_at_the_same_round(subtests: pytest.Subtests) -> None:
    for name in LOOPS:
        run = recorded_loop(name)
        if len(run.rounds) < 3:
            continue
        with subtests.test(name):
            replayed = replay(run, limits={"max_rounds": 2})
            assert followed(replayed) == replayed.caught_at == 2 and replayed.rounds_saved == len(run.rounds) - 2
            assert replayed.rounds[1].caught_by[0] == "ends (max_rounds)"


def test_loop_guard_ends_an_agent_team_that_repeats_itself() -> None:
    long = "I looked for the violinist in every list of members that the orchestra has published, and she is in none."
    turns = [("A", "Plan."), *[("B", long), ("A", "")] * 4, ("A", "Done.")]
    replayed = replay(team(*turns))
    assert replayed.stop is not None and replayed.stop.stop_reason == "loop_detected"
    assert (replayed.caught_at, followed(replayed), replayed.rounds_saved) == (4, 8, 2)
    assert replayed.rounds[3].caught_by == ("reminds the model (already_said)",)


def test_verdict_on_a_turn_without_recorded_end_is_unknown(subtests: pytest.Subtests) -> None:
    todo = ToolCall("todo_operations", write("one").arguments)
    cases: dict[str, tuple[list[Any], str]] = {
        "natural end": (["Hm.", LOOK, "Done."], "natural"),
        "thought": (["", LOOK, "Done."], "empty_answer"),
        "two thoughts": (["", "", LOOK, "Done."], "empty_answer"),
        "announced call": (["I will now call look.", LOOK, "Done."], "announced_call"),
        "open todos": ([todo, "Hm.", LOOK, "Done."], "open_todos"),
        "complete marker": (["All is well.\n[WORKFLOW_COMPLETE]", LOOK, "Done."], "workflow_complete"),
        "continue marker": (["More to come.\n[CONTINUE]", LOOK, "Done."], "continue_marker"),
        "stuck": (['{"status": "stop"}', LOOK, "Done."], "error"),
    }
    for name, (replies, reason) in cases.items():
        with subtests.test(name):
            replayed = replay(foreign(*replies))
            at = next(place for place, one in enumerate(replayed.rounds) if one.after_text == "same_agent")
            table = replayed.table()
            assert table["not_knowable"][at] == reason and table["continues_would_be"][at] and not table["differs"][at]
            assert not replayed.rounds[at].next_guidance or replayed.rounds[at].next_guidance[0].cell != "intervention"
            assert followed(replayed) == len(replies) and (replayed.caught_at is None or replayed.caught_at == len(replies))


def test_marker_beside_calls_does_not_end_a_continued_turn() -> None:
    writer = RunWriter(Origin("by_hand"), model="m")
    writer.say("Go")
    writer.reply("One more look.\n[WORKFLOW_COMPLETE]", [LOOK])
    writer.result("", "a hat")
    writer.reply("A hat.")
    replayed = replay(writer.finish())
    assert followed(replayed) == 2 and isinstance(replayed.rounds[0].not_knowable, Stop) and replayed.caught_at is None


def test_workflow_mode_applies_where_the_same_agent_continued(subtests: pytest.Subtests) -> None:
    run = foreign(LOOK, "A hat.", "Another hat.", "Done.")
    cases = {None: (4, ["text"]), True: (4, ["workflow", "text"]), False: (2, [])}
    for mode, (rounds, cells) in cases.items():
        with subtests.test(str(mode)):
            replayed = replay(run, workflow_mode=mode)
            assert followed(replayed) == rounds and [one.cell for one in replayed.rounds[1].next_guidance] == cells
            assert (replayed.caught_at, replayed.rounds_saved) == (None, 0)
    chosen = replay(run, policy=Matrix(workflow_mode=True))
    assert [one.cell for one in chosen.rounds[1].next_guidance] == ["workflow", "text"]
    speakers = team(("A", "One."), ("B", "Two."), *[("B", f"Point {number}.") for number in range(9)], ("A", "Three."))
    thoughts = foreign("", LOOK, "Done.")
    for mode in (None, True, False):
        assert followed(replay(speakers, workflow_mode=mode)) == 12 and followed(replay(thoughts, workflow_mode=mode)) == 3


def test_intervention_for_open_todos_does_not_count_as_catching() -> None:
    todo = ToolCall("todo_operations", write("one").arguments)
    replayed = replay(foreign(todo, "Done."))
    parting = replayed.first_divergence
    assert parting is not None and parting.number == 2 and parting.next_guidance[0].cell == "intervention"
    assert (replayed.caught_at, replayed.rounds_saved) == (None, 0)
    assert survey([replayed.recorded], failed=lambda run: True)["caught"].tolist() == [0]
    unended = replay(foreign(todo, "Hm.", LOOK, "Done.", status="unknown"))
    assert unended.caught_at is None and unended.rounds[3].not_knowable is not None


def test_final_thought_of_an_agent_team_adds_no_round() -> None:
    replayed = replay(team(("A", "Plan."), ("B", "It is 2."), ("A", "")))
    assert replayed.caught_at is None and isinstance(replayed.rounds[-1].verdict, Stop)
    alone = replay(foreign(LOOK, ""))
    assert alone.rounds[-1].caught_by == ("continues (empty_answer)",)


def test_unrecorded_end_is_inferred_from_earlier_turns(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Run, bool | None]] = {
        "one answer": (foreign(LOOK, "Done.", status="unknown"), False),
        "chat": (foreign("A.", ("person", "And?"), "B.", status="unknown"), False),
        "team": (team(("A", "One."), ("B", "Two."), status="unknown"), None),
        "same agent": (foreign("Hm.", "Done.", status="unknown"), None),
    }
    for name, (run, continues) in cases.items():
        with subtests.test(name):
            assert replay(run).rounds[-1].recorded_decision.continues is continues


def test_rounds_after_an_unknown_answer_are_not_counted(snapshot: Snapshot) -> None:
    todo = ToolCall("todo_operations", write("one").arguments)
    replayed = replay(foreign(todo, "Done.", ("person", "Really?"), LOOK, "Yes."))
    assert [round_.would_be is None for round_ in replayed.rounds] == [False, False, True, True]
    assert (replayed.stop, replayed.rounds_saved, replayed.tokens_saved, replayed.caught_at) == (None, 0, 0, None)
    assert replayed.sentence == snapshot


def test_limit_ends_a_chat_at_the_end_of_the_turn() -> None:
    replayed = replay(foreign("A.", ("person", "And?"), "B.", ("person", "And?"), "C."), limits={"max_rounds": 2})
    assert (followed(replayed), replayed.caught_at, replayed.rounds_saved) == (2, 2, 1) and replayed.rounds[1].differs


class OwnPolicy:
    """An own policy of plain functions; one ends a run by its own rule."""

    name = "own"

    def rules(self, words: Any, *limits: Any, repeatable: Any = ()) -> PolicyBundle:
        def answered(run: Any) -> Stop | None:
            return None if run.last_round.records else Stop("natural")

        def enough(run: Any) -> Stop | None:
            return Stop("enough", "stopped") if run.last_round.index == 3 else None

        return PolicyBundle((answered, enough, *limits))


def test_custom_policy_catches_by_its_rules_not_the_answer() -> None:
    replayed = replay(recorded_loop("Magentic-One"), policy=OwnPolicy())
    assert (followed(replayed), replayed.caught_at, replayed.rounds_saved) == (4, 4, 6)
    assert (
        replayed.rounds[3].caught_by == ("ends (enough)",)
        and replayed.rounds[2].decision == replayed.rounds[2].recorded_decision
    )


def test_agentnb_run_under_another_policy_ends_without_a_catch() -> None:
    run, _ = scripted(do(1), "One.", "Two.\n[WORKFLOW_COMPLETE]", policy=Matrix(workflow_mode=True))
    replayed = replay(run, policy=Minimal())
    assert replayed.stop is not None and replayed.stop.stop_reason == "natural" and followed(replayed) == 2
    assert (replayed.caught_at, replayed.rounds_saved) == (None, 0) and replayed.first_divergence is replayed.rounds[1]


def test_rounds_inherited_by_a_fork_end_as_recorded(subtests: pytest.Subtests) -> None:
    mode, _ = scripted(do(1), "One.", "Two.", "Three.\n[WORKFLOW_COMPLETE]", policy=Matrix(workflow_mode=True))
    for name, run, at_round in (("a team", recorded_loop("Magentic-One"), 8), ("another policy", mode, 4)):
        with subtests.test(name):
            forked = fork_sync(run, at_round, model=ScriptedModel(["Done.", "Done."]), tools=[], policy="minimal")
            replayed = replay(forked)
            assert followed(replayed) == len(forked.rounds) == at_round - 1 and replayed.first_divergence is None
            assert replayed.rounds[-1].decision is not None and replayed.rounds[-1].decision.reason == forked.stop_reason


def test_samples_of_all_formats_replay_to_their_end_without_guards() -> None:
    check_unchanged(SAMPLES)


def may_part(one: ReplayedRound) -> bool:
    """Return whether a guard decides after this round, or an intervention for open todos."""
    assert one.verdict is not None
    is_intervention = (
        isinstance(one.verdict, Continue) and turn_rule(one.verdict, after_calls=bool(one.recorded.records)) == "todos"
    )
    return is_intervention or one.guard_decides


def check_unchanged(folder: Path) -> None:
    """Fail if an unchanged replay of a run in the folder ends early or diverges, except for guards and interventions."""
    replayed = 0
    for run in iter_traces(folder):
        if works_in_steps(run) or not run.rounds:
            continue
        found = replay(run)
        replayed += 1
        place = f"{run.origin.file_name if run.origin else run.id}: {found.sentence}"
        last = next(round_ for round_ in reversed(found.rounds) if round_.would_be is not None)
        if last is not found.rounds[-1]:
            assert may_part(last), place
        parting = found.first_divergence
        if parting is not None and not parting.judged_calls:
            assert may_part(parting), place
    assert replayed > 50


@pytest.mark.nightly("it reads a folder of recorded runs")
@pytest.mark.skipif(not RECORDED.is_dir(), reason="AGENTNB_RECORDED_RUNS names no folder of recorded runs")
def test_recorded_runs_replay_to_their_end_unless_a_guard_decides() -> None:
    check_unchanged(RECORDED)
