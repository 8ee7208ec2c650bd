"""Token estimates of a growing conversation: equal to a full count, with settled messages counted once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentnb.core.messages import Message, user
from agentnb.models import estimate
from agentnb.models.estimate import RunningEstimate, tokens_of_message, tokens_of_text


@pytest.mark.req("R2.36")
@given(st.lists(st.text(max_size=40), max_size=12), st.lists(st.integers(0, 12), max_size=6))
def test_running_estimate_always_equals_the_sum_of_messages(texts: list[str], asked: list[int]) -> None:
    messages = [user(text) for text in texts]
    running = RunningEstimate("a system prompt of many words", ())
    before = tokens_of_text("a system prompt of many words")
    for count in sorted(min(question, len(messages)) for question in asked):
        assert running.of(messages[:count]) == before + sum(map(tokens_of_message, messages[:count]))


@pytest.mark.req("R2.36")
def test_estimate_follows_changes_to_last_and_unkept_messages() -> None:
    running = RunningEstimate("", ())
    assert running.of([user("a" * 70)]) < running.of([user("a" * 700)])
    long, short = user("a" * 700), user("a")
    running.of([long, long, long, user("b")])
    running.keep(1)
    assert running.of([long, short, short, user("b")]) == sum(map(tokens_of_message, [long, short, short, user("b")]))
    running.keep(0)
    assert running.of([short, short, user("b")]) == sum(map(tokens_of_message, [short, short, user("b")]))


@pytest.mark.req("R2.36")
def test_message_followed_by_another_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def count(message: Message) -> int:
        counted.append(message.text)
        return 1

    monkeypatch.setattr(estimate, "tokens_of_message", count)
    running, messages = RunningEstimate("", ()), [user(str(number)) for number in range(50)]
    for length in range(1, 51):
        assert running.of(messages[:length]) == length
    assert len(counted) == 50 + 49
