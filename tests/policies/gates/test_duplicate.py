"""The duplicate-call guard: consecutive, frequent and alternating calls."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from gated_run import GatedRun
from hypothesis import example, given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core.messages import Image, Text, ToolCall, ToolResult
from agentnb.core.run.call_window import LONGEST
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates import Block, DuplicateGuard, judge

ROW, OFTEN, IN_TURN = "consecutive", "frequency", "alternation"


def rules(calls: str, guard: DuplicateGuard | None = None) -> list[str | None]:
    """Return the rule that blocked each call, with a reply per call."""
    return GatedRun(guard or DuplicateGuard()).one_by_one(calls)


def last_rule(calls: str, **options: object) -> str | None:
    """Return the rule that blocks the last call; the others must pass."""
    *before, last = rules(calls, DuplicateGuard(**options))  # type: ignore[arg-type]
    assert before == [None] * len(before)
    return last


# In a row


@pytest.mark.req("R1.34", "R1.38")
def test_third_and_later_identical_calls_are_blocked() -> None:
    assert rules("AAAAA") == [None, None, ROW, ROW, ROW]


@pytest.mark.req("R1.34")
@pytest.mark.parametrize("most", [2, 3, 4])
def test_number_of_consecutive_calls_is_configurable(most: int) -> None:
    assert rules("A" * (most + 1), DuplicateGuard(consecutive=most)) == [None] * (most - 1) + [ROW, ROW]


@pytest.mark.req("R1.34")
def test_different_call_in_between_resets_the_count() -> None:
    assert rules("AABAAB") == [None] * 6
    assert rules("AAABAAA") == [None, None, ROW, None, None, None, ROW]


@pytest.mark.req("R1.34", "R1.40")
def test_consecutive_calls_count_across_rounds_and_text() -> None:
    bench = GatedRun(DuplicateGuard())
    assert bench.ask("A") == [None]
    bench.words()
    assert bench.ask("A") == [None]
    bench.words()
    assert bench.ask("A") == [ROW]


@pytest.mark.req("R1.34")
def test_calls_in_one_reply_count_as_consecutive() -> None:
    assert GatedRun(DuplicateGuard()).ask("A", "A", "A", "B") == [None, None, ROW, None]


@pytest.mark.req("R1.33")
def test_reordered_or_respelled_arguments_are_the_same_call() -> None:
    spelled = [{"a": 1, "b": {"c": 2, "d": [3]}}, {"b": {"d": [3.0], "c": 2.0}, "a": 1.0}, {"b": {"c": 2, "d": [3]}, "a": 1}]
    assert GatedRun(DuplicateGuard()).one_by_one([ToolCall("A", one) for one in spelled]) == [None, None, ROW]
    assert GatedRun(DuplicateGuard()).one_by_one([ToolCall("A", one) for one in (None, {}, None)]) == [None, None, ROW]


@pytest.mark.req("R1.33")
def test_calls_with_different_arguments_are_different_calls() -> None:
    assert GatedRun(DuplicateGuard()).one_by_one([ToolCall("A", {"n": n}) for n in range(20)]) == [None] * 20


# Often


@pytest.mark.req("R1.35", "K1.2")
def test_call_making_up_four_of_last_eight_is_blocked(subtests: pytest.Subtests) -> None:
    for calls, rule in [
        ("AbAcAdA", None),  # the fourth
        ("AbAcAdAeA", OFTEN),  # the fifth, with four among the last seven
        ("AbAcAdAefA", None),  # the first of the four is the ninth back
        ("AAbAAc" + "A", OFTEN),
        ("AAbcAAde" + "A", OFTEN),  # the first is exactly the eighth back
        ("AAbcAAdef" + "A", None),
        ("AbcAdeAfgA", None),
    ]:
        with subtests.test(calls=calls, rule=rule):
            assert last_rule(calls) == rule


@pytest.mark.req("R1.35", "R1.38")
def test_frequency_and_window_are_configurable(subtests: pytest.Subtests) -> None:
    for calls, window, frequency, rule in [
        ("AbAcA", 8, 2, OFTEN),
        ("AbA", 8, 2, None),
        ("AbA", 8, 1, OFTEN),
        ("AbcA", 3, 1, OFTEN),
        ("AbcdA", 3, 1, None),
        ("AbAcA", 4, 2, OFTEN),
        ("AbAcdA", 4, 2, None),
        ("AbAcAdAeAfA", 8, 5, None),
        ("AbAcAdAeAfA", 9, 5, None),
        ("AbAcAdAeAfA", 10, 5, OFTEN),
    ]:
        with subtests.test(calls=calls, window=window, frequency=frequency, rule=rule):
            assert last_rule(calls, window=window, frequency=frequency) == rule


@pytest.mark.req("K1.3")
def test_window_contains_only_executed_calls() -> None:
    calls = "AbAcAdAe"
    assert rules(calls + "AAf") == [None] * 8 + [OFTEN, OFTEN, None]
    assert rules(calls + "AAAA" + "f" + "A") == [None] * 8 + [OFTEN, OFTEN, ROW, ROW, None, None]


@pytest.mark.req("K1.3")
def test_blocked_call_still_counts_as_consecutive() -> None:
    assert rules("AbAAAA", DuplicateGuard(frequency=1)) == [None, None, OFTEN, OFTEN, ROW, ROW]


@pytest.mark.req("K1.3", "R1.34")
def test_different_blocked_call_in_between_resets_the_count() -> None:
    """The blocked call restarts the row: the next two repeats are the second and third."""
    calls = "BBcBB" + "AA" + "B" + "AA" + "A"
    assert rules(calls) == [None] * 7 + [OFTEN] + [None, None, ROW]


# In turn


@pytest.mark.req("R1.36", "K1.2")
def test_eighth_call_in_an_alternation_is_blocked(subtests: pytest.Subtests) -> None:
    for calls, rule in [
        ("ABABAB" + "A", None),  # the seventh
        ("ABABABA" + "B", IN_TURN),
        ("ABABABA" + "C", None),
        ("CABABABA" + "B", IN_TURN),
        ("CDEABABABA" + "B", IN_TURN),
        ("BBABABA" + "B", OFTEN),
        ("ABABACA" + "B", None),
        ("ABACABA" + "B", None),
        ("CBABABA" + "B", None),
        ("ABCABCA" + "B", None),
    ]:
        with subtests.test(calls=calls, rule=rule):
            assert last_rule(calls) == rule


@pytest.mark.req("R1.36", "R1.38")
def test_alternation_is_blocked_at_the_window_length(subtests: pytest.Subtests) -> None:
    for calls, window in [("ABA" + "B", 4), ("ABABA" + "B", 6), ("AB" + "A", 3), ("ABABABABA" + "B", 10)]:
        with subtests.test(calls=calls, window=window):
            assert last_rule(calls, window=window, frequency=9) == IN_TURN
            assert last_rule(calls[1:], window=window, frequency=9) is None


@pytest.mark.req("R1.38")
def test_two_different_calls_are_allowed_with_the_smallest_window() -> None:
    assert rules("ABCBA", DuplicateGuard(window=2)) == [None] * 5


# All rules against a reference implementation


def expected(calls: str, consecutive: int, window: int, frequency: int) -> list[bool]:
    """Return whether each call is blocked, by the requirements."""
    asked: list[str] = []
    executed: list[str] = []
    blocked: list[bool] = []
    for name in calls:
        row = len(asked) - len("".join(asked).rstrip(name))
        recent, turns = executed[-window:], [*executed[-(window - 1) :], name]
        in_turn = len(turns) == window > 2 and set(turns[::2]) != set(turns[1::2]) and len({*turns}) == 2
        in_turn = in_turn and all(one != other for one, other in pairwise(turns))
        blocked.append(row >= consecutive - 1 or recent.count(name) >= frequency or in_turn)
        asked.append(name)
        if not blocked[-1]:
            executed.append(name)
    return blocked


@pytest.mark.req("R1.34", "R1.35", "R1.36", "K1.2", "K1.3")
@examples(300)
@given(st.text("ABCD", max_size=30), st.integers(2, 5), st.integers(3, 10), st.integers(1, 6))
@example("ABABABABABAB", 3, 8, 4)
@example("AABBAABBAABB", 3, 8, 4)
@example("AAAABBBBAAAA", 4, 4, 6)
@example("AAAAAA", 5, 3, 6)
def test_generated_calls_are_blocked_exactly_as_the_rules_say(calls: str, row: int, window: int, frequency: int) -> None:
    blocked = rules(calls, DuplicateGuard(row, window, frequency))
    assert [rule is not None for rule in blocked] == expected(calls, row, window, frequency)
    # With constant results, `same_result` makes no difference.
    assert rules(calls, DuplicateGuard(row, window, frequency, same_result=True)) == blocked


# Results of blocked calls


@pytest.mark.req("R1.37")
def test_blocked_call_gets_the_marker_and_its_earlier_result() -> None:
    bench = GatedRun(DuplicateGuard())
    bench.outputs["A"] = "forty-two rows"
    bench.one_by_one("AAA")
    (told,) = bench.blocks
    assert (told.call_id, told.name, told.is_error, told.error_code) == ("c3", "A", True, "duplicate_call_blocked")
    assert told.text.startswith("duplicate_call_blocked: A was not run again, because the same call was made 2 times in a row.")
    assert told.parts[-1] == Text("forty-two rows")
    assert bench.run.rounds[-1].results == (told,)


@pytest.mark.req("R1.37")
def test_blocked_call_returns_the_last_success_despite_later_failure() -> None:
    bench = GatedRun(DuplicateGuard())
    bench.outputs["A"] = "one"
    bench.ask("A")
    bench.outputs["A"] = "two"
    bench.ask("A")
    bench.ask("B")
    bench.outputs["A"], bench.failing = "no disk", {"A"}
    bench.ask("A")
    bench.one_by_one("AA")
    assert bench.blocks[0].parts[-1] == Text("two")
    assert "was: " not in bench.blocks[0].text and "The result was:" in bench.blocks[0].text


@pytest.mark.req("R1.37")
def test_blocked_call_that_only_failed_gets_its_last_error() -> None:
    bench = GatedRun(DuplicateGuard())
    bench.failing = {"A"}
    for reason in ("no disk", "no net"):
        bench.outputs["A"] = reason
        bench.ask("A")
    assert bench.ask("A") == [ROW]
    assert bench.blocks[0].parts[-1] == Text("no net")
    assert "Every attempt so far has failed" in bench.blocks[0].text


@pytest.mark.req("R1.37")
def test_result_of_a_blocked_call_is_never_repeated() -> None:
    bench = GatedRun(DuplicateGuard())
    bench.one_by_one("AAAA")
    assert [len(told.parts) for told in bench.blocks] == [2, 2]
    assert [told.parts[-1] for told in bench.blocks] == [Text("ok"), Text("ok")]


@pytest.mark.req("R1.37")
def test_duplicate_of_a_running_call_has_no_result_yet() -> None:
    bench = GatedRun(DuplicateGuard())
    bench.ask("A", "A", "A")
    assert len(bench.blocks[0].parts) == 1
    assert bench.blocks[0].text.endswith("Wait for the result of the first call.")


@pytest.mark.req("R1.37")
def test_blocked_call_repeats_text_but_not_pictures() -> None:
    bench = GatedRun(DuplicateGuard())
    bench.one_by_one("AA")
    picture = Image("image/png", b"x")
    bench.run.calls.outputs["A", b"{}"] = ToolResult("c1", "A", (Text("a plot"), picture))
    bench.ask("A")
    assert bench.blocks[0].parts[1:] == (Text("a plot"),)


@pytest.mark.parametrize(
    ("calls", "why"), [("AAA", "2 times in a row"), ("AbAcAdAeA", "4 of the last 8"), ("ABABABAB", "alternating")]
)
def test_model_is_informed_why_a_call_was_blocked(calls: str, why: str) -> None:
    bench = GatedRun(DuplicateGuard())
    bench.one_by_one(calls)
    assert re.search(why, bench.blocks[0].text)


# Options


@pytest.mark.req("R1.38")
def test_default_limits_are_three_consecutive_and_four_of_eight() -> None:
    guard = DuplicateGuard()
    assert (guard.consecutive, guard.window, guard.frequency) == (3, 8, 4)
    assert (guard.exempt, guard.same_result, guard.block_immediate_success_repeat) == (frozenset(), False, False)


def test_invalid_guard_is_refused(subtests: pytest.Subtests) -> None:
    for options in [{"consecutive": 1}, {"frequency": 0}, {"window": 1}, {"window": LONGEST + 1}, {"consecutive": -3}]:
        with subtests.test(options=options):
            with pytest.raises(SettingsError, match=re.escape(f"{next(iter(options))}={next(iter(options.values()))}")):
                DuplicateGuard(**options)  # type: ignore[arg-type]


def test_limits_accept_their_smallest_and_largest_values(subtests: pytest.Subtests) -> None:
    for options in [{"consecutive": 2}, {"frequency": 1}, {"window": 2}, {"window": LONGEST}]:
        with subtests.test(options=options):
            assert rules("AB", DuplicateGuard(**options)) == [None, None]  # type: ignore[arg-type]


@pytest.mark.req("R1.41")
def test_only_exempt_tools_may_repeat() -> None:
    guard = DuplicateGuard(exempt=["A"])  # type: ignore[arg-type]
    assert guard.exempt == frozenset({"A"})
    assert rules("A" * 12, guard) == [None] * 12
    assert rules("BBB", guard) == [None, None, ROW]
    assert rules("ABABABABAB", guard) == [None] * 7 + [IN_TURN, None, None]


@pytest.mark.req("R1.41")
def test_guard_can_count_only_repeats_with_identical_results() -> None:
    bench = GatedRun(DuplicateGuard(same_result=True))
    blocked = []
    for text in ("1", "2", "3", "3", "4"):
        bench.outputs["A"] = text
        blocked += bench.ask("A")
    assert blocked == [None, None, None, None, ROW]  # the result of the last is unknown


@pytest.mark.req("R1.41")
@pytest.mark.parametrize("window", [2, 8, LONGEST])
def test_tool_whose_results_keep_changing_may_be_called_forever(window: int) -> None:
    bench = GatedRun(DuplicateGuard(same_result=True, window=window))
    for number in range(LONGEST + 8):
        bench.outputs["A"] = str(number)
        assert bench.ask("A") == [None], number


@pytest.mark.req("R1.41")
def test_changing_results_also_reset_pattern_and_frequency_counts() -> None:
    often, turns = GatedRun(DuplicateGuard(same_result=True)), GatedRun(DuplicateGuard(same_result=True))
    for number, name in enumerate("AbAcAdAeA"):
        often.outputs["A"] = str(number)
        assert often.ask(name) == [None]
    for number, name in enumerate("ABABABABAB"):
        turns.outputs["A"] = str(number)
        assert turns.ask(name) == ([OFTEN] if number == 9 else [None])  # B returns the same
    assert rules("AbAcAdAeA", DuplicateGuard(same_result=True))[-1] == OFTEN
    assert rules("ABABABAB", DuplicateGuard(same_result=True))[-1] == IN_TURN


@pytest.mark.req("R1.41")
def test_failure_and_success_with_equal_text_are_different_results() -> None:
    bench = GatedRun(DuplicateGuard(same_result=True))
    assert bench.one_by_one("A") == [None]
    bench.failing = {"A"}
    assert bench.one_by_one("AAA") == [None, None, ROW]


@pytest.mark.req("K1.4")
def test_successful_call_may_be_repeated_unless_configured_otherwise() -> None:
    assert rules("AA") == [None, None]
    bench = GatedRun(DuplicateGuard(block_immediate_success_repeat=True))
    assert bench.one_by_one("AABA") == [None, "immediate_repeat", None, None]
    assert bench.blocks[0].error_code == "duplicate_call_blocked"


@pytest.mark.req("K1.4")
def test_failed_call_may_be_retried_immediately() -> None:
    bench = GatedRun(DuplicateGuard(block_immediate_success_repeat=True))
    bench.failing = {"A"}
    assert bench.one_by_one("AAA") == [None, None, ROW]


@pytest.mark.req("KX.8")
def test_user_message_resets_every_count() -> None:
    for calls, name in (("AA", "A"), ("AbAcAdAe", "A"), ("ABABABA", "B")):
        bench = GatedRun(DuplicateGuard())
        bench.one_by_one(calls)
        bench.say()
        assert bench.one_by_one(name + name) == [None, None]


# Several gates


def blocks(rule: str) -> object:
    return lambda call, run: Block(rule, ToolResult(call.id, call.name))


def passes(call: ToolCall, run: Run) -> None:
    return None


def test_first_blocking_gate_decides() -> None:
    call, run = ToolCall("A", {}, "1"), Run()
    assert judge([], call, run) is None
    assert judge([passes, passes], call, run) is None
    blocked = judge([passes, blocks("one"), blocks("two")], call, run)  # type: ignore[list-item]
    assert blocked is not None and blocked.rule == "one"


def test_gate_sees_the_calls_admitted_before() -> None:
    seen: list[int] = []

    def looks(call: ToolCall, run: Run) -> None:
        seen.append(len(run.calls.executed))

    GatedRun(looks).ask("A", "B", "C")
    assert seen == [0, 1, 2]
