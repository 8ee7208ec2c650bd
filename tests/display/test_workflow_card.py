"""The card of a workflow's run, finished and live."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import pytest
from asserted_sentences import Snapshot
from drawn_workflows import BRANCH, LOOP, NESTED, ONCE_AROUND, finished, spec_of, started, taken, workflow_run
from run_builder import run_of
from shown_words import words_in
from virtual_time import VirtualTimeLoop

from agentnb import Agent, Run
from agentnb.core.log.events import QuestionAnswered, QuestionAsked, RunSuspended, TextDelta
from agentnb.core.messages import Message, Text
from agentnb.core.questions import WaitingOnUser
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.card.workflow_card import steps_html
from agentnb.display.defaults import MAX_STEPS
from agentnb.display.form import Form
from agentnb.display.parts.step_list import FIRST, step_rows
from agentnb.errors import WorkflowError
from agentnb.models import Reply
from agentnb.runtime.host.host import Beginning, Host, use_host
from agentnb.workflow.workflow import Workflow

QUESTION = WaitingOnUser("human_step", "Publish?", {"type": "boolean"}, "q1", "approve")
FAILED = (
    started("outer", "parallel"),
    started("outer/generator", agent="generator", nested="run-of-generator"),
    finished("outer/generator", output="A **bold** claim."),
    started("outer/inner", "parallel"),
    started("outer/inner/researcher", agent="researcher"),
    finished("outer/inner/researcher", "failed", error="<no> model", attempts=3),
    finished("outer/inner", "failed", error="<no> model"),
    finished("outer", "failed", error="<no> model"),
)


def test_finished_run_shows_graph_answer_and_steps(snapshot: Snapshot) -> None:
    facts = [*ONCE_AROUND, finished("draft"), started("print", agent="printer"), finished("print", output="The **end**.")]
    run = workflow_run(LOOP, facts, "completed")
    html = run_html(run)
    assert html.index("agentnb-graph-node") < html.index("<strong>end</strong>") < html.index(">Steps 4</summary>")
    assert "4 steps" in html and "step draft began" not in html
    assert re.search(r'data-fold="step:print"', html)
    assert run_text(run).splitlines()[:4] == snapshot


def test_failed_step_states_why_and_how_to_show_its_run() -> None:
    run = workflow_run(NESTED, FAILED, "failed")
    shown = words_in(run_html(run))
    assert "✗ researcher agent 3 attempts, 2 retries failed <no> model" in shown
    again = NESTED.replace("name: researcher", "name: researcher, retry: {max_attempts: 2}")
    assert 'title="researcher: agent: up to 2 retries: ' in run_html(workflow_run(again, FAILED, "failed"))
    assert "%agent load run-of-generator shows its run, if it was stored" in shown
    assert "A bold claim." in shown
    summaries = re.findall(r"<summary.*?</summary>", run_html(run))
    assert ["researcher" in summary for summary in summaries if "&lt;no&gt; model" in summary] == [True], (
        "blocks do not repeat it"
    )
    assert "          ✗ researcher  agent  failed  3 attempts, 2 retries  <no> model" in run_text(run).splitlines()


def test_failed_tool_step_has_the_traceback_of_its_tool_folded() -> None:
    def weigh(crate: str) -> float:
        return {"small": 1.5}[crate]

    workflow = Workflow.from_yaml("workflow: [{id: scale, type: tool, name: weigh, args: {crate: large}}]")
    with pytest.raises(WorkflowError) as caught:
        workflow.run_sync(tools=[weigh])
    html = run_html(caught.value.run)
    (fold,) = re.findall(r'<details[^>]*data-fold="step:scale:traceback".*?</details>', html, re.DOTALL)
    assert "Traceback of your code" in words_in(fold) and 'return {"small": 1.5}[crate]' in unescape(words_in(fold))


def test_run_without_workflow_in_its_log_shows_steps(subtests: Any) -> None:
    for name, text in {"none": "", "one that cannot be read": "workflow: ["}.items():
        with subtests.test(name):
            run = workflow_run(text, FAILED, "failed")
            html = run_html(run)
            assert "agentnb-graph" not in html and ">Steps 4</summary>" in html
            assert "    ✓ generator  agent" in run_text(run) and "✗ researcher" in run_text(run)
            assert "✗ researcher" in words_in(compact_html(run))


def test_steps_are_expanded_on_the_page_and_in_running_workflows() -> None:
    run = workflow_run(NESTED, FAILED, "failed")
    assert re.search(r'<details class="agentnb-part" data-fold="rounds" open>', page_html(run))
    assert "agentnb-graph-node" in running_html(workflow_run(NESTED, FAILED)) and "researcher" in page_html(run)


def test_steps_of_a_block_are_listed_below_it() -> None:
    paths = ["outer", "outer/a", "outer/inner", "outer/b", "outer/inner/c", "after"]
    run = workflow_run("", [started(path, parent=path.rpartition("/")[0]) for path in paths], "failed")
    step_ids = [row[0].id for row in step_rows(run) if not isinstance(row, str)]
    assert step_ids == ["outer", "outer/a", "outer/inner", "outer/inner/c", "outer/b", "after"]


def test_long_list_keeps_first_last_and_failed_steps() -> None:
    facts = []
    for n in range(2_000):
        facts += [started(f"t{n}", "tool", agent="shift"), finished(f"t{n}", "failed" if n == 900 else "completed", output=n)]
    run = workflow_run("", facts, "failed")
    html = run_html(run)
    listed = re.findall(r'data-fold="step:t(\d+)"', html)
    assert len(listed) <= MAX_STEPS and {"0", "4", "900"} <= set(listed) and listed == sorted(listed, key=int)
    assert "… 1,940 steps: 1,940 done" in html and len(html) < 100_000
    assert html.index(f"step:t{FIRST - 1}") < html.index("… 1,940 steps") < html.index("step:t900")
    assert len(run_text(run).splitlines()) < 80


def test_text_of_a_step_cannot_control_a_terminal() -> None:
    hostile = "\x1b[2J\u202ex"
    facts = [started(hostile, agent=hostile, title=hostile), finished(hostile, "failed", error=hostile)]
    text = run_text(workflow_run("", facts, "failed"))
    assert "\x1b" not in text and "\u202e" not in text and "failed" in text


def frames(run: Run) -> tuple[LiveCard, list[dict[str, Any]]]:
    card, found = LiveCard(), []
    for event in run.events:
        card.take(event)
        found.append(card.frame())
    return card, [frame for frame in found if frame]


@pytest.mark.req("R4.36")
def test_live_card_colours_the_graph_and_sends_only_changed_steps() -> None:
    card, sent = frames(workflow_run(LOOP, ONCE_AROUND))
    assert "agentnb-graph-active" not in sent[0]["slots"]["graph"]
    assert "agentnb-graph-active" in sent[1]["slots"]["graph"]
    assert [[*frame["rounds"][0]["html"]] for frame in sent if frame["rounds"]] == [
        ["step:draft"],
        ["step:draft"],
        ["step:enough"],
        ["step:enough"],
        ["step:enough"],
        ["step:expand"],
        ["step:expand"],
        ["step:draft"],
    ]
    assert "once" in card.whole()["slots"]["graph"]


def test_frames_alone_rebuild_a_workflow_card() -> None:
    card, sent = frames(workflow_run(NESTED, FAILED, "failed"))
    slots: dict[str, str] = {}
    pieces: dict[str, str] = {}
    keys: list[str] = []
    for frame in sent:
        slots |= frame["slots"]
        for each in frame["rounds"]:
            pieces |= each["html"]
            keys = each["keys"]
    whole = card.whole()
    assert {name: html for name, html in whole["slots"].items() if html} == {name: html for name, html in slots.items() if html}
    assert whole["rounds"] == [{"index": 0, "keys": keys, "html": {key: pieces[key] for key in keys}}]


def test_open_question_is_live_and_its_answer_stays_visible() -> None:
    facts = [started("approve", "human"), (QuestionAsked, {"question": QUESTION})]
    card, _ = frames(workflow_run(BRANCH, facts))
    (round_,) = card.whole()["rounds"]
    assert round_["keys"] == ["step:approve", "question:q1"] and 'data-id="q1"' in round_["html"]["question:q1"]
    assert "waiting for you" in card.whole()["slots"]["graph"]
    answered = [*facts, (QuestionAnswered, {"question_id": "q1", "answer": True}), finished("approve", output=True)]
    html = run_html(workflow_run(BRANCH, answered, "completed"))
    assert "Publish?" in html and "data-do" not in html


def test_finished_card_shows_answered_questions_only_at_their_steps() -> None:
    def asked(number: int, step: str) -> Any:
        return QuestionAsked, {
            "question": WaitingOnUser("human_step", f"Words {number}?", {"type": "boolean"}, f"q{number}", step)
        }

    answered = (QuestionAnswered, {"question_id": "q1", "answer": True})
    facts = [started("load", "human"), asked(1, "load"), answered, finished("load", output=True)]
    facts += [started("approve", "human"), asked(2, "approve"), (RunSuspended, {"why": "nobody_here"})]
    html = steps_html(workflow_run(BRANCH, facts), Form())
    assert html.count("Words 1?") == 1 and "Words 2?" not in html
    assert html.index(">load<") < html.index("Words 1?") < html.index(">approve<")


def test_runs_nested_in_a_step_are_folded_inside_it() -> None:
    card, drawn = LiveCard(), []

    def changed() -> None:
        card.redraw_round()
        drawn.append(card.frame())

    class Watching:
        def __call__(self, item: Any) -> None:
            card.take(item)
            card.frame()

        def nested(self, beginning: Beginning) -> Any:
            return card.nested.add(beginning, changed)

    watching = Watching()
    replies = {"outer/generator": ["One."], "outer/inner/researcher": ["Two."], "outer/inner/summarizer": ["Three."]}
    text = "agents: {generator: {}, researcher: {}, summarizer: {}, publisher: {}}\n" + NESTED
    with use_host(Host(watch=lambda beginning: watching)):
        run = asyncio.run(Workflow(spec_of(text)).run("Go.", replies={**replies, "publisher": ["Four."]}))
    (pieces,) = [round_["html"] for round_ in card.whole()["rounds"]]
    assert re.search(r'data-fold="nested:.*researcher', pieces["step:outer/inner/researcher"])
    while_it_runs = [round_["rounds"][0]["html"].get("step:publisher", "") for round_ in drawn if round_ and round_["rounds"]]
    assert any("agentnb-step-state" in html and 'data-fold="nested:' in html for html in while_it_runs)
    html = run_html(run, nested=card.nested.html)
    assert html.count('data-fold="nested:') == 4 and "%agent load" not in html.partition("Details")[0].partition("nested:")[0]


class Saying:
    """A model that streams two lines piece by piece."""

    name = "scripted:saying"

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        text = "A first line.\nA <b>second</b> one"
        for bit in re.findall(r"\S+\s*", text):
            yield TextDelta(bit)
            await asyncio.sleep(0.2)
        yield Reply(Message("assistant", (Text(text),)))


def test_streamed_text_of_a_step_is_sent_as_small_updates() -> None:
    card, sent = LiveCard(), []

    def draw() -> None:
        card.redraw_round()
        if frame := card.frame():
            sent.extend(frame["rounds"])

    class Watching:
        def __call__(self, item: Any) -> None:
            card.take(item)
            draw()

        def nested(self, beginning: Beginning) -> Any:
            return card.nested.add(beginning, draw, draw)

    watching = Watching()
    text = "agents: {writer: {}}\nworkflow: [{id: write, type: agent, name: writer}]"
    workflow = Workflow(spec_of(text), {"writer": Agent(Saying(), name="writer", todos=False)})
    with use_host(Host(watch=lambda beginning: watching)), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(workflow.run("Go."))
    lines = [frame["html"] for frame in sent if "last:step:write" in frame["html"]]
    assert [words_in(html["last:step:write"]) for html in lines][-1] == "A <b>second</b> one" and len(lines) >= 3
    assert all([*html] == ["last:step:write"] for html in lines)
    assert "last:step:write" in [key for frame in sent for key in frame["keys"]] and sent[-1]["keys"] == ["step:write"]


def test_steps_logged_without_a_workflow_are_shown_as_events() -> None:
    run = run_of(started("a"), finished("a"), taken("a", "b"))
    assert "step a completed" in run_text(run) and "Steps" not in run_html(run)


def test_run_state_names_the_open_steps() -> None:
    facts = [started("outer", "parallel"), *[started(f"outer/{name}", parent="outer") for name in ("a", "b", "c", "d")]]
    for count, words in {0: "Starting", 1: "Running outer", 3: "Running a, b", 5: "Running 4 steps"}.items():
        assert run_text(workflow_run(NESTED, facts[:count])).startswith(words)
    assert run_text(workflow_run("", [started("a"), finished("a")])).startswith("Running: 1 step")


def test_page_notes_when_an_output_is_truncated() -> None:
    for length, is_said in ((100_000, False), (100_001, True)):
        facts = [started("a"), finished("a", output="x" * length)]
        assert ("Very long texts are shortened" in page_html(workflow_run("", facts, "completed"))) is is_said
