"""The guard against repeated batches of calls."""

from __future__ import annotations

import pytest
from gated_run import GatedRun
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core.messages import Text, ToolCall
from agentnb.guidance import built_in
from agentnb.policies import Minimal
from agentnb.policies.gates import BatchGuard

BATCH = "batch"


def test_third_and_later_identical_batches_are_blocked() -> None:
    bench = GatedRun(BatchGuard())
    assert [bench.ask("A", "B") for _ in range(5)] == [[None, None]] * 2 + [[BATCH, BATCH]] * 3


@pytest.mark.parametrize("most", [2, 3, 5])
def test_number_of_allowed_batches_is_configurable(most: int) -> None:
    bench = GatedRun(BatchGuard(batches=most))
    blocked = [bench.ask("A", "B") for _ in range(most + 1)]
    assert blocked == [[None, None]] * (most - 1) + [[BATCH, BATCH]] * 2


def test_order_of_the_calls_does_not_matter() -> None:
    bench = GatedRun(BatchGuard())
    assert [bench.ask(*calls) for calls in ("ABA", "BAA", "AAB")] == [[None] * 3, [None] * 3, [BATCH] * 3]


def test_different_calls_in_between_reset_the_batch_count(subtests: pytest.Subtests) -> None:
    for other in ["AC", "A", "ABB", "ABC", "BC"]:
        with subtests.test(other=other):
            bench = GatedRun(BatchGuard())
            bench.ask("A", "B")
            bench.ask("A", "B")
            assert bench.ask(*other) == [None] * len(other)
            assert [bench.ask("A", "B") for _ in range(3)] == [[None, None], [None, None], [BATCH, BATCH]]


def test_text_in_between_resets_the_batch_count() -> None:
    bench = GatedRun(BatchGuard())
    bench.ask("A", "B")
    bench.ask("A", "B")
    bench.words()
    assert [bench.ask("A", "B") for _ in range(3)] == [[None, None], [None, None], [BATCH, BATCH]]


@pytest.mark.req("R1.33")
def test_batches_are_compared_by_arguments_not_their_spelling() -> None:
    bench = GatedRun(BatchGuard())
    for number in range(4):
        assert bench.ask(ToolCall("A", {"n": number}), ToolCall("B")) == [None, None]
    spelled = ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"b": 2.0, "a": 1.0})
    blocked = [bench.ask(ToolCall("A", arguments), ToolCall("B", None)) for arguments in spelled]
    assert blocked == [[None, None], [None, None], [BATCH, BATCH]]


def test_single_calls_are_handled_by_the_duplicate_guard() -> None:
    assert GatedRun(BatchGuard()).one_by_one("AAAAA") == [None] * 5
    assert GatedRun(BatchGuard(batches=2)).one_by_one("AAAAA") == [None] * 5


def test_exempt_calls_in_a_repeated_batch_run() -> None:
    bench = GatedRun(BatchGuard(exempt=frozenset({"A"})))
    assert [bench.ask("A", "B") for _ in range(3)] == [[None, None], [None, None], [None, BATCH]]


@pytest.mark.req("R1.37")
def test_blocked_calls_get_the_marker_and_their_own_result() -> None:
    bench = GatedRun(BatchGuard())
    bench.outputs = {"A": "of A", "B": "of B"}
    for _ in range(3):
        bench.ask("A", "B")
    assert [told.parts[-1] for told in bench.blocks] == [Text("of A"), Text("of B")]
    assert {told.error_code for told in bench.blocks} == {"duplicate_call_blocked"}
    assert "this reply repeats all calls of the 2 replies before it" in bench.blocks[0].text
    assert bench.run.judged.all_blocked == 1


@pytest.mark.req("KX.8")
def test_user_message_resets_the_batch_count() -> None:
    bench = GatedRun(BatchGuard())
    bench.ask("A", "B")
    bench.ask("A", "B")
    bench.say()
    assert [bench.ask("A", "B") for _ in range(3)] == [[None, None], [None, None], [BATCH, BATCH]]


@examples(100)
@given(st.lists(st.sampled_from(["AB", "BA", "AC", "A", "ABC", ""]), max_size=10))
def test_batches_equal_to_the_previous_two_are_blocked(replies: list[str]) -> None:
    bench, said = GatedRun(BatchGuard()), [sorted(reply) for reply in replies]
    for index, reply in enumerate(replies):
        again = len(reply) > 1 and index > 1 and said[index] == said[index - 1] == said[index - 2]
        if reply:
            assert bench.ask(*reply) == [BATCH if again else None] * len(reply)
        else:
            bench.words()


def test_minimal_policy_has_the_batch_guard_and_exempts_repeatable_tools() -> None:
    (guard,) = [
        gate for gate in Minimal(batches=4).rules(built_in("off"), repeatable=["A"]).gates if isinstance(gate, BatchGuard)
    ]
    assert (guard.batches, guard.exempt) == (4, frozenset({"A"}))
