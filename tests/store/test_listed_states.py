"""State and outcome of runs in lists: the words of the card, from the ends of a log and from all of it."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_builder import RunBuilder
from todo_calls import complete, start, write

from agentnb import Agent, Run, Store, ToolCall, Workflow
from agentnb.core.log import events as e
from agentnb.core.log.outcome import Assessment
from agentnb.display.card.text import head_line
from agentnb.display.lists.history_list import history_text, matches, status_html, status_words
from agentnb.display.parts.head import tone
from agentnb.display.texts.states import chip, outcome_with_source, outcome_words, with_outcome
from agentnb.models import ScriptedModel
from agentnb.notebook.commands.history_command import families_known_here
from agentnb.rerun.expect import expectations_extension

CLOSED = "All is done.\n[WORKFLOW_COMPLETE]"


def look() -> str:
    """Look."""
    return "a hat"


def ran(store: Store, *replies: Any, tools: Any = (look,), **how: Any) -> Run:
    return Agent(ScriptedModel([*replies]), tools=[*tools], **how).run_sync("go", store=store, show=False)


def test_lists_and_cards_use_the_same_word_per_status(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path)
    ends = {
        "Done, not checked": ran(store, "Done."),
        "Done, 1 call failed": ran(store, [ToolCall("look", {"at": "me"}, "c1")], "Done."),
        "Done, 1 call rejected": ran(store, [ToolCall("look", {}, "c1")], "Done.", permissions={"look": "deny"}),
        "Done, todos open": ran(
            store, [write("one", "two"), start(1)], complete(1), *["All is done.\n[WORKFLOW_COMPLETE]"] * 3
        ),
        "Limit reached: 2 rounds": ran(store, *[[ToolCall("look", {}, f"c{n}")] for n in range(3)], max_rounds=2),
        "Done, 1 step used a substitute": Workflow.from_yaml(
            "workflow:\n  - {type: agent, name: a, on_error: {continue: none}}", agents={"a": Agent(ScriptedModel([]))}
        ).run_sync("go", store=store, show=False),
        "Limit reached: 1 tool call": ran(store, *[[ToolCall("look", {}, f"c{n}")] for n in range(3)], max_tool_calls=1),
    }
    for words, run in ends.items():
        path = store.path(run.id)
        whole = path.read_text("utf-8")
        all_of_it, earlier = whole.replace('"totals"', '"others"'), re.sub(r',"substitutes":\d', "", whole)
        for name, text in {"its ends": whole, "all of it": all_of_it, "an earlier version": earlier}.items():
            with subtests.test(f"{words}, from {name}"):
                path.write_text(text, "utf-8")
                row = store.summary(run.id)
                assert status_words(row) == chip(run) == words
                assert f"agentnb-{tone(run)}" in status_html(row)
                assert f" {words} " in history_text([row], "")


def test_waiting_run_is_listed_as_waiting_even_without_a_process(tmp_path: Path) -> None:
    store, seen, started = Store(tmp_path), [], threading.Event()

    async def main() -> Run:
        def watch(event: object) -> None:
            if isinstance(event, e.QuestionAsked):
                started.wait()  # on another thread, possibly earlier
                seen.append(store.summary(live.run_id))
                live.suspend()

        agent = Agent(ScriptedModel([[ToolCall("look", {}, "c1")], "Done."]), tools=[look])
        live = agent.start("go", store=store, watch=watch, approve="ask", suspend=True, show=False)
        started.set()
        return await live

    run = asyncio.run(main())
    (during,) = seen
    after = store.summary(run.id)
    assert (during.status, status_words(during), during.can_be_answered) == ("waiting_on_user", "Waiting for you", False)
    assert (after.status, status_words(after), after.can_be_answered) == ("waiting_on_user", "Waiting for you", True)
    assert chip(run) == "Waiting for you"


def test_live_run_of_this_kernel_is_listed_with_its_state(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path)
    logged = ran(store, "Done.")
    question = e.WaitingOnUser(id="q1", kind="text", message="Publish?", schema={})
    waiting = RunBuilder("go", run_id=logged.id).add(e.QuestionAsked, question=question)
    paused = RunBuilder("go", run_id=logged.id).add(e.CommandReceived, command="pause")
    for words, run in {"Waiting for you": waiting.run, "Paused": paused.run, "Done, not checked": logged}.items():
        with subtests.test(words):
            session = SimpleNamespace(store=store, running=lambda run=run: [SimpleNamespace(run_id=run.id, run=run)])
            ((row,),) = families_known_here(session)  # type: ignore[arg-type]  # what it reads of a session
            assert status_words(row) == words


def test_outcome_is_listed_with_the_state_and_can_be_filtered(tmp_path: Path) -> None:
    store = Store(tmp_path)
    failed = ran(store, "Done.", extensions=[expectations_extension(["tool_calls > 0"])])
    passed = ran(store, "Done.", extensions=[expectations_extension(["tool_calls == 0"])])
    plain = ran(store, "Done.")
    rows = [store.summary(run.id) for run in (failed, passed, plain)]
    text = history_text(rows, "").splitlines()
    assert "Done, expectation failed" in text[1] and "Done, expectation passed" in text[2] and "expectation" not in text[3]
    assert [matches(row, [], "failed") for row in rows] == [True, False, False]
    assert [matches(row, ["passed"]) for row in rows] == [False, True, False]
    assert head_line(failed).startswith("Done, expectation failed: ") and head_line(plain).startswith("Done, not checked: ")
    assert [outcome_with_source(run) for run in (failed, passed, plain)] == [
        "failed: tool_calls > 0",
        "passed: tool_calls == 0",
        "",
    ]


def test_outcome_text_names_its_source(subtests: pytest.Subtests) -> None:
    cases = {
        "reward 0": Assessment("failed", "trace", "reward", 0.0),
        "reward 0.25": Assessment("unknown", "trace", "reward", 0.25),
        "is_correct false": Assessment("failed", "trace", "is_correct"),
        "match, f1 differ": Assessment("unknown", "trace", "match, f1"),
        "expectation passed": Assessment("passed", "expectation", "rounds == 1"),
        "label failed": Assessment("failed", "label", "ada"),
        "": None,
    }
    for words, assessment in cases.items():
        with subtests.test(words):
            assert outcome_words(assessment) == words
            assert with_outcome("Done", assessment) == ("Done, " + words if words else "Done")
