"""Limits and their usage in every form of a run."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import add, play
from summarising import priced

from agentnb import Agent, Run, ToolCall
from agentnb.advice import Invocation
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text, user
from agentnb.core.questions import WaitingOnUser
from agentnb.core.usage import Usage
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.parts.head import meta_html
from agentnb.display.parts.run_totals import Totals
from agentnb.display.texts import labels, states
from agentnb.display.texts.elapsed import Elapsed
from agentnb.models import Reply, ScriptedModel

GO_ON = "Continue: %%agent --continue"
ENDINGS = [
    ("max_rounds", 50, "50 rounds", f"{GO_ON} --max-rounds 100"),
    ("max_rounds", 1, "1 round", f"{GO_ON} --max-rounds 2"),
    ("max_rounds", 1_000, "1,000 rounds", GO_ON),
    ("max_tool_calls", 8, "8 tool calls", f"{GO_ON} --max-tool-calls 16"),
    ("max_tool_calls_per_turn", 8, "8 tool calls in this turn", GO_ON),
    ("max_seconds", 90, "90 s", f"{GO_ON} --max-seconds 180"),
    ("max_seconds", 1_800, "30 minutes", f"{GO_ON} --max-seconds 3600"),
    ("max_tokens", 20_000, "20,000 tokens", f"{GO_ON} --max-tokens 40000"),
    ("budget", 9.0, "$9.00", f"{GO_ON} --budget 18"),
    ("budget", 8.98, "$8.98", f"{GO_ON} --budget 20"),
    ("budget", 0.0025, "$0.0025", f"{GO_ON} --budget 20"),
    ("session_budget", 5, "$5.00 in this session", "Continue: %agent defaults session-budget=10, then %%agent --continue"),
    ("own_limit\x1b", 3, "own_limit\ufffd = 3", GO_ON),
]


def words(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", "", html)).split())


said = partial(priced, cost=0.0123, tokens=(2_100, 120))


def calls(count: int, **how: Any) -> list[Reply]:
    return [said(Text(f"Part {n}."), ToolCall("add", {"a": n}), **how) for n in range(count)]


made = partial(play, tools=[add], todos=False, guidance="off", prompt="Go.")


def at_limit(name: str, value: float) -> Run:
    """Return a run of one round that reached this limit at a high cost."""
    common: dict[str, Any] = {"at": made("x").started_at, "run_id": "r"}
    facts: list[Any] = [
        e.RunStarted(seq=0, schema=e.SCHEMA, prompt=user("Go"), model="own:m", invocation=Invocation(), **common),
        e.RoundStarted(seq=1, index=0, reason="prompt", **common),
        e.ModelReplied(seq=2, message=Message("assistant", (Text("Hm."),)), usage=Usage(cost=9.0), **common),
        e.RoundFinished(seq=3, index=0, status="success", **common),
        e.LimitReached(seq=4, limit=name, value=value, **common),
        e.RunFinished(seq=5, status="limited", stop_reason=name, seconds=1.0, **common),
    ]
    return Run.from_events(facts)


@pytest.mark.req("KX.2")
def test_run_at_a_limit_names_it_and_what_to_type(subtests: pytest.Subtests) -> None:
    for name, value, limit, to_type in ENDINGS:
        with subtests.test(name=name):
            run = at_limit(name, value)
            assert states.ending(run) == to_type
            assert states.chip(run) == f"Limit reached: {limit}"
            for shown in (words(run_html(run)), words(compact_html(run)), " ".join(run_text(run).split())):
                assert shown.count(f"Limit reached: {limit}") == 1 and shown.count(to_type) == 1


def test_only_commands_are_code_and_each_fits_on_one_line() -> None:
    html = run_html(at_limit("session_budget", 5))
    matches = re.findall(r'<code class="agentnb-command"[^>]*>([^<]*)</code>', html)
    replayed = "%replay run -g matrix -p matrix"
    assert matches == ["%agent defaults session-budget=10", "%%agent --continue", replayed]
    long = at_limit(f"%agent {'x' * 500} <i>", 1)
    assert "<i>" not in run_html(long) and "x" * 80 not in "".join(re.findall(r"<code[^>]*>([^<]*)</code>", run_html(long)))


def test_shared_budget_is_labelled_as_shared() -> None:
    assert "Nested runs used part of it." in states.ending(at_limit("budget", 20.0))


@pytest.mark.req("KX.2")
def test_final_answer_at_a_limit_is_shown_beside_the_limit() -> None:
    run = made(*calls(2), said(Text("As far as I **know**.")), max_rounds=2, on_limit="final_answer")
    assert run.status == "limited" and states.shown_answer(run) == "As far as I **know**."
    html = run_html(run)
    assert html.index("As far as I") < html.index("Transcript") and html.count("As far as I") == 1
    assert "The agent then answered with its results so far." in words(html)
    assert "As far as I know." in words(compact_html(run)) and "As far as I **know**." in run_text(run)


def test_text_before_a_limit_is_not_shown_as_answer() -> None:
    run = made(*calls(3), max_rounds=2)
    assert states.shown_answer(run) == "" and "agentnb-answer" not in run_html(run)


@pytest.mark.req("KX.2")
def test_calls_over_a_limit_are_skipped_not_failed() -> None:
    many = said(Text("Three."), *[ToolCall("add", {"a": n}) for n in range(3)])
    run = made(many, "x", max_tool_calls=2)
    shown = words(run_html(run))
    assert "⊘ rejected: limit of tool calls reached" in shown and "failed" not in shown
    assert "1 rejected call: round 1" in shown
    assert "⊘ rejected: limit of tool calls reached" in run_text(run) and "failed" not in run_text(run)
    a_turn = made(many, "x", max_tool_calls_per_turn=1)
    assert run_text(a_turn).count("⊘ rejected: limit of tool calls in this turn reached") == 2


def test_last_reply_without_answer_is_folded_and_truncated_between_paragraphs() -> None:
    code = "Now the **fit**:\n\n```python\nfit(1)\n```\n\n<b>x</b>"
    html = run_html(made(said(Text(code), ToolCall("add", {"a": 1})), "x", max_rounds=1))
    box = last_reply(html)
    assert "Last reply, 7 lines" in box and "Last reply" not in html.replace(box, "")
    assert "```" not in box and "<strong" in box and "<pre" in box and "&lt;b&gt;x" in box
    assert re.search(r'<details[^>]*data-fold="reply"', html) and not re.search(r'data-fold="reply"[^>]* open', html)
    paragraphs = "\n\n".join([f"Paragraph {n} {'word ' * 1_000}ends." for n in range(10)])
    box = last_reply(run_html(made(said(Text(paragraphs), ToolCall("add", {"a": 1})), "x", max_rounds=1)))
    assert re.search(r"ends\.</p>\s*<p[^>]*>… \([\d,]+ more characters\)</p>", box) and len(words(box)) < 21_000


def last_reply(html: str) -> str:
    return html[html.index('data-fold="reply"') : html.index('data-fold="rounds"')]


def test_blocked_run_names_todo_error_and_next_action(snapshot: Snapshot) -> None:
    def lift(floor: int) -> str:
        """Lift."""
        raise RuntimeError("the lift is locked by operator 17")

    def listed(*todos: tuple[str, str, str]) -> ToolCall:
        items = [
            {"id": number, "title": title, "description": title, "status": status, "blockedReason": reason or None}
            for number, (title, status, reason) in enumerate(todos, 1)
        ]
        return ToolCall("todo_operations", {"operation": "write", "todoList": items})

    script = [
        listed(("Open the door", "in-progress", ""), ("Lift the box", "not-started", "")),
        ToolCall("lift", {"floor": 2}),
        listed(("Open the door", "completed", ""), ("Lift the box", "blocked", "Operator 17 has the lift")),
        "I could not lift it.",
    ]
    run = Agent(ScriptedModel([*script, *["No."] * 6]), tools=[lift]).run_sync("Lift it", show=False)
    assert (run.stop_reason, states.why(run)) == ("blocked", snapshot)
    html = words(run_html(run))
    assert html.index("Todo 2,") < html.index("Last reply") < html.index("Transcript")


def test_calls_cut_off_by_a_limit_are_not_labelled_stopped(subtests: pytest.Subtests) -> None:
    last = said(Text("I go on."), ToolCall("add", {"a": 2}))
    runs = {"not run: limit reached": made(*calls(1), last, max_rounds=1, on_limit="final_answer")}

    async def slow() -> str:
        """Takes long."""
        await asyncio.Event().wait()
        return "late"

    agent = Agent(ScriptedModel([ToolCall("slow")]), tools=[slow], max_seconds=0.01)
    runs["cut off by the time limit"] = agent.run_sync("Go.")
    for expected, run in runs.items():
        for form, text in {"html": words(run_html(run)), "page": words(page_html(run)), "text": run_text(run)}.items():
            with subtests.test(expected, form=form):
                assert expected in text and "stopped" not in text and "failed" not in text


# While it runs


def live(run: Run, stop: int) -> dict[str, Any]:
    """Return the frame of a card after this many events."""
    card = LiveCard()
    for event in run.events[:stop]:
        card.take(event)
    return card.whole()


LIMITS: dict[str, Any] = {"budget": 0.5, "max_tokens": 20_000, "max_seconds": 90, "max_tool_calls": 8}


@pytest.mark.req("KX.2")
def test_usage_is_shown_beside_its_limit_from_the_start() -> None:
    run = made(*calls(3), "Done.", unpriced=True, **LIMITS)
    first, later = (live(run, stop)["slots"] for stop in (2, 6))
    assert words(first["meta"]).startswith("round 1 of 50 · 0 of 8 calls · of 01:30 · 0.0k of 20k tokens · $0.0000 of $0.50")
    assert words(later["meta"]).startswith("round 1 of 50 · 1 of 8 calls · of 01:30 · 2.2k of 20k tokens · $0.0123 of $0.50")
    assert "tool calls: 1 of 8" in words(later["totals"])
    assert "$0.0123 of $0.50" in words(running_html(Run.from_events(run.events[:6])))
    assert "$0.0123 of $0.50" in run_text(Run.from_events(run.events[:6]))


def test_usage_counts_keep_a_constant_width() -> None:
    assert len({len(labels.count_of(count, 20_000)) for count in (0, 7, 812, 9_900, 19_999)}) == 1
    assert labels.count_of(19_999, 20_000) == "20.0k of 20k" and labels.count_of(812, 900) == "812 of 900"
    assert labels.count_of(300_000, 1_500_000) == "0.3M of 1.5M"


def test_unknown_cost_is_a_lower_bound_under_a_budget() -> None:
    run = made(*calls(1), said(Text("x"), cost=None), budget=0.5, unpriced=True)
    assert "at least $0.0123 of $0.50" in run_text(run)
    assert "$0.0123 of $0.50" in words(live(run, 6)["slots"]["meta"])


def test_malformed_limits_in_a_log_are_ignored(subtests: pytest.Subtests) -> None:
    for value in ["much", None, True, -1, [], {"a": 1}]:
        with subtests.test(value=value):
            assert labels.amount(value) is None


# The clock


def facts(*given: tuple[type[e.Event], float, dict[str, Any]], **settings: Any) -> Elapsed:
    begun = made("x").started_at
    assert begun is not None
    first = (e.RunStarted, 0.0, {"schema": e.SCHEMA, "prompt": user("Go"), "model": "own:m", "settings": settings})
    elapsed = Elapsed()
    for seq, (kind, after, fields) in enumerate((first, *given)):
        at = begun + timedelta(seconds=after)
        elapsed.take(kind(seq=seq, at=at, run_id="r", **fields))  # type: ignore[arg-type, operator]
    elapsed.begun = begun  # type: ignore[attr-defined]
    return elapsed


def since(elapsed: Elapsed) -> float | None:
    """Return the offset in seconds from which the clock counts."""
    begun = elapsed.begun  # type: ignore[attr-defined]
    return None if elapsed.since is None else (elapsed.since - begun).total_seconds()


ASK = (e.QuestionAsked, 10.0, {"question": WaitingOnUser("elicitation", "Well?", {"type": "string"}, "q", "c")})
ANSWER = (e.QuestionAnswered, 40.0, {"question_id": "q"})


@pytest.mark.req("KX.2")
def test_time_waiting_for_the_person_does_not_count() -> None:
    asked = facts(ASK, max_seconds=90)
    assert asked.since is None and asked.standing == 10.0
    answered = facts(ASK, ANSWER, max_seconds=90)
    assert since(answered) == 30.0 and answered.standing is None
    paused = facts(
        (e.CommandReceived, 5.0, {"command": "pause"}), (e.CommandReceived, 25.0, {"command": "resume"}), max_seconds=9
    )
    assert since(paused) == 20.0
    assert since(facts(ASK)) == 0.0
    adjusted = (e.CommandReceived, 20.0, {"command": "say", "text": "Soon."})
    assert facts(ASK, adjusted, max_seconds=90).standing == 10.0 and since(facts(ASK, adjusted, ANSWER, max_seconds=90)) == 30.0


def test_clock_of_a_recovered_run_omits_the_time_between_processes() -> None:
    over = (e.RoundFinished, 12.0, {"index": 0, "status": "success", "seconds": 11.0})
    assert since(facts(over, (e.RunRecovered, 3_600.0, {"schema": e.SCHEMA}))) == 3_589.0
    asked = facts(over, ASK, (e.RunRecovered, 3_600.0, {"schema": e.SCHEMA}), max_seconds=90)
    assert since(asked) == 3_589.0


def test_clock_pauses_while_waiting_for_the_person() -> None:
    card = LiveCard()
    run = made("x", max_seconds=90)
    started = run.events[0]
    card.take(started)
    card.take(e.CommandReceived(seq=1, at=started.at + timedelta(seconds=65), run_id=run.id, command="pause"))
    meta = card.whole()["slots"]["meta"]
    assert "01:05 of 01:30" in words(meta) and "data-since" not in meta


def test_header_does_not_repeat_rounds_at_the_round_limit() -> None:
    assert words(meta_html(at_limit("max_rounds", 1), Totals(at_limit("max_rounds", 1).rounds))).count("round") == 0
    assert "1 round" in words(meta_html(at_limit("budget", 1), Totals()))
