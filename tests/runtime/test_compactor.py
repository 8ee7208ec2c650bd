"""Compaction of conversations: requests, records, costs and failures."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asserted_sentences import Snapshot
from made_histories import orphans
from run_checks import checked
from scripted_runs import bare, do, work
from sent_requests import as_bytes, assert_made_again, made_again
from streamed_replies import FOREVER, Streamed
from summarising import SUMMARY, Summarising, compactions, last_compaction, priced
from todo_calls import complete, start, write

from agentnb import Agent, History, Store, ToolCall, load_trace
from agentnb.context.tool_pairing import are_whole
from agentnb.core.log.events import CompactionStarted, ContextCompacted, RetryScheduled, TextDelta, Warned
from agentnb.core.messages import Message, Text, ToolResult
from agentnb.core.request import Request
from agentnb.core.run.rounds import CONTEXT_TOKENS
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.errors import ContextOverflow, ModelError
from agentnb.models.capabilities import Capabilities
from agentnb.models.model import Model, Retry, StreamItem
from agentnb.models.scripted import ScriptedModel

PATIENCE = 20
SMALL = History(compact_above=6, keep_recent=2)


def running(
    count: int, *, summaries: Any = ("What was done.",), history: Any = SMALL, **settings: Any
) -> tuple[Run, Summarising]:
    """Return a run of so many calls, one per round, and an answer."""
    model = Summarising([*[do(number) for number in range(count)], "Done."], summaries)
    run = bare(model, [work], history=history, **settings).run_sync("Make all.")
    checked(run)
    for request in model.requests:
        assert_valid(request)
    assert_made_again(run, model.requests)
    return run, model


def assert_valid(request: Request) -> None:
    messages = list(request.messages)
    assert messages[0].role == "user" and messages[-1].role != "assistant"
    assert all((one.role == "assistant") != (other.role == "assistant") for one, other in pairwise(messages))
    assert are_whole(messages) and orphans(messages) == set()


# By the number of messages


@pytest.mark.req("R2.32", "R2.34", "R2.35")
def test_request_has_first_message_then_summary_then_recent_messages(snapshot: Snapshot) -> None:
    run, model = running(3, history=History(compact_above=6, keep_recent=2))
    assert [len(request.messages) for request in model.requests] == [1, 3, 5, 3]
    first, *recent = model.requests[-1].messages
    assert first.text == snapshot
    assert recent == list(run.messages)[5:7]
    (event,) = compactions(run)
    assert (event.why, event.compacted.first, event.compacted.kept, event.compacted.count) == ("messages", 1, 5, 4)


@pytest.mark.req("R2.32")
def test_default_compaction_starts_at_message_31_and_keeps_ten() -> None:
    run, model = running(16, history="documented")
    assert [len(request.messages) for request in model.requests[-3:]] == [29, 11, 13]
    assert [type(event).__name__ for event in run.rounds[15].compactions] == ["Compaction"]
    assert len(model.asked) == 1


@pytest.mark.req("R2.34", "R2.35")
def test_summary_is_an_assistant_message_or_joins_the_first() -> None:
    history = [Message("user" if number % 2 == 0 else "assistant", (Text(f"word {number}"),)) for number in range(8)]
    before = bare(ScriptedModel(["word 1"]), []).run_sync("word 0")
    for number in (2, 4, 6):
        before = bare(ScriptedModel([f"word {number + 1}"]), []).run_sync(f"word {number}", continue_from=before)
    assert list(before.messages) == history
    model = Summarising(["Done."])
    bare(model, [], history=History(compact_above=6, keep_recent=3)).run_sync("word 8", continue_from=before)
    items = [(message.role, message.text) for message in model.requests[0].messages]
    assert items == [
        ("user", "word 0"),
        ("assistant", "[Conversation Summary - 5 messages compacted]\n\nWhat was done."),
        ("user", "word 6"),
        ("assistant", "word 7"),
        ("user", "word 8"),
    ]


@pytest.mark.req("R2.34")
def test_summarizer_sees_truncated_results_without_tools_or_ephemeral_text() -> None:
    def long(n: int = 0) -> str:
        """Gives much."""
        return f"result {n} " + "x" * 3_000

    model = Summarising([*[ToolCall("long", {"n": number}) for number in range(4)], "Done."])
    Agent(model, tools=[long], history=SMALL).run_sync("Make all.")
    (asked,) = model.asked
    assert (asked.tools, asked.system, asked.settings.get("tool_choice")) == ((), SUMMARY, None)
    (message,) = asked.messages
    record = message.text
    assert "result 0" in record and "result 1" in record and "result 2" not in record
    assert "x" * 490 in record and "x" * 501 not in record
    assert "system-reminder" not in record


@pytest.mark.req("R2.34")
def test_failed_summary_sends_first_and_last_messages_with_a_warning(subtests: pytest.Subtests) -> None:
    for summary, problem in [
        ("", "the model returned no summary"),
        (" \n ", "the model returned no summary"),
        (do(1), "the model returned no summary"),
        (RuntimeError("gone"), "RuntimeError: gone"),
        (ModelError("It is down", "Wait"), "ModelError: It is down. Wait"),
    ]:
        with subtests.test(summary=summary, problem=problem):
            run, model = running(3, summaries=[summary], history=History(compact_above=6, keep_recent=4))
            assert [len(request.messages) for request in model.requests] == [1, 3, 5, 5]
            assert list(model.requests[-1].messages) == [run.messages[0], *list(run.messages)[3:7]]
            (event,) = compactions(run)
            assert event.compacted.text == "" and event.problem.startswith(problem)
            (warning,) = run.warnings
            assert "2 messages" in warning and problem in warning
            assert run.status == "completed"


@pytest.mark.req("R2.34")
def test_failed_summary_keeps_the_first_and_the_recent_messages() -> None:
    _, model = running(16, summaries=[RuntimeError("gone")], history="documented")
    assert [len(request.messages) for request in model.requests[-2:]] == [11, 13]


def test_non_language_model_gets_a_factual_summary_without_a_request() -> None:
    model = ScriptedModel([*[do(number) for number in range(3)], "Done."])
    run = bare(model, [work], history=SMALL).run_sync("Make all.")
    assert len(model.requests) == 4
    text = last_compaction(run).text
    assert "## Original task\n- Make all." in text and "work gave: made 1" in text
    assert_made_again(run, model.requests)


# Records


@pytest.mark.req("R2.35")
def test_compacted_messages_stay_in_run_log_and_tables(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    model = Summarising([*[do(number) for number in range(12)], "Done."])
    run = bare(model, [work], history=SMALL).run_sync("Make all.", store=store)
    assert len(model.asked) > 2
    assert [result.text for round_ in run.rounds for result in round_.results] == [f"made {number}" for number in range(12)]
    assert len(run.messages) == 26
    loaded = store.load(run.id)
    assert loaded == run and loaded.compacted == run.compacted == last_compaction(run)
    assert_made_again(loaded, model.requests)
    assert len(loaded.rounds) == 13


@pytest.mark.req("R2.35")
def test_run_continuing_a_compacted_one_stays_compacted(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    first, before = running(5)
    model = Summarising([do(7), "Done."])
    second = bare(model, [work], history="full").run_sync("And more.", continue_from=first, store=store)
    assert second.compacted == first.compacted and model.asked == []
    sent, then = list(model.requests[0].messages), list(before.requests[-1].messages)
    assert sent[: len(then)] == then
    assert_made_again(second, model.requests)
    assert_made_again(store.load(second.id), model.requests)
    third = Summarising([do(8), do(9), do(10), "Done."])
    run = bare(third, [work], history=SMALL).run_sync("Still more.", continue_from=store.load(second.id), store=store)
    assert_made_again(store.load(run.id), third.requests)
    assert compactions(run) and last_compaction(run).first == 1
    assert run.compacted is not None and run.compacted.count > first.compacted.count  # type: ignore[union-attr]


@pytest.mark.req("R2.35")
def test_each_summary_builds_on_the_last_and_covers_all_messages() -> None:
    run, model = running(12, summaries=["Summary one.", "Summary two.", "Summary three.", "Summary four."])
    found = compactions(run)
    assert len(found) >= 3
    assert "Conversation Summary" not in model.asked[0].messages[0].text
    for asked, before in zip(model.asked[1:], found, strict=False):
        assert asked.messages[0].text.count(before.compacted.text) == 1
    for one, other in pairwise(found):
        assert other.compacted.first == one.compacted.first == 1
        assert other.compacted.kept > one.compacted.kept and other.compacted.count == other.compacted.kept - 1
    for request in model.requests:
        assert sum(message.text.count("[Conversation Summary") for message in request.messages) <= 1
    assert "Make all." in model.requests[-1].messages[0].text


@pytest.mark.req("R2.35")
def test_long_summary_is_passed_in_full_to_the_next() -> None:
    facts = "\n".join(f"- fact {number}" for number in range(1_000))
    _, model = running(8, summaries=[facts, "Short."])
    assert facts in model.asked[1].messages[0].text


@pytest.mark.req("R2.35")
def test_every_summary_lists_the_current_open_todos() -> None:
    script: list[Any] = [write("Read", "Count", "Write"), start(1), do(1), do(2), complete(1), start(2), do(3), do(4)]
    script += [complete(2), start(3), do(5), do(6), do(7), do(8), complete(3), do(9), do(10), do(11), "All three are done now."]
    model = Summarising(script)
    run = Agent(model, tools=[work], history=SMALL).run_sync("Do three things.")
    states: list[list[str]] = []
    run_so_far = Run()
    for event in run.events:
        run_so_far.apply(event)
        if isinstance(event, ContextCompacted):
            still_open = any(todo.status != "completed" for todo in run_so_far.todos)
            for todo in run_so_far.todos:
                line = f"[{todo.status}] {todo.title}"
                assert (line in event.compacted.text) is still_open
            states.append([todo.status for todo in run_so_far.todos])
    assert len(states) >= 3 and len({tuple(state) for state in states}) >= 3
    assert_made_again(run, model.requests)


@pytest.mark.req("R2.35", "KX.7")
def test_repository_instructions_are_in_every_system_prompt(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("Be kind to tables.")
    run, model = running(8, work_dir=tmp_path)
    assert compactions(run)
    assert {request.system for request in model.requests} == {run.system}
    assert "## Repository Instructions\n\nBe kind to tables." in run.system


@pytest.mark.req("R2.35", "KX.8")
def test_repeat_guard_counts_across_a_compaction() -> None:
    model = Summarising([do(1), do(2), do(3), do(9), do(9), do(9), "Done."])
    run = bare(model, [work], history=History(compact_above=8, keep_recent=1)).run_sync("Make all.")
    compacted_in = [round_.index for round_ in run.rounds if round_.compactions]
    assert compacted_in == [4]
    codes = [result.error_code for round_ in run.rounds for result in round_.results]
    assert codes[-1] == "duplicate_call_blocked" and codes[:-1] == [None] * 5


@pytest.mark.req("R2.35")
def test_interventions_are_counted_across_a_compaction() -> None:
    def attempts(history: Any) -> list[str]:
        script = [
            write("Read"),
            start(1),
            do(1),
            do(2),
            *[f"I am done, {word}." for word in ("so", "well", "yes", "now", "oh")],
        ]
        model = Summarising([*script, *["So it is."] * 9])
        run = Agent(model, tools=[work], history=history, max_rounds=14).run_sync("go")
        assert bool(compactions(run)) is (history != "full")
        levels = [guidance.level for round_ in run.rounds for guidance in round_.guidance if guidance.cell == "intervention"]
        return [*map(str, levels), str(run.stop_reason), str(len(run.rounds))]

    assert attempts(History(compact_above=6, keep_recent=2)) == attempts("full")


# Money and tokens


@pytest.mark.req("R2.35", "KX.9")
def test_summary_cost_counts_towards_the_run() -> None:
    used = priced("What was done.", cost=0.25, tokens=(100, 20))
    run, _ = running(3, summaries=[used])
    (event,) = compactions(run)
    assert event.usage == used.usage and event.seconds > 0
    assert (run.cost, run.spent) == (0.25, 0.25)
    assert (run.usage.input, run.usage.output) == (100, 20)
    assert run.rounds[3].compactions[0].usage == used.usage and run.rounds[3].usage == Usage(cost=0.0)


@pytest.mark.req("KX.9")
def test_empty_summary_is_charged_and_unknown_price_makes_cost_unknown() -> None:
    run, _ = running(3, summaries=[priced("", cost=0.25)])
    assert run.cost == 0.25
    run, _ = running(3, summaries=[priced("Well.", cost=None)])
    assert (run.cost, run.spent) == (None, 0.0)


@pytest.mark.req("KX.9")
def test_interrupted_summary_cost_is_unknown_and_refused_one_is_free() -> None:
    model = Summarising([do(1), do(2), do(3), "Done."], [Streamed("It was ", ModelError("gone"))])
    run = bare(model, [work], history=SMALL).run_sync("go")
    assert run.cost is None and run.status == "completed"
    run, _ = running(3, summaries=[ModelError("no")])
    assert run.cost == 0.0


@pytest.mark.req("KX.9", "KX.2")
def test_interrupted_summary_is_charged_at_the_models_estimate() -> None:
    class Reckons(Summarising):
        def used_until_cut(self, request: Request, heard: Message) -> Usage:
            assert request.system == SUMMARY
            return Usage(10, len(heard.text), cost=0.25, estimated=True)

    model = Reckons([do(1), do(2), do(3), "Done."], [Streamed("It was ", "good", ModelError("gone"))])
    run = bare(model, [work], history=SMALL).run_sync("go")
    (done,) = {event.usage for event in run.events if isinstance(event, ContextCompacted)}
    assert (done.output, done.cost, run.cost, run.usage.estimated) == (11, 0.25, 0.25, True)


@pytest.mark.req("R2.33")
def test_summary_cut_off_by_max_tokens_is_reported() -> None:
    cut = msgspec.structs.replace(priced("First part. Second pa", cost=0.0), stop_reason="max_tokens")
    run, _ = running(3, summaries=[cut])
    assert run.compacted is not None and "Second pa\n\n[The summary was cut off here.]" in run.compacted.text


@pytest.mark.req("R2.35", "KX.2")
def test_summaries_count_against_the_budget() -> None:
    run, model = running(9, summaries=[priced("What was done.", cost=0.6)], budget=1.0)
    assert (run.stop_reason, run.spent, len(model.asked)) == ("budget", 1.2, 2)
    run, model = running(9, summaries=[priced("What was done.", cost=0.0, tokens=(60_000, 1))], max_tokens=100_000)
    assert (run.stop_reason, len(model.asked)) == ("max_tokens", 2)


# By the share of the window


def talking(window: int | None, used: list[int], *, history: Any = "auto") -> tuple[Run, Summarising]:
    """Return a run whose provider reports these input tokens for each round."""
    replies = [priced(do(number), tokens=(tokens, 10)) for number, tokens in enumerate(used)]
    model = Summarising([*replies, "Done."], window=window)
    run = bare(model, [work], history=history).run_sync("Make all.")
    assert_made_again(run, model.requests)
    return run, model


@pytest.mark.req("R2.36")
def test_compaction_runs_before_a_request_exceeding_its_token_share() -> None:
    run, model = talking(10_000, [1_000, 4_000, 7_900, 8_100])
    assert [bool(round_.compactions) for round_ in run.rounds] == [False, False, False, False, True]
    (event,) = compactions(run)
    assert event.why == "share"
    run, model = talking(10_000, [1_000, 4_000, 7_000, 7_900])
    assert compactions(run) == [] and model.asked == []


@pytest.mark.req("R2.36")
def test_multi_call_reply_counts_by_length_not_by_usage() -> None:
    first = [priced(do(number), tokens=(100, 10)) for number in range(3)]
    for context, compacted in ((3_000, False), (9_000, True), ("many", True)):
        paused = msgspec.structs.replace(priced(do(3), tokens=(9_000, 500)), metadata={CONTEXT_TOKENS: context})
        model = Summarising([*first, paused, "Done."], window=10_000)
        run = bare(model, [work]).run_sync("Make all.")
        assert bool(run.last_round.compactions) == compacted
        assert_made_again(run, model.requests)


@pytest.mark.req("R2.36")
def test_content_since_the_last_count_is_counted() -> None:
    def large(n: int = 0) -> str:
        """Gives much."""
        return "x" * 7_000

    replies = [priced(do(1), tokens=(100, 10)), priced(ToolCall("large"), tokens=(6_500, 10)), "Done."]
    model = Summarising(replies, window=10_000)
    run = bare(model, [work, large]).run_sync("Make all.")
    assert [bool(round_.compactions) for round_ in run.rounds] == [False, False, True]


@pytest.mark.req("R2.36")
def test_uncounted_messages_are_estimated() -> None:
    def large(n: int = 0) -> str:
        """Gives much."""
        return f"{n} " + "x" * 3_500

    model = Summarising([*[ToolCall("large", {"n": number}) for number in range(6)], "Done."], window=5_000)
    run = bare(model, [large]).run_sync("Make all.")
    assert [bool(round_.compactions) for round_ in run.rounds].index(True) == 4
    assert all(len(as_bytes(request)) / 3.5 < 5_000 for request in model.requests)
    assert_made_again(run, model.requests)


@pytest.mark.req("R2.36")
def test_configured_context_window_overrides_the_models() -> None:
    run, _ = talking(10**6, [3_000, 3_000], history=History(share=0.5, window=5_000))
    assert [event.why for event in compactions(run)] == ["share"]


@pytest.mark.req("R2.36")
def test_unknown_window_defers_compaction_until_the_provider_refuses() -> None:
    run, model = talking(None, [10**6] * 9)
    assert compactions(run) == [] and model.asked == []
    model = Summarising([do(1), do(2), do(3), ContextOverflow("Too long"), do(4), "Done."])
    run = bare(model, [work]).run_sync("Make all.")
    assert (run.status, [event.why for event in compactions(run)]) == ("completed", ["overflow"])
    assert len(model.requests) == 6 and len(run.rounds) == 5
    assert len(model.requests[4].messages) < len(model.requests[3].messages)
    assert [as_bytes(model.requests[at]) for at in (0, 1, 2, 4, 5)] == made_again(run)


@pytest.mark.req("R2.36")
def test_second_refusal_in_a_round_ends_the_run_with_advice() -> None:
    model = Summarising(
        [do(1), do(2), do(3), ContextOverflow("Too long", "Begin anew"), ContextOverflow("Too long", "Begin anew")]
    )
    run = bare(model, [work]).run_sync("Make all.")
    checked(run)
    assert (run.status, run.stop_reason, len(compactions(run))) == ("failed", "error", 1)
    assert run.error is not None and (run.error.type, str(run.error)) == ("ContextOverflow", "Too long. Begin anew")
    following = Summarising(["On it goes."])
    again = bare(following, [work]).run_sync("Go on.", continue_from=run)
    assert again.status == "completed" and again.compacted == run.compacted


@pytest.mark.req("R2.36")
def test_each_round_recovers_from_one_context_overflow() -> None:
    script = [do(1), do(2), do(3), ContextOverflow("1"), do(4), do(5), do(6), ContextOverflow("2"), do(7), "Done."]
    run = bare(Summarising(script), [work]).run_sync("Make all.")
    assert (run.status, [event.why for event in compactions(run)]) == ("completed", ["overflow"] * 2)


@pytest.mark.req("R2.36")
@pytest.mark.parametrize("history", ["full", History(max_messages=40)])
def test_disabled_compaction_ignores_a_refusal(history: Any) -> None:
    model = Summarising([do(1), do(2), do(3), ContextOverflow("Too long")])
    run = bare(model, [work], history=history).run_sync("Make all.")
    assert (run.status, model.asked, compactions(run)) == ("failed", [], [])


def test_overlong_first_request_cannot_be_shortened() -> None:
    with pytest.raises(ContextOverflow) as caught:
        bare(Summarising([ContextOverflow("Too long")]), [work]).run_sync("Make all.")
    assert caught.value.run is not None and compactions(caught.value.run) == []


# Together with truncation


def shapes_of(requests: list[Request]) -> list[list[tuple[str, str, int]]]:
    return [[(message.role, message.text, len(message.parts)) for message in request.messages] for request in requests]


@pytest.mark.req("K2.4")
def test_compaction_takes_precedence_over_truncation() -> None:
    _, alone = running(8, history=History(max_messages=7))
    assert [len(request.messages) for request in alone.requests] == [1, 3, 5, 7, 7, 7, 7, 7, 7]
    assert alone.asked == []
    _, alone = running(8, history=History(compact_above=6, keep_recent=3))
    assert [len(request.messages) for request in alone.requests] == [1, 3, 5, 5, 5, 5, 5, 5, 5]
    _, both = running(8, history=History(compact_above=6, keep_recent=3, max_messages=8))
    assert shapes_of(both.requests) == shapes_of(alone.requests)


@pytest.mark.req("K2.4")
def test_truncation_applies_if_compaction_leaves_too_many_messages() -> None:
    run, model = running(8, history=History(compact_above=8, keep_recent=6, max_messages=5))
    assert [len(request.messages) for request in model.requests] == [1, 3, 5, 5, 5, 5, 5, 5, 5]
    for request in model.requests[4:]:
        assert request.messages[0].text.startswith("Make all.")
        assert list(request.messages)[1:] == list(run.messages)[2 * model.requests.index(request) - 3 :][:4]


@pytest.mark.req("K2.4", "R2.35")
def test_truncation_keeps_the_summary() -> None:
    before = bare(ScriptedModel(["word 1"]), []).run_sync("word 0")
    for number in range(2, 12, 2):
        before = bare(ScriptedModel([f"word {number + 1}"]), []).run_sync(f"word {number}", continue_from=before)
    model = Summarising(["Done."])
    history = History(compact_above=6, keep_recent=5, max_messages=4)
    run = bare(model, [], history=history).run_sync("word 12", continue_from=before)
    assert_valid(model.requests[0])
    texts = [message.text for message in model.requests[0].messages]
    assert len(texts) <= 5 and texts[0].startswith("word 0") and texts[-1] == "word 12"
    assert sum("What was done." in text for text in texts) == 1
    assert_made_again(run, model.requests)


@pytest.mark.req("K2.6")
def test_ephemeral_text_is_never_counted() -> None:
    def shapes(**settings: Any) -> list[int]:
        model = Summarising([*[do(number) for number in range(8)], "Done."])
        Agent(model, tools=[work], history=History(compact_above=6, keep_recent=3, max_messages=5), **settings).run_sync("go")
        return [len(request.messages) for request in model.requests]

    assert shapes() == shapes(guidance="off", todos=False)
    model = Summarising([do(1), do(2), do(3), "Done."])
    Agent(model, tools=[work], history=SMALL).run_sync("go")
    for request in model.requests:
        passing = [message for message in request.messages if "<system-reminder>" in message.text]
        assert passing == [request.messages[-1]]


# Interrupted compactions


def assert_left_in_the_middle(run: Run) -> None:
    checked(run)
    assert compactions(run) == [] and run.compacted is None
    assert sum(isinstance(event, CompactionStarted) for event in run.events) == 1
    model = Summarising(["On it goes."])
    following = bare(model, [work], history=SMALL).run_sync("Go on.", continue_from=run)
    assert following.status == "completed" and len(model.asked) == 1
    assert_valid(model.requests[0])
    assert_made_again(following, model.requests)


def test_stop_during_a_summary_ends_the_run_and_next_continues(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    entered = threading.Event()
    model = Summarising([do(1), do(2), do(3), "Done."], [Streamed(entered, FOREVER)])
    live = bare(model, [work], history=SMALL).start("go", store=store)
    assert entered.wait(PATIENCE)
    live.stop()
    run = live.result(PATIENCE)
    assert run.status == "cancelled"
    assert load_trace(store.path(run.id)) == run
    assert_left_in_the_middle(run)


@pytest.mark.req("KX.9")
def test_failed_summary_attempts_are_reported_and_logged() -> None:
    summary = Streamed(Retry(1, 0.5, "too many requests", 429), priced("What was done."))
    run = bare(Summarising([do(1), do(2), do(3), "Done."], [summary]), [work], history=SMALL).run_sync("go")
    (retry,) = [event for event in run.events if isinstance(event, RetryScheduled)]
    assert (retry.attempt, retry.status, retry.reason) == (1, 429, "too many requests")
    order = [type(event) for event in run.events if isinstance(event, CompactionStarted | RetryScheduled | ContextCompacted)]
    assert order == [CompactionStarted, RetryScheduled, ContextCompacted]


def test_summary_text_is_kept_from_watchers_and_messages() -> None:
    """The text of a summary is not text of the run."""
    items: list[Any] = []
    model = Summarising([do(1), do(2), do(3), "Done."], ["Secret summary words."])
    run = bare(model, [work], history=SMALL).run_sync("go", watch=items.append)
    assert "Secret" not in "".join(one.text for one in items if isinstance(one, TextDelta))
    assert run.text == "Done." and not any(isinstance(event, Warned) for event in run.events)
    assert not any(
        "Secret" in part.text for message in run.messages for part in message.parts if isinstance(part, Text | ToolResult)
    )


def test_model_without_traits_is_treated_as_a_language_model() -> None:
    class Bare:
        name = "mine:bare"

        def __init__(self) -> None:
            self.model = Summarising([do(1), do(2), do(3), "Done."])

        def stream(self, request: Request) -> AsyncIterator[StreamItem]:
            return self.model.stream(request)

    mine = Bare()
    assert isinstance(mine, Model) and not hasattr(mine, "traits")
    bare(mine, [work], history=SMALL).run_sync("go")
    assert len(mine.model.asked) == 1
    assert Capabilities() == Capabilities(language_model=True, context_window=None, has_price=False)
