"""The last calls of a run: equality, executed calls, and consecutive repeats."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_builder import Story
from some_events import json_objects

from agentnb.core.log.events import CommandReceived
from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run.call_window import LONGEST, CallWindow, call_key
from agentnb.core.todos import TODO_TOOL


def key(arguments: Any, name: str = "look") -> tuple[str, bytes]:
    return call_key(ToolCall(name, arguments, "any"))


def shuffled(value: Any, seed: int) -> Any:
    """Return the same JSON with object keys in another order."""
    if isinstance(value, dict):
        names = list(value)
        random.Random(seed).shuffle(names)
        return {name: shuffled(value[name], seed) for name in names}
    return [shuffled(item, seed) for item in value] if isinstance(value, list) else value


@pytest.mark.req("R1.33")
def test_missing_null_and_empty_arguments_are_equal() -> None:
    assert key({}) == key(None) == call_key(ToolCall("look"))


@pytest.mark.req("R1.33")
@given(json_objects, st.integers(0, 99))
def test_order_of_keys_is_ignored_at_any_depth(arguments: dict[str, Any], seed: int) -> None:
    nested = {"deep": [arguments, {"x": arguments}], **arguments}
    assert key(nested) == key(shuffled(nested, seed))


@pytest.mark.req("R1.33")
@given(st.integers(-(2**53), 2**53))
def test_integer_and_integral_float_are_equal(number: int) -> None:
    assert key({"n": float(number)}) == key({"n": number})
    assert key({"a": [{"n": float(number), "b": [float(number)]}]}) == key({"a": [{"n": number, "b": [number]}]})


@pytest.mark.req("R1.33")
def test_different_json_is_a_different_call(subtests: pytest.Subtests) -> None:
    cases = [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": 1.5}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": None}, {}),
        ({"a": None}, {"a": "null"}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": [1]}, {"a": 1}),
        ({"a": "x"}, {"a": "X"}),
        ({"a": "1.0,"}, {"a": "1,"}),
        ({"a": "1.0]", "b": 2.0}, {"a": "1]", "b": 2}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": None}}),
    ]
    for one, other in cases:
        with subtests.test(one=one, other=other):
            assert key(one) != key(other)


@pytest.mark.req("R1.33")
def test_different_tools_are_different_calls_and_ids_are_ignored() -> None:
    assert key({"a": 1}) != key({"a": 1}, "see")
    assert call_key(ToolCall("look", {"a": 1}, "1")) == call_key(ToolCall("look", {"a": 1}, "2"))


def test_non_object_arguments_have_a_comparison_key(subtests: pytest.Subtests) -> None:
    for careless in ["text", 5, [1, {"b": 2.0, "a": 1}], True]:
        with subtests.test(careless=careless):
            assert key(careless) == key(careless) != key({})


class Calls:
    """A window, and calls by name with generated ids."""

    def __init__(self) -> None:
        self.window = CallWindow()
        self.count = 0

    def call(self, name: str) -> ToolCall:
        self.count += 1
        return ToolCall(name, {}, f"c{self.count}")

    def start(self, name: str) -> ToolCall:
        call = self.call(name)
        self.window.record_start(call)
        return call

    def end(self, call: ToolCall, text: str = "ok", is_error: bool = False) -> None:
        self.window.record_result(ToolResult(call.id, call.name, (Text(text),), is_error))

    def run(self, *names: str, text: str = "ok", is_error: bool = False) -> None:
        for name in names:
            self.end(self.start(name), text, is_error)

    def block(self, name: str) -> None:
        self.window.note_block(self.call(name))

    @property
    def names(self) -> list[str]:
        return [call.key[0] for call in self.window.executed]

    def output(self, name: str) -> str:
        return self.window.outputs[name, b"{}"].text


@pytest.mark.req("R1.34")
def test_streak_counts_consecutive_requests_for_the_latest_call() -> None:
    calls = Calls()
    assert (calls.window.row, calls.window.row_key) == (0, None)
    rows = []
    for name in "AAABAA":
        calls.run(name)
        rows.append(calls.window.row)
    assert rows == [1, 2, 3, 1, 1, 2]
    assert calls.window.row_key == ("A", b"{}")


@pytest.mark.req("K1.3")
def test_blocked_call_extends_the_streak_but_is_not_executed() -> None:
    calls = Calls()
    calls.run("A", "A")
    calls.block("A")
    assert (calls.window.row, calls.names) == (3, ["A", "A"])
    calls.block("B")
    assert (calls.window.row, calls.window.row_key, calls.names) == (1, ("B", b"{}"), ["A", "A"])


def test_call_counts_as_soon_as_it_is_admitted() -> None:
    calls = Calls()
    calls.start("A")
    assert (calls.window.row, calls.names, calls.window.results, calls.window.outputs) == (1, ["A"], {}, {})


@pytest.mark.req("R1.35")
def test_window_keeps_a_limited_number_of_calls_and_results() -> None:
    calls = Calls()
    calls.run(*[f"t{n}" for n in range(LONGEST)])
    assert (len(calls.names), calls.names[0]) == (LONGEST, "t0")
    calls.run("one more")
    assert (len(calls.names), calls.names[0], calls.names[-1]) == (LONGEST, "t1", "one more")
    assert set(calls.window.results) == {call.call_id for call in calls.window.executed}


@pytest.mark.req("R1.37")
def test_output_is_the_last_success_or_otherwise_the_last_failure() -> None:
    calls = Calls()
    calls.run("A", text="no", is_error=True)
    assert calls.output("A") == "no"
    calls.run("A", text="still no", is_error=True)
    assert calls.output("A") == "still no"
    calls.run("A", text="one")
    assert calls.output("A") == "one"
    calls.run("A", text="two")
    calls.run("A", text="broken", is_error=True)
    assert calls.output("A") == "two"


def test_results_belong_to_their_call_in_any_order() -> None:
    calls = Calls()
    one, two = calls.start("A"), calls.start("B")
    calls.end(two, "of B")
    calls.end(one, "of A")
    assert (calls.output("A"), calls.output("B")) == ("of A", "of B")


def test_result_of_a_call_that_never_ran_is_not_output() -> None:
    calls = Calls()
    calls.block("A")
    calls.end(ToolCall("A", {}, "c1"), "cancelled", is_error=True)
    assert (calls.window.results, calls.window.outputs) == ({}, {})


@pytest.mark.req("KX.8")
def test_user_message_empties_the_window_and_keeps_outputs() -> None:
    calls = Calls()
    calls.run("A", "A")
    calls.window.clear()
    window = calls.window
    assert (calls.names, window.row, window.row_key, window.results) == ([], 0, None, {})
    assert calls.output("A") == "ok"
    calls.run("A")
    assert calls.window.row == 1


def test_windows_with_equal_contents_are_equal() -> None:
    one, other = Calls(), Calls()
    one.run("A", "B")
    other.run("A", "B")
    assert one.window == other.window
    other.block("B")
    assert one.window != other.window and one.window != "AB"
    with pytest.raises(TypeError):
        hash(one.window)


@pytest.mark.req("R1.40")
def test_run_keeps_calls_over_all_rounds_until_a_user_message() -> None:
    tale = Story().called("look").said("Hm.").called("look", text="seen").refused("look")
    assert [call.key[0] for call in tale.run.calls.executed] == ["look", "look"]
    assert tale.run.calls.row == 3
    assert tale.run.calls.outputs["look", b"{}"].text == "seen"
    tale.heard()
    assert (list(tale.run.calls.executed), tale.run.calls.row) == ([], 0)


@pytest.mark.req("KX.8")
@pytest.mark.parametrize("command", ["pause", "resume"])
def test_only_user_messages_empty_the_window_of_a_run(command: str) -> None:
    tale = Story().called("look").add(CommandReceived, command=command)
    assert tale.run.calls.row == 1


@pytest.mark.req("R0.46")
def test_external_todo_change_is_not_a_call() -> None:
    tale = Story().called("look").listed(by="outside").said()
    assert [call.key[0] for call in tale.run.calls.executed] == ["look"]
    assert TODO_TOOL not in {call.name for round_ in tale.run.rounds for call in round_.calls}
