"""A blank message in a context gets a question back: without a model, a round or a cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from marked_logs import marked
from msgspec import structs
from scripted_runs import bare

from agentnb import ContextType, Store, ToolCall, load_trace, save_trace
from agentnb.core.log.well_formed import check_events
from agentnb.core.log.work_events import ModelCalled, ReplyGiven
from agentnb.core.messages import Image, Message, Text, user
from agentnb.core.run.timeline import CLARIFY_BLANK
from agentnb.core.usage import NOTHING_USED
from agentnb.display.card.html import run_html
from agentnb.display.card.text import run_text
from agentnb.errors import SettingsError, TraceError
from agentnb.models import ScriptedModel

BLANK = " \n"
PICTURE = Image("image/png", b"\x89PNG\r\n\x1a\n")


@pytest.mark.req("R3.32", "K3.6")
def test_clarification_has_no_rounds_and_one_tokenless_usage_row(tmp_path: Path) -> None:
    model, store = ScriptedModel(["Two."]), Store(tmp_path)
    agent = ContextType.named("general").apply(bare(model))
    run = agent.run_sync(BLANK, store=store)
    assert (run.status, run.stop_reason, run.rounds, model.requests) == ("completed", CLARIFY_BLANK, (), [])
    assert run.text.endswith(".") and [message.role for message in run.messages] == ["user", "assistant"]
    assert [type(event) for event in run.events[1:3]] == [ModelCalled, ReplyGiven]
    (called,) = run.model_calls
    assert (called.operation, called.profile, called.usage, called.model) == (CLARIFY_BLANK, "balanced", NOTHING_USED, "")
    loaded = store.load(run.id)
    assert loaded.text == run.text and loaded.usage.cost == 0
    again = agent.run_sync("How many?", continue_from=loaded)
    assert [message.text for message in model.requests[0].messages] == ["How many?"]  # no provider takes a blank message
    assert again.continued_from == run.id


def test_clarification_asks_once_without_calling_a_model() -> None:
    run = ContextType.named("general").apply(bare(ScriptedModel([]))).run_sync(BLANK)
    for shown in (run_text(run), run_html(run)):
        assert shown.count(run.text) == 1 and CLARIFY_BLANK not in shown


def test_blank_message_without_context_is_an_error() -> None:
    with pytest.raises(SettingsError, match="blank"):
        bare(ScriptedModel(["Two."]), policy="chat").run_sync(BLANK)


def test_pictures_without_text_stay_in_the_conversation() -> None:
    model = ScriptedModel(["A gauge."])
    agent = ContextType.named("general").apply(bare(model))
    asked = agent.run_sync(Message("user", (Text(BLANK), PICTURE)))
    assert asked.stop_reason == CLARIFY_BLANK
    agent.run_sync("What is it?", continue_from=asked)
    assert [[type(part) for part in message.parts] for message in model.requests[0].messages] == [[Image], [Text], [Text]]


def test_conversation_continues_after_a_crash_at_any_event(tmp_path: Path) -> None:
    agent = ContextType.named("general").apply(bare(ScriptedModel([])))
    events = agent.run_sync(BLANK, continue_from=agent.run_sync(BLANK)).events
    for count in range(1, len(events)):
        store = Store(tmp_path / str(count))
        store.folder.mkdir()
        (store.folder / f"{events[0].run_id}.jsonl").write_bytes(marked(events[:count]))
        model = ScriptedModel(["Two."])
        ContextType.named("general").apply(bare(model)).run_sync("How many?", continue_from=store.load(events[0].run_id))
        assert [message.text for message in model.requests[0].messages] == ["How many?"], count


def test_clarification_question_appears_in_every_export(tmp_path: Path, subtests: pytest.Subtests) -> None:
    asked = ContextType.named("general").apply(bare(ScriptedModel([]))).run_sync(BLANK)
    for form in ("sam", "openai_chat", "anthropic_messages", "openinference"):
        with subtests.test(form):
            path = save_trace(asked, tmp_path / f"{form}.json", format=form)
            assert load_trace(path).messages[-1].text == asked.text


def test_logs_with_invalid_clarifications_are_refused() -> None:
    run = ContextType.named("global").apply(bare(ScriptedModel([]))).run_sync(BLANK)
    started, called, replied, *others = run.events
    check_events(run.events, "run.jsonl")
    call = Message("assistant", (ToolCall("work", {}, "c1"),))
    for events in (
        [structs.replace(started, context_type=""), called, replied, *others],
        [started, called, structs.replace(replied, message=user("Yes?")), *others],
        [started, called, structs.replace(replied, message=call), *others],
    ):
        with pytest.raises(TraceError):
            check_events(events, "run.jsonl")
