"""A replay as HTML and as text."""

from __future__ import annotations

import re

from asserted_sentences import Snapshot
from recorded_loops import recorded_loop
from recorded_runs import foreign
from todo_calls import write

from agentnb import GuidanceSet, Matrix, ToolCall, replay
from agentnb.core.log.events import Origin
from agentnb.display.lists.replay_view import ENDED, MAX_ROUNDS, NOT_KNOWABLE, replay_html, replay_text, rows
from agentnb.interchange.conversion.run_writer import RunWriter


def test_each_round_shows_recorded_and_replayed_behaviour(snapshot: Snapshot) -> None:
    replay_rows = rows(replay("complex-fails", workflow_mode=True))
    assert [row.number for row in replay_rows] == [1, 2, 3, 4, 5, 6, 7]
    assert replay_rows[2].recorded == "text, workflow mode, continues"
    assert replay_rows[2].would_be == snapshot
    assert replay_rows[2].told == "workflow ✗, text ✗"
    assert replay_rows[3].notes == ("could have been caught here", "reminds the model (already_said)")
    assert replay_rows[5].notes == ("first divergence", "ends (loop_detected)")
    assert (replay_rows[6].would_be, replay_rows[6].notes) == (ENDED, ("hypothetical",))


def test_replay_caution_is_shown_in_html_and_text() -> None:
    replayed = replay("simple-fail")
    for shown in (replay_html(replayed), replay_text(replayed)):
        plain = re.sub("<[^>]*>", "", shown)
        for sentence in (replayed.sentence, replayed.caution, "Replay under guidance matrix, policy matrix"):
            assert sentence in plain
        assert plain.count("first divergence") == 1
    assert "REMINDER" in replay_html(replayed)


def test_replay_view_shows_turn_endings_and_unknown_outcomes(snapshot: Snapshot) -> None:
    replayed = replay(recorded_loop("Who&When"))
    shown = rows(replayed)
    assert [row.recorded for row in shown] == snapshot
    assert {row.would_be for row in shown[:3]} == {"text, continues (as recorded)"} and not any(row.notes for row in shown)
    for view in (replay_html(replayed), replay_text(replayed)):
        assert replayed.turn_ending.sentence in re.sub("<[^>]*>", "", view)
    todo = ToolCall("todo_operations", write("one").arguments)
    parted = rows(replay(foreign(todo, "Done.", ("person", "Really?"), "Yes.")))
    assert parted[1].recorded == "text, 1 open, ends (a person speaks)" and parted[2].would_be == NOT_KNOWABLE


def test_rounds_after_the_divergence_are_greyed_as_hypothetical() -> None:
    html = replay_html(replay("complex-fails", workflow_mode=False))
    table_rows = re.findall("<tr.*?</tr>", html, re.DOTALL)[1:]
    assert ["replay-hypothetical" in row for row in table_rows] == [False] * 3 + [True] * 4
    assert ["replay-parting" in row for row in table_rows] == [False, False, True] + [False] * 4
    assert all("the recording does not show" in row for row in table_rows[3:])


def test_summary_sentence_links_to_its_rounds() -> None:
    html = replay_html(replay("complex-fails"))
    anchors, links = set(re.findall(r'<tr id="([^"]+)"', html)), re.findall(r'<a href="#([^"]+)"', html)
    assert len(anchors) == 7 and links and set(links) <= anchors


def test_text_of_a_trace_or_guidance_set_never_becomes_markup() -> None:
    writer = RunWriter(Origin("by_hand", "<b>file</b>"), model="<i>m</i>")
    writer.say("<script>1</script>")
    writer.reply("<script>2</script>", [ToolCall("<u>tool</u>", {})])
    writer.result("", "<script>3</script>")
    writer.reply("<script>4</script>")
    html = replay_html(replay(writer.finish(), guidance=GuidanceSet("mine", {"tools": "<script>5</script>"})))
    assert "<script" not in html and "<u>" not in html and "<i>" not in html and "&lt;script&gt;5" in html


def test_long_run_is_truncated_with_a_note() -> None:
    writer = RunWriter(Origin("by_hand"), model="m")
    writer.say("Go")
    for at in range(MAX_ROUNDS + 3):
        writer.reply("", [ToolCall("look", {"at": at})])
        writer.result("", "ok")
    writer.reply("Done.")
    replayed = replay(writer.finish(), policy=Matrix(), guidance="off")
    assert len(rows(replayed)) == MAX_ROUNDS
    assert "4 more rounds, in table()" in replay_html(replayed) and "4 more rounds, in table()" in replay_text(replayed)
