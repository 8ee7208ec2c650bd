"""Reply checkpoints: parts logged while the reply streams, without keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentnb import Agent
from agentnb.core.log.events import ReplyStreamed, TextDelta
from agentnb.core.log.well_formed import check_events
from agentnb.core.messages import Message, Text
from agentnb.models.model import Checkpoint, Reply

KEY = "sk-planted-0123456789abcdefghij"


class Speaker:
    """A model whose pieces of text are each logged at once."""

    name = "test:speaker"

    def __init__(self, *pieces: str, fails: bool = False) -> None:
        self._pieces, self._fails = pieces, fails

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Yield the pieces, then the reply, or fail."""
        for piece in self._pieces:
            yield TextDelta(piece)
            yield Checkpoint((Text(piece),), {"session": "s1"})
        if self._fails:
            raise ConnectionError("gone")
        yield Reply(Message("assistant", (Text("".join(self._pieces)),)))


def test_checkpoints_are_logged_and_replaced_by_the_reply() -> None:
    run = Agent(Speaker("One ", "two.\ud800")).run_sync("go")
    parts = [event.parts for event in run.events if isinstance(event, ReplyStreamed)]
    assert parts == [(Text("One "),), (Text("two.\ufffd"),)]
    assert (run.streamed_reply, run.text) == (None, "One two.\ufffd")
    check_events(run.events, "the log")


def test_failed_reply_keeps_the_metadata_of_its_checkpoints() -> None:
    run = Agent(Speaker("One ", fails=True)).start("go")
    with pytest.raises(Exception, match="gone"):
        run.result(10)
    assert (run.run.last_round.text, run.run.last_round.metadata) == ("One ", {"session": "s1"})


def test_key_split_across_checkpoints_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    heard: list[str] = []
    watch = lambda item: heard.append(item.text) if isinstance(item, TextDelta) else None  # noqa: E731
    run = Agent(Speaker(f"It is {KEY[:12]}", KEY[12:20], f"{KEY[20:]} then.")).run_sync("go", watch=watch)
    logged = "".join(part.text for event in run.events if isinstance(event, ReplyStreamed) for part in event.parts)
    assert len([event for event in run.events if isinstance(event, ReplyStreamed)]) == 2  # the second piece is held back whole
    for text in (logged, "".join(heard), run.text):
        assert KEY[:12] not in text and KEY[20:] not in text
        assert text.startswith("It is ") and text.endswith(" then.")
