"""Summaries: no keys, the carried list, and no request after a partial reply."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_checks import checked, kinds
from scripted_runs import bare, do, work
from sent_requests import as_bytes, assert_made_again
from streamed_replies import Streamed
from summarising import Summarising, compactions, last_compaction
from todo_calls import complete, start, write

from agentnb import Agent, History, Store
from agentnb.core.log.events import ModelReplied
from agentnb.core.log.wire import encode
from agentnb.errors import ContextOverflow

SMALL = History(compact_above=6, keep_recent=2)
SECRET = "sk-test-0123456789abcdef"


@pytest.mark.req("R2.35")
def test_key_in_a_summary_is_neither_logged_nor_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    store = Store(tmp_path / "runs")
    model = Summarising([do(1), do(2), do(3), "Done."], [f"Call the server with {SECRET}."])
    run = bare(model, [work], history=SMALL).run_sync("Make all.", store=store)
    assert last_compaction(run).text.endswith("Call the server with [key].")
    assert "Call the server with [key]." in model.requests[-1].messages[0].text
    assert not any(SECRET.encode() in as_bytes(request) for request in model.requests)
    assert not any(SECRET.encode() in encode(event) for event in run.events)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"[key]" in files and SECRET.encode() not in files
    assert_made_again(store.load(run.id), model.requests)


@pytest.mark.req("R2.35", "R0.62")
def test_carried_todos_appear_in_the_summary_of_a_run() -> None:
    script = [write("Read", "Count"), start(1), complete(1), do(1)]
    before = Agent(Summarising(script), tools=[work], history="full", max_rounds=4).run_sync("Do both.")
    model = Summarising(["A word."])
    run = Agent(model, history=SMALL).run_sync("And?", continue_from=before)
    assert (run.todos, [todo.status for todo in run.conversation_todos]) == ((), ["completed", "not-started"])
    text = last_compaction(run).text
    assert "[completed] Read" in text and "[not-started] Count" in text
    assert text in model.requests[0].messages[0].text
    assert_made_again(run, model.requests)


@pytest.mark.req("R2.36", "R0.12")
def test_context_overflow_mid_reply_fails_without_a_summary() -> None:
    model = Summarising([do(1), do(2), do(3), Streamed("Half of an ", ContextOverflow("Too long", "Begin anew"))])
    run = bare(model, [work]).run_sync("Make all.")
    checked(run)
    assert (run.status, run.stop_reason) == ("failed", "error")
    assert run.error is not None and (run.error.type, str(run.error)) == ("ContextOverflow", "Too long. Begin anew")
    assert (model.asked, compactions(run), len(model.requests)) == ([], [], 4)
    assert kinds(run).count("ModelReplied") == len(run.rounds) == 4
    (reply,) = [event for event in run.events[-4:] if isinstance(event, ModelReplied)]
    assert (reply.message.text, reply.stop_reason) == ("Half of an ", "broken_off")
    assert_made_again(run, model.requests)
