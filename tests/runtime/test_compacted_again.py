"""Repeated compaction: content that stays long, todos without a summary, and failing summary calls."""

from __future__ import annotations

import asyncio
import itertools
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from run_checks import checked
from scripted_runs import bare, do, work
from sent_requests import assert_made_again, made_again
from streamed_replies import Streamed
from summarising import Summarising, compactions
from todo_calls import complete, start, write

from agentnb import Agent, History, Store, ToolCall
from agentnb.context.request_history import sent_requests
from agentnb.context.tool_pairing import are_whole
from agentnb.core.log.events import ContextCompacted
from agentnb.core.request import Request
from agentnb.core.todos import format_with_heading, has_open
from agentnb.detect.run import Run
from agentnb.errors import ModelError
from agentnb.runtime.defaults import ROUNDS_BETWEEN

SMALL = History(compact_above=6, keep_recent=2)
WINDOW = 1_000
PROMPT = "You heed this. " * 400
"""More tokens than the context window."""


# Content that stays long


def lengths(n: int, size: int) -> str:
    """Returns the requested number of characters."""
    return f"{n} " + "x" * size


def filled(sizes: list[int], **settings: Any) -> tuple[Run, Summarising]:
    """Return a run with results of these lengths, one per round, and an overlong prompt and tools."""
    calls = [ToolCall("lengths", {"n": number, "size": size}) for number, size in enumerate(sizes)]
    model = Summarising([*calls, "Done."], window=WINDOW)
    run = bare(model, [lengths], system=PROMPT, history="auto", **settings).run_sync("Make all.")
    assert run.status == "completed"
    assert_made_again(run, model.requests)
    return run, model


def compacted_in(run: Run) -> list[int]:
    return [round_.index for round_ in run.rounds if any(past.compacted is not None for past in round_.compactions)]


@pytest.mark.req("R2.36")
@pytest.mark.parametrize("size", [10, 100])
def test_overlong_prompt_does_not_trigger_a_summary_each_round(size: int) -> None:
    run, model = filled([size] * 4 * ROUNDS_BETWEEN)
    found = compacted_in(run)
    assert 1 <= len(model.asked) == len(found) <= 4
    assert all(later - before >= ROUNDS_BETWEEN for before, later in pairwise(found))


@pytest.mark.req("R2.36")
def test_large_new_content_triggers_another_summary_at_once() -> None:
    run, _ = filled([10, 10, 3_000, 3_000, 10, 10, 10])
    found = compacted_in(run)
    assert len(found) >= 2
    assert any(later - before < ROUNDS_BETWEEN for before, later in pairwise(found))


# Todos without a summary


def listing() -> list[Any]:
    """Return a script that writes a list of three todos and completes one."""
    script: list[Any] = [write("Read", "Count", "Write"), start(1), do(1), do(2), do(3), complete(1), start(2)]
    return [*script, do(4), do(5), do(6), do(7)]


def lists_then(run: Run) -> list[tuple[str, str]]:
    """Return the open todos at each request, and at the last compaction before it."""
    folded, found, noted = Run(), [], ""
    for event in run.events:
        if type(event).__name__ == "ModelReplied":
            found.append((format_with_heading(folded.todos) if has_open(folded.todos) else "", noted))
        folded.apply(event)
        if isinstance(event, ContextCompacted):
            noted = format_with_heading(folded.todos) if has_open(folded.todos) else ""
    return found


def texts_of(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


NONE: dict[str, Any] = {
    "empty": "",
    "blank": " \n ",
    "a call": do(1),
    "an error": RuntimeError("gone"),
    "an error of ours": ModelError("It is down", "Wait"),
    "an exit": SystemExit(1),
}


@pytest.mark.req("R2.34", "R2.35")
def test_open_todos_are_in_each_later_request_without_a_summary(subtests: pytest.Subtests) -> None:
    for why, summary in NONE.items():
        with subtests.test(why=why):
            model = Summarising([*listing(), "I stop here."], [summary])
            run = Agent(model, tools=[work], history=SMALL, guidance="off", max_rounds=len(listing())).run_sync(
                "Do three things."
            )
            assert compactions(run) and all(event.problem for event in compactions(run))
            assert_made_again(run, model.requests)
            known = 0
            for request, (_, noted) in zip(model.requests, lists_then(run), strict=True):
                if noted:
                    known += 1
                    assert noted in texts_of(request)
            assert known >= 4
            following = Summarising(["So."], [summary])
            goes_on = Agent(following, tools=[work], history=SMALL, guidance="off", max_rounds=1)
            more = goes_on.run_sync("And?", continue_from=run)
            assert format_with_heading(run.todos) in texts_of(following.requests[0])
            assert_made_again(more, following.requests)


@pytest.mark.req("R2.27", "R2.35")
def test_reminder_of_each_truncated_request_lists_open_todos() -> None:
    script = [*listing(), complete(2), start(3), do(8), complete(3), do(9), do(10), "All three are done."]
    model = Summarising(script)
    run = Agent(model, tools=[work], history=History(max_messages=8), guidance="off").run_sync("Do three things.")
    assert run.status == "completed" and model.asked == []
    assert_made_again(run, model.requests)
    with_list = without = 0
    for (_, seen), (due, _) in zip(sent_requests(run), lists_then(run), strict=True):
        last = seen.request.messages[-1].parts[-1]
        if seen.truncated and due:
            with_list += 1
            assert due in seen.ephemeral and last.text == seen.ephemeral  # type: ignore[union-attr]
        else:
            without += 1
            assert "Todos (" not in seen.ephemeral
    assert with_list >= 8 and without >= 6
    assert not any("<system-reminder>" in message.text for message in run.messages)


@pytest.mark.req("K2.6")
def test_ephemeral_text_follows_the_list_of_a_truncated_request() -> None:
    model = Summarising([*listing(), "I stop here."])
    run = Agent(model, tools=[work], history=History(max_messages=8), max_rounds=len(listing())).run_sync("Do three things.")
    assert_made_again(run, model.requests)
    seen = [one for _, one in sent_requests(run)][-1]
    assert seen.truncated and run.rounds[-1].note
    assert seen.ephemeral.index("Todos (") < seen.ephemeral.index(run.rounds[-1].note)
    assert len(seen.request.messages) <= 9


# The summary call


def exits() -> BaseException:
    return SystemExit(3)


def cancels() -> BaseException:
    return asyncio.CancelledError("of the library's own")


def stops() -> BaseException:
    return TimeoutError()


@pytest.mark.req("R2.34", "R2.35", "KX.11")
def test_any_summary_exception_leaves_the_run_without_a_summary(
    subtests: pytest.Subtests, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def check(begun: bool, raised: Any, way: str, tmp_path: Path) -> None:
        broken = Streamed(*["It was "] * begun, raised())
        store, model = Store(tmp_path / "runs"), Summarising([do(1), do(2), do(3), "Done."], [broken])
        agent = bare(model, [work], history=SMALL)
        run = agent.run_sync("go", store=store) if way == "run_sync" else agent.start("go", store=store).result(20)
        checked(run)
        assert (run.status, run.stop_reason, run.text, len(model.asked)) == ("completed", "natural", "Done.", 1)
        (event,) = compactions(run)
        assert event.compacted.text == "" and event.problem.startswith(type(raised()).__name__)
        assert len(run.warnings) == 1
        assert store.load(run.id) == run
        assert made_again(run) == made_again(store.load(run.id))
        assert_made_again(run, model.requests)

    for begun, raised, way in itertools.product([True, False], [exits, cancels, stops], ["run_sync", "start"]):
        with subtests.test(begun=begun, raised=raised.__name__, way=way):
            check(begun, raised, way, tmp_path_factory.mktemp("case"))


def fails(n: int = 0) -> str:
    """Always fails."""
    raise ValueError(f"no {n}")


@pytest.mark.req("R0.77", "R2.35", "R0.27")
def test_restored_rounds_before_a_summary_are_summarized_once(
    subtests: pytest.Subtests,
) -> None:
    for failed, kept in [*itertools.product([1, 2, 4, 6], [1, 3, 6, 9, 12])][:: size(3, nightly=1)]:
        with subtests.test(failed=failed, kept=kept):
            calls = [ToolCall("fails", {"n": number}) for number in range(failed)]
            before = History(compact_above=4, keep_recent=1, failed_rounds_above=1)
            first = bare(Summarising([*calls, do(1), do(2), do(3), "Done."]), [work, fails], history=before).run_sync("go")
            assert first.compacted is not None
            model = Summarising([*[do(number) for number in range(4, 10)], "Done."])
            then = History(compact_above=kept + 3, keep_recent=kept)
            run = bare(model, [work, fails], history=then).run_sync("And now?", continue_from=first)
            assert run.status == "completed" and run.compacted is not None and run.compacted.count > 0
            for request in model.requests:
                ids = [call.id for message in request.messages for call in message.calls]
                assert len(ids) == len(set(ids)) and are_whole(request.messages)
                sides = [message.role == "assistant" for message in request.messages]
                assert not sides[0] and all(one != other for one, other in pairwise(sides))
            assert_made_again(run, model.requests)
