"""Message authors in shared conversations: stored and never sent."""

from __future__ import annotations

import pytest
from run_builder import RunBuilder, begun

from agentnb import Agent
from agentnb.context.request_builder import RequestBuilder, merge_messages
from agentnb.core.log.events import ModelReplied, RoundFinished
from agentnb.core.messages import Message, Text
from agentnb.detect.run import Run
from agentnb.models.registry import wire_form
from agentnb.models.scripted import ScriptedModel

ANNA, BERT = "Anna the first", "Bert the second"
WIRES = ["anthropic:claude-x", "openai:gpt-x", "openai-responses:gpt-x"]


def by(author: str, text: str, role: str = "assistant") -> Message:
    return Message(role, (Text(text),), author=author)  # type: ignore[arg-type]


def several() -> Run:
    """Return a run with consecutive messages of two agents."""
    story = RunBuilder(history=(by(ANNA, "Look.", "user"), by(BERT, "I look.")), prompt="And?")
    for index, author in enumerate((ANNA, BERT)):
        story.extend(*begun(index, "said"), (ModelReplied, {"message": by(author, f"Number {index}.")}))
        story.extend((RoundFinished, {"index": index, "status": "success"}))
    return story.extend(*begun(2, "said")).run


def test_stored_messages_keep_their_authors_when_merged() -> None:
    run = several()
    request = RequestBuilder("", (), {}).request(run, "A reminder.")
    assert [message.author for message in run.messages] == [ANNA, BERT, "", ANNA, BERT]
    assert [message.author for message in request.messages] == [ANNA, BERT, "", f"{ANNA}, {BERT}"]


@pytest.mark.parametrize("model", WIRES)
def test_author_is_never_sent_to_a_model(model: str) -> None:
    request = RequestBuilder("", (), {}).request(several(), "A reminder.")
    body = str(wire_form(model, request))
    assert "Number 1." in body and ANNA not in body and BERT not in body


def test_merged_message_lists_each_author_once(subtests: pytest.Subtests) -> None:
    cases = {("", ""): "", ("a", ""): "a", ("", "b"): "b", ("a", "a"): "a", ("a", "b"): "a, b", ("a, b", "b"): "a, b"}
    for (first, second), expected in cases.items():
        with subtests.test(first=first, second=second):
            assert merge_messages(by(first, "x"), by(second, "y")).author == expected


def test_prompt_and_its_continuation_keep_their_author() -> None:
    first = Agent(ScriptedModel(["Hello."])).run_sync(by(ANNA, "Look.", "user"))
    assert first.messages[0].author == ANNA
    assert Agent(ScriptedModel(["Yes."])).run_sync("And?", continue_from=first).messages[0].author == ANNA
