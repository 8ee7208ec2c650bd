"""A blank message in a context gets a question back: without a model, a round or a cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from scripted_runs import bare

from agentnb import ContextType, Store, ToolCall
from agentnb.core.log.well_formed import check_events
from agentnb.core.log.work_events import ModelCalled, ReplyGiven
from agentnb.core.messages import Message, user
from agentnb.core.run.timeline import CLARIFY_BLANK
from agentnb.core.usage import NOTHING_USED
from agentnb.errors import SettingsError, TraceError
from agentnb.models import ScriptedModel

BLANK = " \n"


@pytest.mark.req("R3.32", "K3.6")
def test_it_is_a_run_without_rounds_and_a_row_of_usage_without_tokens(tmp_path: Path) -> None:
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


def test_without_a_context_a_blank_message_is_an_error() -> None:
    with pytest.raises(SettingsError, match="blank"):
        bare(ScriptedModel(["Two."]), policy="chat").run_sync(BLANK)


def test_logs_with_a_blank_prompt_outside_of_contexts_or_a_reply_with_calls_are_refused() -> None:
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
