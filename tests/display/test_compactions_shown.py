"""Compacted and recovered runs in every form."""

from __future__ import annotations

import re
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from marked_logs import cut_log, own_run
from scripted_runs import look, play
from summarising import Summing, priced

from agentnb import Agent, History, Run, Store, ToolCall, load_trace
from agentnb.context.request_history import sent_requests
from agentnb.core.compaction_records import Compacted, Compaction
from agentnb.core.log import events as e
from agentnb.core.messages import Text
from agentnb.core.usage import Usage
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.request_view import request_view_html, summary
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.texts import call_labels, states
from agentnb.display.texts.round_notes import RECOVERED, compaction_line, round_notes
from agentnb.models import Reply, ScriptedModel

SUMMARY = "## Original task\n- Count **them** <script>alert(1)</script>"
LINE = "4 messages summarized, because the conversation had more than 8 messages"
SHORT = History(compact_above=8, keep_recent=3)


def words(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", "", html)).split())


said = partial(priced, cost=0.0031, tokens=(10, 5))


def work(count: int, start: int = 0) -> list[Reply]:
    return [said(Text(f"Part {n}."), ToolCall("look", {"n": n})) for n in range(start, start + count)]


def run_of_script(*replies: Any, **how: Any) -> Run:
    given: dict[str, Any] = {"tools": [look], "todos": False, "guidance": "off", "history": SHORT, **how}
    return Agent(Summing(replies), **given).run_sync("Go.")


def summed_up() -> Run:
    return run_of_script(*work(4), said(Text(SUMMARY)), *work(1, 4), said(Text("Done.")))


def without_summary() -> Run:
    return run_of_script(*work(4), said(Text(" ")), said(Text("Done.")))


# One line that opens to the summary


def test_round_shows_count_reason_and_cost_of_a_compaction() -> None:
    run = summed_up()
    assert [len(round_.compactions) for round_ in run.rounds] == [0, 0, 0, 0, 1, 0]
    for shown in (words(run_html(run)), words(page_html(run)), run_text(run)):
        assert shown.count(f"{LINE} · $0.0031") == 1
    assert "summarized: once" in words(run_html(run))


def test_compaction_line_expands_to_the_summary_as_harmless_markdown() -> None:
    html = run_html(summed_up(), folds={"summary:4:0": True})
    fold = html[html.index('data-fold="summary:4:0"') :].partition("</details>")[0]
    assert " open" in fold[:40] and "<strong" in fold and "<script" not in fold
    assert "Count them <script>alert(1)</script>" in words(fold)
    assert 'data-fold="summary:4:0" open' not in run_html(summed_up())


def test_each_reason_for_compaction_has_a_description(subtests: pytest.Subtests) -> None:
    cases = [
        ("share", {"history": {"share": 0.8}}, "the conversation filled 80 % of the context window"),
        ("share", {}, "the conversation filled its share of the context window"),
        ("messages", {"history": {"compact_above": 30}}, "the conversation had more than 30 messages"),
        ("messages", {"history": "x"}, "the conversation had too many messages"),
        ("overflow", {}, "the provider rejected the conversation as too long"),
    ]
    for why, settings, expected in cases:
        with subtests.test(why=why, settings=settings):
            done = Compaction(why, Compacted(1, 25, 24, "Sum."), Usage(cost=0.0031), 4.2)
            assert compaction_line(done, settings) == f"24 messages summarized, because {expected} · $0.0031 · 4.2 s"
            assert compaction_line(Compaction(why), settings) == f"summarizing, because {expected}"


def test_chip_shows_summarizing_until_the_compaction_line_appears(snapshot: Snapshot) -> None:
    run, card = summed_up(), LiveCard()
    updates: list[tuple[str, str]] = []
    for event in run.events:
        card.take(event)
        whole = card.whole()
        pieces = {round_["index"]: round_ for round_ in whole["rounds"]}.get(4, {"html": {}, "keys": []})
        if "compactions" in pieces["keys"]:
            updates.append((whole["say"], words(pieces["html"]["compactions"])))
            assert pieces["keys"].index("compactions") <= 1
        if isinstance(event, e.ContextCompacted):
            drawn = pieces["html"]["compactions"]
    assert updates[0] == snapshot
    assert updates[1][0] == "Thinking" and updates[1][1].startswith(LINE)
    assert card.whole()["rounds"][4]["html"]["compactions"] == drawn
    assert "summarized: once" in words(card.whole()["slots"]["totals"])


def test_chip_shows_that_a_summary_is_being_retried() -> None:
    run = summed_up()
    (started,) = [event for event in run.events if isinstance(event, e.CompactionStarted)]
    going_on = Run.from_events(run.events[: started.seq + 1])
    assert states.chip(going_on) == "Summarizing 4 messages"
    common: dict[str, Any] = {"seq": started.seq + 1, "at": started.at, "run_id": run.id}
    going_on.apply(e.RetryScheduled(attempt=1, seconds=2.0, reason="busy", **common))
    assert states.chip(going_on) == "Retrying"


def test_compaction_without_summary_shows_missing_messages_and_reason() -> None:
    run = without_summary()
    line = (
        "4 messages dropped without a summary, because the conversation had more than 8 messages: the model returned no summary"
    )
    assert line in words(run_html(run)) and line in run_text(run) and "agentnb-odd" in run_html(run)
    assert "conversation summed up" not in words(run_html(run))
    assert round_notes(run.rounds[4], run.settings)[0].wrong


def test_compaction_problem_is_truncated_to_one_line() -> None:
    failed = Compaction("share", Compacted(1, 3, 2), problem="\x1b[31m<b>\n" + "x" * 5_000)
    assert len(compaction_line(failed)) < 500 and "\n" not in compaction_line(failed) and "\x1b" not in compaction_line(failed)


# What the model saw


def seen_in_last(run: Run, *, whole: bool = True) -> str:
    return request_view_html([seen for _, seen in sent_requests(run)][-1], whole=whole)


@pytest.mark.parametrize("whole", [True, False])
def test_request_view_distinguishes_summary_from_stored_messages(whole: bool) -> None:
    run = run_of_script(*work(4), said(Text(SUMMARY)), said(Text("Done.")))
    seen = next(seen for index, seen in sent_requests(run) if index == 4)
    assert "with a summary of 4 stored messages" in summary(seen)
    shown = words(request_view_html(seen, whole=whole))
    assert "Σ a summary of 4 stored messages" in shown and "Count **them**" in shown
    assert "stored; some earlier messages of round 4 are not sent" in shown and "text was added" not in shown


def test_moved_messages_share_one_line_in_the_short_view() -> None:
    run = run_of_script(*work(30), said(Text("Done.")), history=History(max_messages=10))
    seen = [seen for _, seen in sent_requests(run)]
    assert all(request.truncated for request in seen[6:])
    cut, whole = (words(request_view_html(seen[25], whole=whole)) for whole in (False, True))
    assert "= Messages 2 to 9: stored; some earlier messages of round 25 are not sent" in cut
    assert "Part 24." in cut and "Part 23." not in cut and "Part 23." in whole
    assert len(cut) < len(whole) / 2


def test_later_rounds_mention_the_summary_among_unchanged_messages() -> None:
    later = words(seen_in_last(summed_up(), whole=False))
    assert "they include the summary of 4 stored messages" in later


def test_request_view_shows_messages_dropped_without_summary() -> None:
    shown = words(seen_in_last(without_summary()))
    assert "⊘ 4 stored messages left out: they could not be summarized" in shown and "4 left out" in shown


def test_request_view_counts_messages_over_the_limit() -> None:
    run = run_of_script(*work(6), said(Text("Done.")), history=History(max_messages=6))
    seen = [seen for _, seen in sent_requests(run)][-1]
    assert seen.truncated
    assert f"⊘ {seen.truncated} messages left out: over the message limit" in words(request_view_html(seen, whole=True))
    assert f"{seen.truncated} left out" in summary(seen)


def boom() -> str:
    """Fail."""
    raise ValueError("no")


def test_request_view_names_rounds_omitted_because_they_failed() -> None:
    failing = [said(Text("Try."), ToolCall("boom")), said(Text("Try."), ToolCall("boom", {}))]
    run = run_of_script(*failing, *work(3), said(Text("Done.")), tools=[boom, look], history=History(failed_rounds_above=2))
    assert "⊘ left out: every call of that round failed" in " ".join(
        words(request_view_html(seen, whole=True)) for _, seen in sent_requests(run)
    )


# A process that died


@pytest.fixture
def died(tmp_path: Path) -> Run:
    """Return a run whose process died during a tool call."""
    store, calls = Store(tmp_path), [ToolCall("look", {"n": 1}), ToolCall("look", {"n": 2})]
    run = play(calls, "Done.", tools=[look], prompt="Go.", store=store)
    return load_trace(cut_log(store.path(run.id), "tool_started"))


@pytest.mark.req("KX.11")
def test_interrupted_run_is_labelled_and_explains_how_to_recover(died: Run) -> None:
    for shown in (words(run_html(died)), words(page_html(died)), words(compact_html(died)), run_text(died)):
        assert "Interrupted" in shown and f"Recover: %agent recover {died.id[-8:]}" in shown
        assert "running" not in shown
    assert run_text(died).count("■ interrupted: the kernel died") == 2
    assert "2 interrupted calls: round 1" in words(run_html(died)) and "failed" not in words(run_html(died))


def test_interrupted_summary_is_not_shown_as_running() -> None:
    run = summed_up()
    started = next(event.seq for event in run.events if isinstance(event, e.CompactionStarted))
    cut = own_run(run.events[: started + 1])
    assert "summarizing" in run_text(cut)
    cut.mark_interrupted()
    assert "summarizing" not in run_text(cut) + words(run_html(cut))


@pytest.mark.req("KX.11")
def test_recovered_run_shows_the_round_of_its_recovery(died: Run) -> None:
    model = ScriptedModel(["Done."])
    run = Agent(model, tools=[look]).resume(own_run(died.events)).result(30)
    assert run.status == "completed" and [round_.recovered for round_ in run.rounds] == [True, False]
    for shown in (words(run_html(run)), words(page_html(run)), run_text(run)):
        assert shown.count(RECOVERED) == 1 and "interrupted: the kernel died" in shown
    assert "resumed: once" in words(run_html(run))
    card = LiveCard()
    for event in run.events:
        card.take(event)
    pieces = card.whole()["rounds"][0]["html"]
    assert RECOVERED in words(pieces["recovered"]) and "interrupted: the kernel died" in words(pieces["call:0"])


def test_interrupted_call_does_not_count_as_failed(died: Run) -> None:
    record = states.rounds_at_end(died)[0].records[0]
    assert call_labels.state(record) == "interrupted" and died.failed_calls == 0
    assert died.rounds[0].records[0].result is None
