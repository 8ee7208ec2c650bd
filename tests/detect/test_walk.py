"""The walk over the rounds of a run, and its shadow."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_builder import RunBuilder, Story, guidance_of, todo
from scripted_runs import look

from agentnb import Agent, ToolCall
from agentnb.core.log import events as e
from agentnb.detect import Run, ShadowRun, walk_rounds
from agentnb.detect.walk import run_before
from agentnb.models import ScriptedModel


def a_run() -> Run:
    replies = [[ToolCall("look"), ToolCall("look")], ToolCall("nowhere"), "Hm.", ToolCall("look"), "Three rows."]
    return asyncio.run(Agent(ScriptedModel(replies), tools=[look]).run("How many rows?"))


def test_walk_yields_each_event_once_and_in_order() -> None:
    run = a_run()
    walked = [event for one in walk_rounds(run) for event in (*one.before, one.start, *one.prepared, *one.answered)]
    assert walked == [*run.events][: len(walked)]
    assert not any(isinstance(event, e.RoundStarted | e.ModelReplied) for event in run.events[len(walked) :])
    assert [one.start.index for one in walk_rounds(run)] == [round_.index for round_ in run.rounds]
    assert [one.guidance for one in walk_rounds(run)] == [round_.guidance for round_ in run.rounds]


def test_interrupted_round_is_walked_too() -> None:
    run = a_run()
    for length in range(1, len(run.events)):
        cut = Run.from_events(run.events[:length])
        assert len([*walk_rounds(cut)]) == len(cut.rounds)


def test_run_before_a_round_is_what_its_policies_saw() -> None:
    run = a_run()
    for one in walk_rounds(run):
        before = run_before(run, one)
        assert (len(before.rounds), before.open_round) == (one.start.index, None)
        assert before.events == run.events[: one.start.seq]


def shadow_of(run: Run, **other: str) -> Run:
    """Rebuild the run, optionally with another reason for every round that has one."""
    shadow = ShadowRun()
    for one in walk_rounds(run):
        shadow.open_round(one, reason=other.get(one.start.reason))
        shadow.guide(one.guidance)
        shadow.close_round(one)
    return shadow.run


@given(st.lists(st.sampled_from(["call", "text", "two", "bad"]), min_size=1, max_size=6))
@examples(20)
def test_unchanged_shadow_equals_the_run(rounds: list[str]) -> None:
    story = Story(todo(1))
    for kind in rounds:
        if kind == "text":
            story.said("Hm.", guidance_of("todos_text"))
        else:
            names = ["look", "see"] if kind == "two" else ["look"]
            story.called(*names, guidance=(guidance_of("todos_tools"),), is_error=kind == "bad")
    shadow = shadow_of(story.run)
    assert [*shadow.rounds] == [*story.run.rounds] and shadow.judged == story.run.judged
    assert [*shadow.messages] == [*story.run.messages]


def test_shadow_has_its_own_guidance_but_recorded_replies() -> None:
    recorded = RunBuilder("Go").round("Hm.").round("Hm.", reason="open_todos", guidance=(guidance_of("intervention"),))
    shadow = ShadowRun()
    for one in walk_rounds(recorded.run):
        shadow.open_round(one, reason="asked_again" if one.start.index else None, round_status="")
        shadow.guide([guidance_of("tools")] if one.start.index else [])
        shadow.close_round(one)
    was, would_be = recorded.run.rounds[1], shadow.run.rounds[1]
    assert (was.followed[0].followed, would_be.followed[0].followed) == (False, True)
    assert (was.reply, was.records) == (would_be.reply, would_be.records)
    assert shadow.run.judged.reasons.in_run == {"prompt": 1, "asked_again": 1}
    assert [round_.status for round_ in shadow.run.rounds] == ["success", "success"]


@pytest.mark.req("R0.23")
def test_policies_read_the_shadow_like_any_run() -> None:
    recorded = a_run()
    shadow = ShadowRun()
    for one in walk_rounds(recorded):
        shadow.open_round(one)
        live = run_before(recorded, one)
        assert shadow.run.last_round_had_tool_results == live.last_round_had_tool_results
        shadow.close_round(one)
