"""A final user message is kept wherever a run is read, shown and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trace_documents import document

from agentnb import load_trace, replay, tables
from agentnb.display.card.html import run_html
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text

LAST = "One more thing: the roof."
ASKS, SAYS = {"role": "user", "content": "How high?"}, {"role": "assistant", "content": "It is 7 m."}
MESSAGES = [ASKS, SAYS, {"role": "user", "content": LAST}]
BLOCKS = [{"role": message["role"], "content": [{"type": "text", "text": message["content"]}]} for message in MESSAGES]
SAM = {
    "id": "s",
    "title": "t",
    "messages": [{"id": str(n), "content": one["content"], "isFromUser": one is not SAYS} for n, one in enumerate(MESSAGES)],
}


def span(span_id: str, kind: str, parent: str | None, **attributes: Any) -> dict[str, Any]:
    return {
        "name": kind.lower(),
        "context": {"trace_id": "t", "span_id": span_id},
        "parent_id": parent,
        "span_kind": kind,
        "attributes": attributes,
    }


def flat(messages: list[dict[str, Any]], where: str) -> dict[str, Any]:
    return {
        f"{where}.{place}.message.{name}": value for place, message in enumerate(messages) for name, value in message.items()
    }


SPANS = [
    span("a", "AGENT", None, **{"input.value": "How high?"}),
    span("b", "LLM", "a", **flat([ASKS], "llm.input_messages"), **flat([SAYS], "llm.output_messages")),
    span("c", "LLM", "a", **flat(MESSAGES, "llm.input_messages")),
]


def test_last_user_message_is_shown_in_every_view(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, value in {"chat": MESSAGES, "anthropic": {"system": "x", "messages": BLOCKS}, "sam": SAM, "spans": SPANS}.items():
        with subtests.test(name):
            run = load_trace(document(tmp_path, value, f"{name}.json"))
            assert [(message.role, message.text) for message in run.messages][-1] == ("user", LAST) and not run.pending
            assert tables.messages(run)["text"].tolist()[-1] == LAST and run.status == "interrupted"
            assert LAST in run_text(run) and LAST in run_html(run) and LAST in page_html(run)


def test_messages_without_a_model_reply_are_shown(tmp_path: Path) -> None:
    run = load_trace(document(tmp_path, {"model": "m", "messages": [ASKS, MESSAGES[-1]]}))
    assert [message.text for message in run.messages] == ["How high?", LAST] and not run.rounds
    assert LAST in run_text(run) and LAST in run_html(run)


def test_last_user_message_is_not_replayed_as_an_answer(tmp_path: Path) -> None:
    replayed = replay(load_trace(document(tmp_path, MESSAGES)))
    assert len(replayed.rounds) == 1 and replayed.rounds[0].recorded_decision.continues is None
