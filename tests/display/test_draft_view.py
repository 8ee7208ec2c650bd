"""The draft of a plan in a card: its steps and their reach, the controls of its table, and its outcome."""

from __future__ import annotations

import re
from typing import Any

from draft_runs import STEPS, answer, drafted, steps
from hostile import visible_text
from msgspec.structs import replace
from run_builder import Fact
from shown_words import words_in

from agentnb import Run
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.plans.plan_history import EXECUTION
from agentnb.core.questions import JudgedCall, WaitingOnUser
from agentnb.core.run.approvals import approval_schema
from agentnb.core.run.rounds import CallRecord
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.text import head_line
from agentnb.display.form import Form
from agentnb.display.lists.browser import rows_html
from agentnb.display.lists.run_rows import row_of
from agentnb.display.parts.questions.draft_view import MAX_FORMS, draft_html, plan_notes
from agentnb.display.texts.states import chip

LIVE = Form(live=True)


def shown(run: Run, form: Form = LIVE) -> str:
    return draft_html(run.questions[0], run, form)


def test_draft_shows_every_step_its_arguments_and_possible_effects(snapshot: Any) -> None:
    text = "x" * 5_000
    run = drafted(plan=steps({"description": "Fetch", "tools": ["fetch"], "args": {"station": text}}, *STEPS))
    html = shown(run)
    assert text in html and len(re.findall("<tr", html)) == 7
    reach = re.search(r'<div class="agentnb-draft-reach">(.*)', html, re.DOTALL)
    assert reach is not None and words_in(reach[1].split("<button")[0]) == snapshot("reach")
    assert words_in(re.split("<tbody", shown(drafted(), Form()))[1]) == snapshot("saved table")
    assert chip(run) == snapshot("chip")


def test_remaining_budget_is_shown_and_unknown_cost_stays_unknown(snapshot: Any) -> None:
    unpriced = (w.ModelCalled, {"operation": "plan_generation"})
    for name, run in {
        "a budget": drafted(settings={"budget": 0.5}),
        "a budget, unknown cost": drafted(unpriced, settings={"budget": 0.5}),
        "unknown cost": drafted(unpriced),
    }.items():
        assert words_in(shown(run)).partition("not known in advance. ")[2].partition(" Approve")[0] == snapshot(name)


def test_only_a_live_card_has_controls_for_the_table() -> None:
    live, saved = shown(drafted()), run_html(drafted())
    assert {*re.findall('data-op="([a-z]+)"', live)} == {"up", "down", "remove", "add"} and live.count("<form") == 6
    assert "data-op" not in saved and "<form" not in saved and "Fetch Brest" in saved
    one = shown(drafted(plan=steps(STEPS[3])))
    assert {*re.findall('data-op="([a-z]+)"', one)} == {"add"}
    many = shown(drafted(plan=steps(*[{"description": f"Step {n}", "tools": []} for n in range(MAX_FORMS + 5)])))
    assert many.count('data-do="step"') == MAX_FORMS and f"Step {MAX_FORMS + 4}" in many


def test_plan_texts_are_escaped_and_invisible_characters_removed() -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    run = drafted(plan=steps({"description": hostile, "tools": ["fetch"], "args": {"station": hostile}}))
    for html in (shown(run), run_html(run)):
        assert "<img" not in html and "\u202e" not in html and "&lt;img" in html


def test_outcome_of_a_draft_is_shown_with_it(snapshot: Any) -> None:
    cases: dict[str, list[Fact]] = {
        "approved": [answer("approve")],
        "approved by a function": [answer(True, by="program")],
        "declined": [answer("deny")],
        "declined with a reason": [answer({"deny": "Too many"})],
        "declined without an answer": [answer(None, declined=True)],
        "withdrawn": [(e.QuestionAnswered, {"question_id": "q1", "withdrawn": True})],
    }
    for name, facts in cases.items():
        html = shown(drafted(*facts))
        assert "Fetch Brest" in html and "data-op" not in html
        assert words_in(html.partition("</table>")[2]) == snapshot(name)
    assert shown(drafted(answer({"edit": {"steps": steps()}}))) == ""


def test_plan_that_ran_counts_in_steps_everywhere() -> None:
    ran: list[Fact] = [(w.StepStarted, {"step": "p-1", "agent": EXECUTION}), (w.StepFinished, {"step": "p-1"})]
    for counted, facts in {"1 plan of 5 steps": [answer("approve"), *ran], "": [answer("deny")]}.items():
        run = drafted(*facts, (e.RunFinished, {"status": "completed", "stop_reason": "natural", "seconds": None}))
        expected = ", ".join(filter(None, ["2 rounds", counted, "220 tokens"]))
        shown_words = [visible_text(html) for html in (run_html(run), rows_html([row_of(0, run)]))]
        assert f": {expected}" in head_line(run) and all(expected.replace(", ", " · ") in text for text in shown_words)
        assert "1 call" not in " ".join([head_line(run), *shown_words])


def test_refused_edits_are_reported_and_accepted_ones_counted(snapshot: Any) -> None:
    assert words_in(shown(drafted(problem="Step 2 is wrong"))).count("Step 2 is wrong") == 1
    edited = (w.PlanEdited, {"plan_id": "p-1", "plan": {"steps": steps(STEPS[0])}})
    assert words_in(shown(drafted(edited))).partition(" Step ")[0] == snapshot("edited")


def test_declined_draft_shows_the_words_that_declined_it(snapshot: Any) -> None:
    withdrawn = (e.QuestionAnswered, {"question_id": "q1", "withdrawn": True})
    run = drafted(withdrawn, (w.PlanRejected, {"plan_id": "p-1", "words": "No! Do <not> run it."}))
    expected = "Rejected by your message: “No! Do &lt;not&gt; run it.”"
    assert expected in shown(run)
    record = run.rounds[0].records[0]
    assert expected in plan_notes(CallRecord(type(record.call)("agent_create_plan", {"plan_id": "p-1"}, "c2")), run)


def test_call_shows_its_plan_review_and_the_words_of_approval(snapshot: Any) -> None:
    review = (w.PlanReviewed, {"plan_id": "p-1", "verdict": "needs_changes", "notes": "State <the> day."})
    approved = (w.PlanApproved, {"plan_id": "p-1", "words": "Yes, go ahead", "call_id": "c2"})
    run = drafted(review, approved)
    record = run.rounds[0].records[0]
    assert words_in(plan_notes(record, run)) == snapshot("review") and "&lt;the&gt;" in plan_notes(record, run)
    call = type(record.call)("agent_create_plan", {"plan_id": "p-1"}, "c2")
    assert words_in(plan_notes(CallRecord(call), run)) == snapshot("words")
    assert plan_notes(CallRecord(type(record.call)("fetch", {"plan_id": "p-1"}, "c3")), run) == ""


def test_only_the_last_question_shows_the_draft_and_its_edits() -> None:
    again = (e.QuestionAsked, {"question": replace(drafted().questions[0].question, id="q2")})
    run = drafted((e.QuestionAnswered, {"question_id": "q1", "withdrawn": True}), again)
    assert draft_html(run.questions[0], run, LIVE) == "" and "Fetch Brest" in draft_html(run.questions[1], run, LIVE)
    other = (w.PlanEdited, {"plan_id": "p-2", "plan": {"steps": steps(STEPS[0])}})
    assert "you changed it" not in shown(drafted(other)) and "In this order." in shown(drafted())
    assert "Later" in shown(drafted())


def test_unreadable_draft_is_hidden_and_remaining_budget_is_never_negative() -> None:
    foreign = (w.PlanEdited, {"plan_id": "p-1", "plan": {"steps": [{"knots": 1}]}})
    assert shown(drafted(foreign)) == ""
    assert "$0.00 of the budget of $0.01 is left" in words_in(shown(drafted(settings={"budget": 0.01})))


def test_question_in_an_approved_draft_shows_its_own_call() -> None:
    about = JudgedCall("fetch", '{"station":"cork"}', "ask")
    inner = WaitingOnUser("approval", "May it?", approval_schema(), "p-1/q1", "p-1", about)
    run = drafted(answer("approve"), (e.QuestionAsked, {"question": inner}))
    card = LiveCard()
    for event in run.events:
        card.take(event)
    pieces = {
        key: words_in(piece) for round_ in card.whole()["rounds"] for key, piece in round_["html"].items() if "question:" in key
    }
    assert "You approved it." in pieces["question:q1"] and "Fetch Brest" in pieces["question:q1"]
    assert "cork" in pieces["question:p-1/q1"] and "Fetch Brest" not in pieces["question:p-1/q1"]
