"""Events without a display of their own: one line each, among the notes of their round."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from property_settings import examples
from run_builder import RunBuilder, a_round, called
from some_events import of_kind

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.texts.event_lines import MAX_LINE_CHARACTERS, MAX_LINES, SHOWN, AlsoHappened, event_line

Fact = tuple[type[e.Event], dict[str, Any]]
LINES: dict[str, Fact] = {
    "step load (Load it) began": (w.StepStarted, {"step": "load", "title": "Load it"}),
    "step load began, iteration 2": (w.StepStarted, {"step": "load", "iteration": 2}),
    "step load: attempt 2 failed: no file": (w.StepAttempted, {"step": "load", "attempt": 2, "error": "no file"}),
    "step load skipped: n > 2": (w.StepSkipped, {"step": "load", "reason": "n > 2"}),
    "step load completed in 1.5 s": (w.StepFinished, {"step": "load", "seconds": 1.5}),
    "step load failed: no file": (w.StepFinished, {"step": "load", "status": "failed", "error": "no file", "seconds": None}),
    "step a continues with b: n > 2": (w.BranchTaken, {"step": "a", "to": "b", "reason": "n > 2"}),
    "plan p: 2 steps": (w.PlanProposed, {"plan_id": "p", "plan": {"steps": [1, 2]}}),
    "plan p edited by person": (w.PlanEdited, {"plan_id": "p", "plan": {}}),
    "plan p approved by person": (w.PlanApproved, {"plan_id": "p"}),
    "plan p rejected by person: “No! Do not run it”": (w.PlanRejected, {"plan_id": "p", "words": "No! Do not run it"}),
    "plan p rejected by policy: too long": (w.PlanRejected, {"plan_id": "p", "by": "policy", "reason": "too long"}),
    "plan p reviewed: good: brief": (w.PlanReviewed, {"plan_id": "p", "verdict": "good", "notes": "brief"}),
    "model call for judge by openai:x · 12 tokens · $0.5000 · 2.0 s": (
        w.ModelCalled,
        {"operation": "judge", "model": "openai:x?url=y", "usage": Usage(10, 2, cost=0.5), "seconds": 2.0},
    ),
    "model call for planner failed: overloaded": (
        w.ModelCalled,
        {"operation": "planner", "error": "overloaded", "seconds": None},
    ),
    "tools from now on: look, work (a file came)": (
        w.ToolsChanged,
        {"tools": (ToolSpec("look"), ToolSpec("work")), "reason": "a file came"},
    ),
    "tools from now on: none": (w.ToolsChanged, {"tools": ()}),
    "connecting to the MCP server fs: fs-server /srv": (w.ServerStarted, {"server": "fs", "target": "fs-server /srv"}),
    "MCP server fs: is now fs-server /, before: fs-server /srv; changed since first seen: mcp_fs_read": (
        w.ServerChanged,
        {
            "server": "fs",
            "target": "fs-server /",
            "is_other": True,
            "target_before": "fs-server /srv",
            "tools": ("mcp_fs_read",),
        },
    ),
    "nudge: It repeats itself (rounds 1 to 3)": (
        w.FindingMade,
        {"rule": "r", "family": "loops", "first": 0, "last": 2, "severity": "nudge", "sentence": "It repeats itself"},
    ),
    "notice: same call (round 1)": (w.FindingMade, {"rule": "same_call", "family": "loops", "first": 0, "last": 0}),
    "guidance brief drawn, with a probability of 0.25": (w.GuidanceDrawn, {"set": "brief", "propensity": 0.25}),
    "all calls of write allowed": (w.GrantGiven, {"grant_id": "q1", "tool": "write"}),
    "all tools of the MCP server fs allowed": (w.GrantGiven, {"grant_id": "q1", "tool": "mcp_fs_read", "rule": "mcp:fs"}),
    "grant q1 withdrawn": (w.GrantWithdrawn, {"grant_id": "q1"}),
    "reply without a model": (w.ReplyGiven, {"message": Message("assistant", (Text("What now?"),))}),
    "context review, on p-1: asked": (w.ContextShifted, {"context_type": "review", "entity": "p-1", "reason": "asked"}),
    'weather turned: {"sky":"clear"}': (w.OtherEvent, {"name": "weather_turned", "data": {"sky": "clear"}}),
    "weather turned": (w.OtherEvent, {"name": "weather_turned"}),
    "suspended, since nobody could answer here; your answer resumes it": (e.RunSuspended, {"why": "nobody_here"}),
    "suspended, since you chose Later; your answer resumes it": (e.RunSuspended, {"why": "asked"}),
    "ended at its question: without a store, the run cannot wait for an answer": (
        e.RunSuspended,
        {"why": e.NO_STORE},
    ),
    "log from elsewhere: you accepted its approvals and answers as yours": (
        e.RunRecovered,
        {"schema": e.SCHEMA, "consent": "taken"},
    ),
}


def test_each_kind_of_event_has_its_own_line(subtests: pytest.Subtests) -> None:
    assert {kind for kind, _ in LINES.values()} == SHOWN
    for line, (kind, fields) in LINES.items():
        with subtests.test(line):
            assert event_line(kind(seq=1, at=None, run_id="r-1", **fields)) == line  # type: ignore[arg-type]


def test_line_of_a_suspension_says_its_end(subtests: pytest.Subtests) -> None:
    suspended = e.RunSuspended(seq=1, at=None, run_id="r", why="nobody_here")
    recovered = e.RunRecovered(seq=2, at=None, run_id="r", schema=e.SCHEMA)
    question = e.QuestionAsked(seq=3, at=None, run_id="r", question=WaitingOnUser("approval", "May I?", {}, "q2"))
    answers = {
        "suspended, then answered: approve": {"answer": "approve"},
        "suspended, then answered: declined": {"declined": True},
        "suspended, then resumed": {"withdrawn": True},
    }
    for line, fields in answers.items():
        with subtests.test(line):
            answered = e.QuestionAnswered(seq=4, at=None, run_id="r", question_id="q1", **fields)  # type: ignore[arg-type]
            assert AlsoHappened([suspended, recovered, answered]).during(0) == [line]
            later = AlsoHappened([suspended, recovered, question, answered])
            assert later.during(0) == ["suspended, then resumed"], "a question asked after the suspension"
    assert AlsoHappened([suspended]).during(0) == [event_line(suspended)]


def test_line_of_a_waiting_call_is_omitted_from_cards() -> None:
    waits = e.ToolAdmitted(seq=1, at=None, run_id="r", call=ToolCall("work", {}, "c"), reason="for the person")
    assert event_line(waits) == "call of work is waiting: for the person" and e.ToolAdmitted not in SHOWN


def test_tool_change_event_states_what_changed(subtests: pytest.Subtests) -> None:
    look, work, other = ToolSpec("look"), ToolSpec("work"), ToolSpec("work", "does more")
    many = tuple(ToolSpec(f"mcp_bench_{number}") for number in range(200))
    cases = {
        "tools added: work (MCP servers)": ((look,), (look, work)),
        "tools removed: look (MCP servers)": ((look, work), (work,)),
        "tools changed: work (MCP servers)": ((look, work), (look, other)),
        "tools added: look; removed: work (MCP servers)": ((work,), (look,)),
        "tools from now on: look (MCP servers)": ((look,), (look,)),
        "tools added: mcp_bench_0, mcp_bench_1, mcp_bench_2, mcp_bench_3 and 196 more (MCP servers)": ((look,), (look, *many)),
    }
    for line, (before, after) in cases.items():
        with subtests.test(line):
            story = RunBuilder(tools=before).add(w.ToolsChanged, tools=after, reason="mcp_servers")
            assert AlsoHappened(story.run.events).during(0) == [line]
    turns = RunBuilder(tools=(look,)).add(w.ToolsChanged, tools=(work,)).add(w.ToolsChanged, tools=(other,))
    lines = ["tools added: work; removed: look", "tools changed: work"]
    assert AlsoHappened(turns.run.events).during(0) == lines, "each is compared with its predecessor"


@examples(100)
@given(st.one_of(*of_kind.values()))
def test_event_text_is_one_short_line_without_control_characters(event: Any) -> None:
    line = event_line(event)
    assert len(line) <= MAX_LINE_CHARACTERS and "\n" not in line
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line)
    says_nothing = type(event) not in SHOWN or (isinstance(event, e.RunRecovered) and not event.consent)
    assert bool(line) or says_nothing


# Where they are shown


BEGAN: Fact = (w.StepStarted, {"step": "load"})
TURNED: Fact = (w.OtherEvent, {"name": "weather_turned", "data": {"sky": "<b>clear</b>"}})


def some_run(*facts: Fact, over: bool = True) -> Run:
    """Return a run of two rounds, with these events in the first."""
    story = RunBuilder().extend(*a_round(0, called("look"), facts=facts), *a_round(1, "Done."))
    return story.add(e.RunFinished, status="completed", stop_reason="natural").run if over else story.run


def plain(html: str) -> str:
    return re.sub("<[^>]*>", "\n", html)


def test_event_lines_appear_in_their_round_in_every_form(subtests: pytest.Subtests) -> None:
    run = some_run(BEGAN, TURNED)
    card = LiveCard()
    for event in run.events:
        card.take(event)
    whole = card.whole()
    forms = {
        "saved": run_html(run),
        "page": page_html(run),
        "text": run_text(run),
        "live": "".join(whole["rounds"][0]["html"].values()),
    }
    for name, shown in forms.items():
        with subtests.test(name):
            assert "step load began" in shown and "weather turned" in shown
            assert "<b>clear" not in shown or name == "text"
    assert "step load began" not in "".join(whole["rounds"][1]["html"].values()) + str(whole["slots"])


def test_run_without_rounds_shows_event_lines(subtests: pytest.Subtests) -> None:
    run = RunBuilder().extend(BEGAN, TURNED).run
    card = LiveCard()
    for event in run.events:
        card.take(event)
    forms = {"saved": run_html(run), "page": page_html(run), "text": run_text(run), "live": card.whole()["slots"]["notes"]}
    for name, shown in forms.items():
        with subtests.test(name):
            assert "step load began" in shown


def test_running_round_shows_event_lines_as_they_arrive() -> None:
    card = LiveCard()
    story = RunBuilder().extend(*a_round(0, called("look"))[:1])
    for event in story.events:
        card.take(event)
    card.frame()
    card.take(w.StepStarted(seq=2, at=None, run_id=story.run.id, step="load"))
    frame = card.frame()
    assert frame is not None and "step load began" in frame["rounds"][0]["html"]["also"]


def test_many_event_lines_are_folded_and_bounded() -> None:
    run = some_run(*[(w.StepSkipped, {"step": f"s{number}"}) for number in range(MAX_LINES + 5)])
    html = run_html(run)
    assert f"{MAX_LINES + 1} other events" in html and f"s{MAX_LINES - 1} skipped" in html
    assert f"s{MAX_LINES} skipped" not in html and "and 5 more events: see tables.events for all" in html
    assert AlsoHappened(run.events).during(1) == []
    few = run_html(some_run(BEGAN))
    assert "other event" not in few and "step load began" in few


def test_answer_only_round_is_shown_if_it_has_event_lines() -> None:
    facts = a_round(0, "Done.", facts=[BEGAN])
    run = RunBuilder().extend(*facts).add(e.RunFinished, status="completed", stop_reason="natural").run
    assert "step load began" in run_html(run)


# Authors


def test_message_author_is_shown(subtests: pytest.Subtests) -> None:
    story = RunBuilder().extend(*a_round(0, called("look")))
    story.add(e.RoundStarted, index=1, reason="tool_results")
    message = Message("assistant", (Text("I looked."),), author="Web<b>Surfer")
    story.add(e.ModelReplied, message=message).add(e.RoundFinished, index=1, status="success")
    forms = {"saved": run_html(story.run), "page": page_html(story.run), "text": run_text(story.run)}
    for name, shown in forms.items():
        with subtests.test(name):
            assert ("Web<b>Surfer: I looked." if name == "text" else "Web&lt;b&gt;Surfer") in shown
    assert "Surfer" in running_html(story.run)


def test_prompt_author_is_shown_on_page_and_in_request_view() -> None:
    asked = Message("user", (Text("Look."),), author="Anna & Bert")
    first = RunBuilder().run.events[0]
    run = Run.from_events([replace(first, prompt=asked)])  # type: ignore[list-item]
    story = RunBuilder()
    story.run = run
    story.extend(*a_round(0, "Done."))
    for shown in (page_html(run), compact_html(run)):
        assert "Anna &amp; Bert: Look." in re.sub("<[^>]*>", "", shown)
    assert "1 · user · Anna &amp; Bert" in page_html(run)


def test_run_text_has_each_event_line_once() -> None:
    for run in (some_run(BEGAN), some_run(BEGAN, over=False), RunBuilder().extend(BEGAN).run):
        assert run_text(run).count("step load began") == 1
