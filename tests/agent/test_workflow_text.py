"""Non-final text in workflow mode: sent again or omitted."""

from __future__ import annotations

import pytest

from agentnb import Agent, Matrix, Run
from agentnb.models import ScriptedModel


def worked(*replies: str, **settings: bool) -> tuple[Run, list[list[tuple[str, str]]]]:
    model = ScriptedModel([*replies, "[WORKFLOW_COMPLETE]"])
    run = Agent(model, guidance="off", policy=Matrix(workflow_mode=True, **settings)).run_sync("Do it.")  # type: ignore[arg-type]
    return run, [[(message.role, message.text) for message in request.messages] for request in model.requests]


@pytest.mark.req("R0.52")
def test_dropped_workflow_text_stays_in_the_conversation() -> None:
    run, sent = worked("I am at it.", "I am still at it.", workflow_drops_text=True)
    assert sent[1] == [("user", "Do it.\n\nPlease continue")]
    assert sent[2] == [("user", "Do it.\n\nPlease continue\n\nPlease continue")]
    assert [message.text for message in run.messages if message.role == "assistant"] == ["I am at it.", "I am still at it.", ""]


@pytest.mark.req("R0.52")
def test_text_is_sent_without_the_workflow_setting() -> None:
    _, sent = worked("I am at it.")
    assert sent[1] == [("user", "Do it."), ("assistant", "I am at it."), ("user", "Please continue")]


@pytest.mark.req("R0.52")
def test_text_continued_for_another_reason_is_sent() -> None:
    _, sent = worked("I am at it.\n[CONTINUE]", workflow_drops_text=True)
    assert ("assistant", "I am at it.") in sent[1]
