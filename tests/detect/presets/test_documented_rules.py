"""Presets match the documentation of their projects: threshold, value below it, and exemptions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from run_builder import Calls

from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.messages import Text, ToolCall
from agentnb.detect import presets
from agentnb.detect.blocks import Monologue, PlanningOnly, RepeatedCall, RepeatedThought
from agentnb.errors import SettingsError

Tell = Callable[[int], Calls]
WORDS = "The quick brown fox jumps over the lazy dog and runs far away from here. "


def same(count: int, **how: object) -> Calls:
    story = Calls()
    for _ in range(count):
        story.call("look", **how)  # type: ignore[arg-type]
    return story


def replies(count: int) -> Calls:
    story = Calls()
    for number in range(count):
        story.reply(f"Something quite different, number {number}")
    return story


def in_turn(*names: str) -> Tell:
    def tell(count: int) -> Calls:
        story = Calls()
        for number in range(count):
            story.call(names[number % len(names)])
        return story

    return tell


def batches(count: int) -> Calls:
    story = Calls()
    for _ in range(count):
        story.batch("a", "b")
    return story


def new_calls(count: int) -> Calls:
    story = Calls()
    for number in range(count):
        story.call("look", text=str(number), n=number)
    return story


def many_steps(count: int) -> Calls:
    """Build rounds with a different tool each time."""
    story = Calls()
    for number in range(count):
        story.call(f"tool{number}", text=str(number))
    return story


def compacted(count: int) -> Calls:
    story = Calls().call()
    for _ in range(count):
        story.add(e.ContextCompacted, why="automatic", compacted=Compacted(1, 2, 1))
    return story


def reading(count: int) -> Calls:
    """Build one writing call, followed by different reading calls."""
    story = Calls().call("write")
    for number in range(count):
        story.call(f"read_{'abcdefghijklmnop'[number]}", n=number)
    return story


def same_name(count: int) -> Calls:
    return new_calls(count)


def invalid(count: int) -> Calls:
    story = Calls()
    for number in range(count):
        story.call("look", error="invalid_arguments", n=number)
    return story


def thoughts(count: int) -> Calls:
    story = Calls()
    for number in range(count):
        story.call(f"tool{number}", thought="I should look at the file first.")
    return story


def failing(count: int) -> Calls:
    story = Calls()
    for number in range(count):
        story.call(f"tool{number}", text=f"no {number}", error="tool_error")
    return story


def chunks(count: int) -> Calls:
    return Calls().reply("".join(f"{WORDS[:60]}{'xy'[n % 2]}" for n in range(count)))


DOCUMENTED: list[tuple[str, str, int, Tell]] = [
    ("openhands", "repeated_action_observation", 4, same),
    ("openhands", "repeated_action_error", 3, lambda n: same(n, error="tool_error")),
    ("openhands", "monologue", 3, replies),
    ("openhands", "alternating", 6, in_turn("a", "b")),
    ("openhands", "round_limit", 500, many_steps),
    ("openhands_v0", "repeated_action_observation", 4, same),
    ("openhands_v0", "repeated_action_error", 3, lambda n: same(n, error="tool_error")),
    ("openhands_v0", "monologue", 3, replies),
    ("openhands_v0", "alternating", 6, in_turn("a", "b")),
    ("openhands_v0", "condensations", 10, compacted),
    ("gemini", "cycle", 5, same),
    ("gemini", "cycle", 10, in_turn("a", "b")),
    ("gemini", "cycle", 25, in_turn("a", "b", "c", "d", "e")),
    ("gemini", "repeated_chunk", 10, chunks),
    ("gemini", "round_limit", 100, many_steps),
    ("qwen", "repeated_call", 5, same),
    ("qwen", "repeated_chunk", 10, chunks),
    ("qwen", "repeated_thought", 3, thoughts),
    ("qwen", "mostly_reading", 8, reading),
    ("qwen", "same_tool", 8, same_name),
    ("qwen", "invalid_retries", 3, invalid),
    ("cline", "repeated_call", 3, same),
    ("cline", "mistakes", 3, failing),
    ("roo", "repeated_call", 4, same),
    ("roo", "mistakes", 2, replies),
    ("opencode", "doom_loop", 3, same),
    ("crush", "frequent_step", 6, same),
    ("sam", "repeated_batch", 3, batches),
    ("sam", "round_limit", 240, many_steps),
    ("agently", "repeated_call", 3, same),
    ("agently", "alternating", 8, in_turn("a", "b")),
    ("agently", "frequent_call", 9, in_turn("a", "b")),
    ("langgraph_25", "round_limit", 25, many_steps),
    ("smolagents", "round_limit", 20, many_steps),
    ("magentic_one", "round_limit", 20, many_steps),
    ("naive_row", "repeated_call", 3, same),
    ("naive_window", "frequent_call", 4, same),
    ("naive_turns", "alternating", 4, in_turn("a", "b")),
    ("naive_texts", "repeated_text", 2, lambda n: [s := Calls(), [s.reply(WORDS) for _ in range(n)]][0]),  # type: ignore[return-value]
]


def test_preset_fires_at_its_threshold_and_not_before(subtests: pytest.Subtests) -> None:
    for name, rule, threshold, tell in DOCUMENTED:
        with subtests.test(preset=name, rule=rule, threshold=threshold):
            assert rule not in tell(threshold - 1).rules(name)
            assert rule in tell(threshold).rules(name)


def test_every_enabled_preset_is_tested_against_its_documentation() -> None:
    assert {name for name, *_ in DOCUMENTED} | {"default", "default_without_texts", "goose", "langgraph", "deepeval"} == {
        *presets.names()
    }
    assert presets.preset("goose") == ()
    assert presets.describe("langgraph").rules[0][1]["most"] == 10_007


def test_preset_has_a_source_and_thresholds_as_data() -> None:
    for name in presets.names():
        known = presets.describe(name)
        assert known.source.project and known.about and len(presets.preset(name)) == len(known.rules)
    assert presets.describe("gemini").source == ("Gemini CLI", "0.61.0", "loopDetectionService.js")
    assert presets.describe("gemini").rules[0][1]["times"] == 5


def test_unknown_preset_is_refused_with_a_similar_name() -> None:
    with pytest.raises(SettingsError, match="openhands"):
        presets.preset("openhand")


def severities(story: Calls, name: str, rule: str) -> list[str]:
    return [one.severity for one in story.found(name) if one.rule == rule]


def test_severities_match_the_actions_of_the_original_projects() -> None:
    assert severities(same(4, error="tool_error"), "openhands", "repeated_action_error") == ["nudge", "stop"]
    assert severities(same(5), "cline", "repeated_call") == ["notice", "notice", "stop"]
    assert severities(same(10), "gemini", "cycle") == ["nudge", "stop"]  # feedback first, then the end
    assert severities(same(4), "roo", "repeated_call") == ["block"]
    assert severities(many_steps(300), "sam", "round_limit") == ["notice", "stop"]  # it asks at 80 per cent


def test_only_our_preset_finds_loops_with_reworded_thoughts() -> None:
    story = Calls()
    for number in range(6):
        story.call(thought=f"Try {number}")
    assert story.rules("openhands") == [] and story.rules("default") == ["nothing_new"]


def test_openhands_and_crush_require_equal_results(subtests: pytest.Subtests) -> None:
    story = Calls()
    for number in range(12):
        story.call("poll", text=f"{number} per cent")
    for name, finds in (("openhands", False), ("crush", False), ("opencode", True), ("cline", True), ("gemini", True)):
        with subtests.test(name):
            assert bool(story.rules(name)) == finds


def test_key_order_matters_for_gemini_and_not_for_cline() -> None:
    story = Calls()
    for number in range(5):
        arguments = {"a": 1, "b": 2} if number % 2 else {"b": 2, "a": 1}
        story.round(ToolCall("look", arguments))
    assert story.rules("gemini") == [] and story.rules("cline") == ["repeated_call"]


def test_user_message_ends_a_streak_in_every_preset(subtests: pytest.Subtests) -> None:
    for name, rule, threshold, tell in DOCUMENTED:
        if rule not in ("round_limit", "condensations", "repeated_chunk", "mostly_reading"):
            with subtests.test(preset=name, rule=rule):
                story = tell(threshold - 1).say("Please go on with something else now")
                index = story.round_count
                story.extend(*[(type(event), _fields(event, index)) for event in tell(1).events[1:]])
                assert rule not in story.rules(name)


def _fields(event: e.AnyEvent, index: int) -> dict[str, object]:
    of_all = ("seq", "at", "run_id", "parent_id")
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in of_all}
    return {**fields, "index": index} if "index" in fields else fields


def test_qwen_counts_reading_only_after_another_call() -> None:
    story = Calls()
    for number in range(15):
        story.call(f"read_{'abcdefghijklmnop'[number]}", n=number)
    assert "mostly_reading" not in story.rules("qwen")


def test_code_lists_and_tables_are_not_repeated_text() -> None:
    for text in ("```\n" + WORDS * 20 + "\n```", "".join(f"- {WORDS}\n" for _ in range(20)), f"| {WORDS.strip()} |\n" * 20):
        assert Calls().reply(text).rules("gemini") == []
    assert Calls().reply(WORDS * 20).rules("gemini") == ["repeated_chunk"]


def test_chunks_far_apart_are_not_repeated_text() -> None:
    filler = [" ".join(str(1_000 * n + k) for k in range(75)) for n in range(1, 13)]
    assert Calls().reply("".join(WORDS + one for one in filler)).rules("gemini") == []


def test_sam_finds_a_repeated_part_of_the_previous_batch() -> None:
    assert Calls().batch("a", "b").batch("a", "b").batch("a").rules("sam") == ["repeated_batch"]
    assert Calls().batch("a", "b").batch("a", "b").batch("a", "c").rules("sam") == []


def test_gemini_preset_limits_turns() -> None:
    story = many_steps(60).say()
    for number in range(60):
        story.call(f"later{number}", text=str(number))
    assert story.rules("gemini") == []


def test_deepeval_preset_weighs_calls_texts_and_cycles() -> None:
    story = Calls()
    for _ in range(6):
        story.call()
    assert story.rules("deepeval") == []  # calls alone take 0.40 of the score
    story.reply(WORDS).reply(WORDS)
    found = story.found("deepeval")
    assert [(one.rule, one.last) for one in found] == [("loop_score", 7)]
    assert found[0].evidence == {"calls": 0.0, "texts": 0.0, "cycles": 1.0}


def test_threshold_is_any_number_or_a_ladder(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, list[str]]] = {
        "numpy": (np.int64(3), ["monologue"]),
        "decimal": (3.0, ["monologue"]),
        "never": (math.inf, []),
        "ladder": ({2: "nudge", 3: "stop"}, ["monologue"]),
    }
    for name, (times, found) in cases.items():
        with subtests.test(name):
            assert replies(3).rules(partial(Monologue, times)) == found
    assert PlanningOnly(math.inf).times == {math.inf: "nudge"}  # type: ignore[arg-type, comparison-overlap]
    for detector in (Monologue(2), RepeatedThought(2)):
        assert (detector.times, detector.severity) == ({2: "stop"}, "stop")


def test_goose_denies_calls_beyond_its_limit() -> None:
    assert same(3).rules(lambda: RepeatedCall(4)) == [] and same(4).rules(lambda: RepeatedCall(4)) == ["repeated_call"]


def test_multipart_texts_are_one_reply() -> None:
    story = Calls().round(Text(WORDS[:40]), Text(WORDS[40:])).round(Text(WORDS))
    assert story.rules("naive_texts") == ["repeated_text"]
