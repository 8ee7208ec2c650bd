"""Runs whose model fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from package_paths import OWN_FRAMES
from run_checks import assert_closed, checked, kinds, results
from scripted_runs import add, bare, reply
from streamed_replies import Streamed, Streaming

from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent, Delta, ErrorRaised, TextDelta
from agentnb.core.messages import Text, ToolCall
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.text import run_text
from agentnb.errors import MissingKey, ModelError, ScriptEnded
from agentnb.models import RemoteModel, make_model
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.models.transport.retry import RetryPolicy
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.store.store import Store
from agentnb.testing import ErrorInStream, LoopbackServer

ADD = ToolCall("add", {"a": 1, "b": 2})


@pytest.mark.req("R0.12")
def test_failure_in_first_round_raises_with_a_closed_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises(ModelError, match="boom") as caught:
        Agent(ScriptedModel([RuntimeError("boom")])).run_sync("go", store=store)
    run = caught.value.run
    assert run is not None
    assert (run.status, run.stop_reason, run.rounds[0].status) == ("failed", "error", "error")
    assert kinds(run)[-3:] == ["ErrorRaised", "RoundFinished", "RunFinished"]
    assert_closed(run)
    assert store.load(run.id) == run


class Own:
    """A user-defined model that streams these items; the last may be an error."""

    name = "own:model"

    def __init__(self, *items: object) -> None:
        self.items = items

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        for item in self.items:
            if isinstance(item, Exception):
                load_the_weights(item)
            yield item


def load_the_weights(error: Exception) -> None:
    raise error


def test_error_in_a_custom_model_shows_its_traceback(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises(ModelError, match="own:model failed: RuntimeError: no GPU") as caught:
        Agent(Own(RuntimeError("no GPU"))).run_sync("go", store=store)
    run = caught.value.run
    assert isinstance(run, Run) and run.error is not None
    traceback = run.error.traceback
    assert "load_the_weights" in traceback and "in stream" in traceback and OWN_FRAMES not in traceback
    assert store.load(run.id).error == run.error and "run.error.traceback" in str(caught.value)
    assert "Traceback of your model" in run_html(run) and "load_the_weights" in run_html(run)
    assert "load_the_weights" not in run_text(run)


def test_error_outside_user_code_has_no_traceback() -> None:
    with pytest.raises(ModelError) as caught:
        Agent(ScriptedModel([RuntimeError("boom")])).run_sync("go")
    run = caught.value.run
    assert isinstance(run, Run) and run.error is not None and (run.error.traceback, run.error.hint) == ("", "")


def test_invalid_stream_item_error_lists_the_expected_types(subtests: pytest.Subtests) -> None:
    class Returns:
        name = "own:returns"

        async def stream(self, request: Request) -> Reply:
            return reply("Hello.")

    wrong: dict[str, tuple[Any, str]] = {
        "text": (Own("hello"), "own:model yielded 'hello', of type str"),
        "a part": (Own(Text("hello")), "own:model yielded Text(text='hello', provider_metadata=None), of type Text"),
        "nothing": (Own(), "own:model ended its stream without a reply"),
        "a reply of text": (Own(Reply("hello")), "The reply of own:model has no Message"),  # type: ignore[arg-type]
        "no stream": (Returns(), "stream() of own:returns must be an async generator; it returned a coroutine"),
    }
    for name, (model, what) in wrong.items():
        with subtests.test(name):
            with pytest.raises(ModelError) as caught:
                Agent(model).run_sync("go")
            assert str(caught.value).startswith(what) and 'finally Reply(Message("assistant"' in caught.value.hint


@pytest.mark.req("R0.12")
def test_failure_in_a_later_round_returns_the_partial_run() -> None:
    run = Agent(ScriptedModel([["I add.", ADD], RuntimeError("boom")]), tools=[add]).run_sync("go")
    assert (run.status, run.stop_reason) == ("failed", "error")
    assert [a.status for a in run.rounds] == ["success", "error"]
    assert run.error is not None and (run.error.type, "boom" in str(run.error)) == ("ModelError", True)
    assert run.text == "I add."
    assert [result.text for result in results(run)] == ["3"]
    checked(run)


@pytest.mark.req("R0.12")
def test_failing_first_round_of_a_continued_run_raises() -> None:
    before = Agent(ScriptedModel(["One."])).run_sync("one")
    with pytest.raises(ModelError):
        Agent(ScriptedModel([RuntimeError("boom")])).run_sync("two", continue_from=before)


@pytest.mark.req("R0.12")
def test_script_that_ends_too_early_is_reported() -> None:
    with pytest.raises(ScriptEnded, match="has 0 replies"):
        Agent(ScriptedModel([])).run_sync("go")


@pytest.mark.req("R0.12", "R0.13")
def test_interrupted_stream_keeps_partial_reply(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises(ModelError, match="ConnectionError: gone") as caught:
        Agent(Streaming([Streamed("Half ", "an answer", ConnectionError("gone"))])).run_sync("go", store=store)
    run = caught.value.run
    assert run is not None
    assert (run.text, run.rounds[0].stop_reason, run.rounds[0].status) == ("Half an answer", "broken_off", "error")
    assert run.messages[-1].text == "Half an answer"
    assert store.load(run.id).text == "Half an answer"
    assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.req("R0.12")
def test_interrupted_stream_in_a_later_round_keeps_partial_reply() -> None:
    run = Agent(Streaming([ADD, Streamed("Half", ConnectionError("gone"))]), tools=[add]).run_sync("go")
    assert (run.status, run.text, run.rounds[1].stop_reason) == ("failed", "Half", "broken_off")


def test_stream_interrupted_before_any_text_keeps_no_reply() -> None:
    with pytest.raises(ModelError) as caught:
        Agent(Streaming([Streamed(ConnectionError("gone"))])).run_sync("go")
    assert caught.value.run is not None
    assert "ModelReplied" not in kinds(caught.value.run)


@pytest.mark.req("R0.12")
def test_stream_without_a_final_reply_fails_the_run() -> None:
    with pytest.raises(ModelError, match="without a reply") as caught:
        Agent(Streaming([Streamed("Half")])).run_sync("go")
    assert caught.value.run is not None and caught.value.run.text == "Half"


@pytest.mark.req("R0.12")
def test_failed_run_can_be_continued() -> None:
    failed = Agent(ScriptedModel([ADD, RuntimeError("boom")]), tools=[add]).run_sync("go")
    model = ScriptedModel(["It is 3."])
    run = bare(model, [add]).run_sync("again", continue_from=failed)
    assert run.text == "It is 3."
    assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool"]
    assert model.requests[0].messages[-1].text == "again"


@pytest.mark.req("R0.12")
@pytest.mark.parametrize("error", [asyncio.CancelledError("mine"), SystemExit(2)], ids=["CancelledError", "SystemExit"])
def test_log_is_closed_whatever_the_model_raises(error: BaseException, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises((ModelError, type(error))):
        Agent(Streaming([Streamed("Half", error)])).run_sync("go", store=store)
    assert_closed(store.load(store.ids()[0]))
    assert store.load(store.ids()[0]).status != "interrupted"


@pytest.mark.req("R0.12")
def test_model_that_raises_cancelled_error_itself_fails_the_run() -> None:
    with pytest.raises(ModelError):
        Agent(Streaming([Streamed(asyncio.CancelledError("mine"))])).run_sync("go")


@pytest.mark.req("R0.12")
def test_agentnb_error_raised_in_a_model_fails_the_run() -> None:
    run = Agent(ScriptedModel([ToolCall("look"), MissingKey("No key")]), tools=[look_around]).run_sync("go")
    assert (run.status, run.error and run.error.type) == ("failed", "MissingKey")
    assert [event.where for event in run.events if isinstance(event, ErrorRaised)] == ["model"]
    with pytest.raises(MissingKey):
        Agent(ScriptedModel([MissingKey("No key")])).run_sync("go")


def look_around() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("kind", ["a coroutine", "a wrong message"])
def test_invalid_model_is_refused_with_a_working_example(kind: str) -> None:
    class Wrong:
        name = "own:wrong"

        async def stream(self, request: object) -> object:
            return None

    class Words:
        name = "own:words"

        async def stream(self, request: object) -> object:
            yield Reply("hello")  # type: ignore[arg-type]

    with pytest.raises(
        ModelError, match=r"with yield\. Optionally yield TextDelta|has no Message\. Optionally yield TextDelta"
    ):
        Agent(Wrong() if kind == "a coroutine" else Words()).run_sync("go")  # type: ignore[arg-type]


@pytest.mark.req("KX.2", "KX.9")
def test_cost_of_an_interrupted_reply_is_estimated_by_model() -> None:
    budget, runs = Budget(5.0, name="session_budget"), list[LiveRun]()
    begun = threading.Event()

    def stop(item: AnyEvent | Delta) -> None:
        if isinstance(item, TextDelta):
            begun.wait(20)
            runs[0].stop("enough")

    agent = Agent("simulated:disciplined?delay=0.02&price=1000/2000")
    runs.append(agent.start("Count the words, one by one.", RunOptions(watch=stop, budget=budget, can_ask=True)))
    begun.set()
    run = runs[0].result(20)
    assert (run.status, run.rounds[0].stop_reason) == ("cancelled", "broken_off")
    usage = run.usage
    assert usage.estimated and usage.input and usage.output and run.text
    assert run.cost == pytest.approx((usage.input * 1_000 + usage.output * 2_000) / 1e6)
    assert budget.spent == pytest.approx(run.cost)


@pytest.mark.req("KX.9")
def test_interrupted_stream_costs_are_estimated_if_priced(subtests: pytest.Subtests) -> None:
    for wire in ["anthropic", "openai", "openai-responses", "compatible"]:
        with subtests.test(wire=wire):
            for price, known in (("1000/2000", True), (None, False)):
                with LoopbackServer([ErrorInStream(line="One two three four", after=6)] * 5) as server:
                    model = make_model(server.model(wire, **({"price": price} if price else {})))
                    assert isinstance(model, RemoteModel)
                    model.retries = RetryPolicy(trouble_first=0.001)
                    with pytest.raises(ModelError) as caught:
                        Agent(model).run_sync("go")
                run = caught.value.run
                assert run is not None and run.rounds[0].stop_reason == "broken_off"
                assert run.usage.estimated and (run.usage.output or 0) > 0
                assert (run.cost is not None and run.cost > 0) == known
