"""Plans in the card of a run: finished, live, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from asserted_sentences import Snapshot
from drawn_workflows import finished, started, workflow_run
from hostile import SCRIPTS
from planned_runs import ASKED_DAY, ASKING, FINAL, HARBOURS, LACKING, blocked_run, fetch, plan_of, planner_run, tides_fetch
from shown_words import words_in

from agentnb import Plan, Run
from agentnb.cli.terminal.run_progress import Progress
from agentnb.core.log.events import AnyEvent, QuestionAsked, ToolPrinted, ToolStarted
from agentnb.core.log.work_events import PlanProposed, StepAttempted, StepFinished
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.card.workflow_card import steps_html, workflow_html
from agentnb.display.defaults import MAX_STEPS
from agentnb.display.form import Form
from agentnb.display.markup import Html
from agentnb.display.parts.plan_list import MAX_PLANS
from agentnb.models import Reply
from agentnb.notebook.views import TerminalView


def until(events: Sequence[AnyEvent], kind: type[Any], count: int = 1) -> list[AnyEvent]:
    """Return the events up to the n-th of this kind."""
    places = [place for place, event in enumerate(events, 1) if isinstance(event, kind)]
    return [*events[: places[count - 1]]]


def pieces_of(card: LiveCard) -> dict[str, str]:
    (rounds,) = card.whole()["rounds"]
    return {key: rounds["html"][key] for key in rounds["keys"]}


@pytest.fixture(scope="module")
def run() -> Run:
    return planner_run(HARBOURS, ASKING, LACKING, FINAL)


def test_each_plan_is_shown_as_a_list_of_steps(run: Run, snapshot: Snapshot) -> None:
    without_times = re.sub(r", \d+ ms|, \d\.\d s", "", run_text(run))
    lines = without_times.splitlines()
    assert [line for line in lines if not line.startswith("Done")] == snapshot
    assert "4 plans" in lines[0]


def test_aborted_plan_lists_the_steps_that_did_not_run(snapshot: Snapshot) -> None:
    text = run_text(blocked_run())
    assert text[text.index("✗ Plan 4") :].splitlines()[:6] == snapshot


def test_finished_card_lists_the_plans_and_hides_their_calls(run: Run) -> None:
    html, whole = run_html(run), words_in(run_html(run))
    assert ">Plans 4</summary>" in html and "reply-1" not in html and "question-0" not in html
    assert re.findall(r'data-fold="(plan:\d+)"( open)?', html) == [(f"plan:{n}", " open") for n in (1, 2, 3)]
    assert "✓ Plan 1 Fetch the **tables** 3 of 5 done, 1 failed, 1 dropped" in whole
    assert '0 tides_fetch station="brest" done → {"station": "brest"' in whole and "The <i>reference</i>" in whole
    assert "2 attempts, 1 retry failed ValueError: no such <station>" in whole
    assert "<i>" not in html and "<station>" not in html and "<strong>tables" not in html
    assert whole.count('The plan asked you Which day? Your function: {"day":"Monday"}') == 1


def test_graph_shows_the_loop_without_plan_steps(run: Run) -> None:
    shown = words_in(str(workflow_html(run)))
    assert shown.startswith("✓ plan done task llm/core:plan 4 times") and "reply" not in shown
    assert "✓ exec done task llm/exec:run_plan 3 times 3 times leads to plan" in shown, "its last skip ends the loop"
    asking = Run.from_events(until(run.events, QuestionAsked))
    assert "◆ exec waiting for you" in words_in(str(workflow_html(asking)))


def test_pages_summaries_and_running_cards_also_show_plans(run: Run) -> None:
    assert "✗ 2 tides_fetch" in words_in(page_html(run)) and "Plan 2" in words_in(compact_html(run))
    before = until(run.events, StepAttempted)
    waiting = words_in(running_html(Run.from_events(before)))
    assert "○ 4 tides_fetch" in waiting and "1 attempt failed waiting to retry" in waiting
    assert "1 of 5 done, 1 dropped running" in waiting, "the mark of a plan shows the current activity"
    again = Run.from_events(run.events[: len(before) + 1])
    assert "● 2 tides_fetch" in words_in(running_html(again)) and "no such <station>" in words_in(running_html(again))


def test_plan_is_listed_after_the_task_that_made_it() -> None:
    planned = (PlanProposed, {"plan_id": "p", "plan": {"steps": [fetch("brest")]}})
    facts = [started("plan", "task", agent="llm/core:plan"), planned, finished("plan"), started("after"), finished("after")]
    shown = words_in(run_html(workflow_run("", facts, "completed")))
    assert shown.index("✓ plan ") < shown.index("Plan 1") < shown.index("✓ after ")


def test_nested_runs_of_a_reused_path_are_shown_once(run: Run) -> None:
    def nested(path: str, folds: Mapping[str, bool]) -> Html:
        return Html(f"runs of {path}")

    assert "runs of loop/exec/" not in steps_html(run, Form(nested=nested)), "plans have the same paths"
    going_on = Run.from_events(until(run.events, StepAttempted))
    assert steps_html(going_on, Form(nested=nested)).count("runs of loop/exec/") == 1


def test_live_card_sends_only_the_steps_that_changed(run: Run) -> None:
    card, sent = LiveCard(), []
    for event in until(run.events, PlanProposed, 2):
        card.take(event)
        sent += [[*round_["html"]] for round_ in (card.frame() or {"rounds": []})["rounds"]]
    assert ["plan:1", *[f"plan:1:{n}" for n in range(5)]] in sent
    assert max(len(keys) for keys in sent[4:-4]) <= 4
    pieces = pieces_of(card)
    assert [key for key in pieces if key.startswith("plan")] == ["plan:1", "plan:2", "plan:2:0", "plan:2:1"]
    assert 'data-fold="plan:1">' in pieces["plan:1"], "earlier plans are folded"


def test_frames_alone_rebuild_a_card_with_plans(run: Run) -> None:
    events, fresh = until(run.events, StepFinished, 6), LiveCard()
    card, slots, pieces = LiveCard(), {}, {}
    for event in events:
        card.take(event)
        fresh.take(event)
        frame = card.frame() or {"slots": {}, "rounds": []}
        slots |= frame["slots"]
        for round_ in frame["rounds"]:
            pieces = {key: round_["html"].get(key, pieces.get(key)) for key in round_["keys"]}
    assert pieces == pieces_of(card) == pieces_of(fresh) and slots == card.whole()["slots"]


def test_steps_not_run_because_of_a_limit_are_not_pending() -> None:
    paid = Reply(Message("assistant", (Text(HARBOURS),)), Usage(input=1, output=1, cost=1.0))
    run = planner_run(paid, FINAL, budget=0.5)
    assert run.status == "limited"
    for shown in (words_in(run_html(run)), run_text(run)):
        assert "pending" not in shown and "not run" in shown


def test_header_of_a_plan_without_a_planner_counts_no_tasks() -> None:
    run = Plan.read({"steps": [{"type": "tool", **fetch("brest")}]}).run_sync(tools=[tides_fetch], show=False)
    assert "1 plan" in words_in(compact_html(run)) and "2 steps" not in words_in(run_html(run))


def test_question_asked_by_a_step_is_shown_below_it(subtests: pytest.Subtests) -> None:
    before = {"of a step": ("plan:1:0", ASKING), "for arguments": ("plan:1:1", LACKING)}
    before["of the plan"] = ("plan:1", plan_of(fetch("brest"), elicitation=ASKED_DAY))
    for name, (key, reply) in before.items():
        with subtests.test(name):
            card = LiveCard()
            for event in until(planner_run(reply, FINAL).events, QuestionAsked):
                card.take(event)
            keys = [*pieces_of(card)]
            assert keys[keys.index("question:q1") - 1] == key and keys.count("question:q1") == 1
            shown = pieces_of(card)
            assert "waiting for you" in shown[key] and "The plan asks you" in shown["question:q1"]
            assert "◆" in shown["plan:1"] and card.whole()["say"] == "Waiting for you"


@pytest.mark.req("R3.37")
def test_chip_shows_planning_and_then_the_current_step(run: Run) -> None:
    card, said = LiveCard(), []
    for event in until(run.events, StepAttempted):
        card.take(event)
        said.append(card.whole()["say"])
    executing = ["Executing plan", "Executing plan, step 1 of 5", "Executing plan, step 3 of 5"]
    assert [*dict.fromkeys(said)] == ["Starting", "Planning", "Running", *executing]


def test_long_plans_and_long_lists_of_plans_are_truncated() -> None:
    long = planner_run(plan_of(*[fetch(f"h{n}") for n in range(300)], fetch("vigo")), FINAL)
    html = run_html(long)
    steps = re.findall(r'data-fold="plan:1:(\d+)"', html)
    assert len(steps) == MAX_STEPS and {"0", "299", "300"} <= set(steps) and "… 241 steps: 241 done" in words_in(html)
    assert len(html) < 150_000 and len(run_text(long).splitlines()) < MAX_STEPS + 20
    many = planner_run(*[plan_of({"type": "noop"})] * (MAX_PLANS + 4), FINAL)
    shown = words_in(run_html(many))
    assert "… 5 earlier plans Plan" not in shown and "… 5 earlier plans" in shown and "Plan 5 " not in shown


def test_text_of_a_plan_never_becomes_markup(subtests: pytest.Subtests) -> None:
    for place, one in enumerate(SCRIPTS):
        with subtests.test(str(place)):
            text = one.text[:300]
            steps = [fetch(text, reason=text), {"name": text, "args": {text: text}}, {"type": "elicitation", "content": text}]
            hostile = planner_run(plan_of(*steps, intention=text), FINAL, answer=lambda question: "x")
            for html in (run_html(hostile), page_html(hostile), running_html(hostile)):
                assert not re.search(
                    r"<(script|img|iframe|svg|object|embed|form|a|style)\b", html.partition("</style>")[2] or html
                )


def test_shell_progress_shows_plans_and_tools(run: Run, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for event in until(run.events, StepFinished, 7):
        progress(event)
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(r" in (under )?\d.*?s\b", "", line) for line in lines if not line.startswith("run ")] == snapshot


def test_script_terminal_shows_plans_and_tools(run: Run, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> None:
    view = TerminalView()
    for event in until(run.events, PlanProposed, 2):
        view(event)
    assert re.sub(r"  \d+ ms", "", capsys.readouterr().out).splitlines() == snapshot


def test_printed_output_of_a_tool_is_shown_below_its_step(run: Run) -> None:
    card = LiveCard()
    for event in until(run.events, ToolStarted):
        card.take(event)
    card.take(ToolPrinted("loop/exec/0", "first\nreading <b>the</b> table"))
    pieces = pieces_of(card)
    assert [*pieces][-6:-4] == ["plan:1:0", "last:plan:1:0"] and "first" not in pieces["last:plan:1:0"]
    assert "reading &lt;b&gt;the&lt;/b&gt; table" in pieces["last:plan:1:0"]
