"""A key that a tool or a model's error holds does not come into the run: not into an event, the log, a table, a request."""

from __future__ import annotations

import os
import threading
import traceback
from pathlib import Path

import pandas as pd
import pytest

from agentnb import settings, tables
from agentnb.agent.agent import Agent
from agentnb.context.request_builder import RequestBuilder
from agentnb.core.events import QuestionAnswered, QuestionAsked
from agentnb.core.messages import Image, Text, ToolCall
from agentnb.core.run import Run
from agentnb.core.todos import Todos
from agentnb.core.wire import encode
from agentnb.errors import ModelError
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.todos.board import TodoBoard
from agentnb.tools.tool import ToolContext, ToolOutcome
from agentnb.traces.store import Store

SECRET = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)


def returns() -> dict[str, str]:
    """Read the environment."""
    return {name: value for name, value in os.environ.items() if name.endswith("_KEY")}


async def returns_parts() -> ToolOutcome:
    """Give a text and a picture."""
    return ToolOutcome(True, (Text(f"key: {os.environ['ANTHROPIC_API_KEY']}"), Image("image/png", b"1")))


def raises() -> str:
    """Fail with a key in the words."""
    raise RuntimeError(f"401 for {os.environ['ANTHROPIC_API_KEY']}")


def raises_from() -> str:
    """Fail with a key in the words of the cause."""
    try:
        return raises()
    except RuntimeError as error:
        raise ValueError("no luck") from error


def run_with(*tools: object, store: Store | None = None, call: str = "") -> tuple[Run, ScriptedModel]:
    model = ScriptedModel([ToolCall(call or tools[0].__name__), "Done."])  # type: ignore[attr-defined]
    run = Agent(model, tools=tools).run_sync("go", store=store)
    assert run.status == "completed"
    return run, model


def events_of(run: Run) -> str:
    return "\n".join(encode(event).decode() for event in run.events)


@pytest.mark.parametrize("function", [returns, returns_parts, raises, raises_from])
def test_what_a_tool_says_of_a_key_is_nowhere(tmp_path: Path, function: object) -> None:
    run, model = run_with(function, store=Store(tmp_path / "runs"))
    shown = [table(run).to_csv() for table in (tables.tool_calls, tables.messages, tables.rounds, tables.runs)]
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "[key]" in events_of(run) and b"[key]" in files
    assert SECRET not in events_of(run) + "".join(shown)
    assert SECRET.encode() not in files
    assert SECRET not in repr([(request.system, list(request.messages)) for request in model.requests])


def test_the_rest_of_a_result_stays_as_it_is() -> None:
    run, _ = run_with(returns_parts)
    assert run.rounds[0].results[0].parts == (Text("key: [key]"), Image("image/png", b"1"))


def test_a_table_for_the_person_does_not_show_a_key_either(tmp_path: Path) -> None:
    def look() -> pd.DataFrame:
        return pd.DataFrame({"value": [f"key: {SECRET}", "x", 1.5], SECRET: [1, 2, 3]}, index=[SECRET, "b", "c"])

    run, _ = run_with(look, store=Store(tmp_path / "runs"))
    display = run.rounds[0].records[0].display
    assert display is not None and display.columns == ("value", "[key]")
    assert display.rows == (("[key]", "key: [key]", 1), ("b", "x", 2), ("c", 1.5, 3))
    assert SECRET not in events_of(run)
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_tool_that_is_not_there_does_not_bring_its_name_into_the_result() -> None:
    run, _ = run_with(returns, call=SECRET)
    assert SECRET not in run.rounds[0].results[0].text


def test_all_keys_that_are_known_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "or-0123456789")
    settings.find_key("OPENROUTER_API_KEY")
    settings.keep_key("openai", "kept-0123456789")

    def tell() -> str:
        return f"{SECRET} or-0123456789 kept-0123456789"

    run, _ = run_with(tell)
    assert run.rounds[0].results[0].text == "[key] [key] [key]"


def test_without_keys_a_result_is_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    def tell() -> str:
        return SECRET

    assert run_with(tell)[0].rounds[0].results[0].text == SECRET


ERRORS = [RuntimeError(f"illegal header {SECRET}"), ModelError(f"no {SECRET}", f"take {SECRET}")]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_the_model_in_the_first_round_does_not_show_a_key(error: Exception) -> None:
    with pytest.raises(ModelError) as caught:
        Agent(ScriptedModel([error])).run_sync("go")
    told = str(caught.value) + repr(caught.value) + "".join(traceback.format_exception(caught.value))
    assert "[key]" in str(caught.value) and SECRET not in told
    assert caught.value.run is not None and SECRET not in events_of(caught.value.run)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_the_model_later_does_not_bring_a_key_into_the_run(error: Exception) -> None:
    run = Agent(ScriptedModel([ToolCall("returns"), error]), tools=[returns]).run_sync("go")
    assert run.status == "failed"
    assert "[key]" in str(run.error) and SECRET not in str(run.error) + events_of(run)


def test_an_error_of_our_own_does_not_bring_a_key_into_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*given: object, **more: object) -> None:
        raise RuntimeError(f"a bug with {SECRET}")

    monkeypatch.setattr(RequestBuilder, "request", broken)
    with pytest.raises(RuntimeError):
        Agent(ScriptedModel(["Done."])).run_sync("go", store=Store(tmp_path / "runs"))
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"a bug with [key]" in files and SECRET.encode() not in files


@pytest.mark.req("R2.38")
@pytest.mark.parametrize("file", ["CLAUDE.md", "AGENT.md", "AGENTS.md"])
def test_a_key_in_the_instructions_of_a_repository_is_nowhere(tmp_path: Path, file: str) -> None:
    repo, store = tmp_path / "repo", Store(tmp_path / "runs")
    repo.mkdir()
    (repo / file).write_text(f"Be kind. export ANTHROPIC_API_KEY={SECRET}", encoding="utf-8")
    model = ScriptedModel([ToolCall("tells"), "Done."])

    def tells() -> str:
        """Tell nothing."""
        return "nothing"

    agent = Agent(model, tools=[tells], work_dir=repo)
    run = agent.run_sync("go", store=store)
    following = ScriptedModel(["Well."])
    more = Agent(following, tools=[tells], work_dir=repo).run_sync("on", store=store, continue_from=run)
    assert "Be kind. export ANTHROPIC_API_KEY=[key]" in run.system
    told = [agent.first_request("go"), *model.requests, *following.requests]
    assert all("[key]" in request.system and SECRET not in request.system for request in told)
    files = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert SECRET not in events_of(run) + events_of(more) + run.system + more.system
    assert b"[key]" in files and SECRET.encode() not in files


# Beside results


def test_a_board_that_cannot_be_read_is_warned_of_without_a_key_in_the_words(tmp_path: Path) -> None:
    class Broken(TodoBoard):
        def read(self) -> Todos:
            raise OSError(f"401 for {SECRET}")

    store = Store(tmp_path)
    run = Agent(ScriptedModel(["Done."]), todos=Broken()).run_sync("go", store=store)
    assert len(run.warnings) == 1 and "[key]" in run.warnings[0]
    assert SECRET not in store.path(run.id).read_text(encoding="utf-8")


def test_questions_and_answers_stand_in_the_log_without_a_key_and_the_tool_gets_the_answer_as_it_is(tmp_path: Path) -> None:
    got: list[str] = []

    async def asks(context: ToolContext) -> str:
        """Asks."""
        got.append(await context.ask(f"Is it {SECRET}?"))
        return got[0]

    store, asked = Store(tmp_path), threading.Event()
    watch = lambda item: asked.set() if isinstance(item, QuestionAsked) else None  # noqa: E731
    live = Agent(ScriptedModel([ToolCall("asks"), "Done."]), tools=[asks]).start("go", store=store, watch=watch)
    assert asked.wait(20)
    live.answer(f"It is {SECRET}")
    run = live.result(20)
    assert got == [f"It is {SECRET}"] and run.rounds[0].results[0].text == "It is [key]"
    (question,) = [event.question for event in run.events if isinstance(event, QuestionAsked)]
    (answer,) = [event.answer for event in run.events if isinstance(event, QuestionAnswered)]
    assert (question.message, answer) == ("Is it [key]?", "It is [key]")
    assert SECRET not in store.path(run.id).read_text(encoding="utf-8")
