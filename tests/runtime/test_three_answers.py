"""Accept, decline and cancel as answers; askers; and questions with a URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asserted_sentences import Snapshot
from run_checks import results
from waiting import wait_until

from agentnb.agent.agent import Agent
from agentnb.core.log.events import QuestionAnswered
from agentnb.core.messages import ToolCall
from agentnb.core.questions import DONE, WaitingOnUser
from agentnb.detect.run import Run
from agentnb.errors import Declined, QuestionCancelled, SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun
from agentnb.tools.ask_person import ask_person
from agentnb.tools.function import FunctionTool
from agentnb.tools.tool import ToolContext
from agentnb.workflow.workflow import Workflow

LONG = 10.0
URL = "https://accounts.example.org/connect?state=1"


async def colour(context: ToolContext) -> str:
    """Ask for a colour."""
    return f"They said {await context.ask('Which colour?')}"


async def careful(context: ToolContext) -> str:
    """Ask, and catch that there is no answer."""
    try:
        return str(await context.ask("Well?"))
    except Declined as error:
        return type(error).__name__


async def connect(context: ToolContext) -> str:
    """Send the person to an address."""
    return f"ask_url returned {await context.ask_url('Connect your account', URL)}"


def connect_plainly(context: ToolContext) -> str:
    """Send the person to an address, from a plain function."""
    return f"ask_url returned {context.ask_url_sync('Connect your account', URL)}"  # type: ignore[func-returns-value]


def agent(asks: Any, arguments: dict[str, Any] | None = None) -> Agent:
    name = asks.spec.name if isinstance(asks, FunctionTool) else asks.__name__
    return Agent(ScriptedModel([[ToolCall(name, arguments or {})], "Done."]), tools=[asks], guidance="off", todos=False)


def asked(asks: Any, arguments: dict[str, Any] | None = None) -> LiveRun:
    """Return a run that has just asked."""
    live = agent(asks, arguments).start("go")
    wait_until(lambda: bool(live.run.waiting) or live.done)
    return live


def told(run: Run) -> tuple[str | None, str]:
    return results(run)[0].error_code, results(run)[0].text


def test_model_is_informed_of_answer_decline_or_cancellation(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    answers: dict[str, Callable[[LiveRun], None]] = {
        "answered": lambda live: live.answer("red"),
        "declined": lambda live: live.decline(),
        "cancelled": lambda live: live.cancel_question(),
    }
    for outcome, give in answers.items():
        for asks, arguments in ((colour, {}), (ask_person, {"question": "Which colour?"})):
            with subtests.test(outcome, asks=asks.__name__):
                live = asked(asks, arguments)
                give(live)
                run = live.result(LONG)
                assert run.questions[0].outcome == outcome and run.questions[0].has_answer
                assert told(run)[1] == snapshot(f"{outcome} {asks.__name__}")
                assert Run.from_events(run.events).questions == run.questions
                (event,) = (one for one in run.events if isinstance(one, QuestionAnswered))
                assert event.declined == (outcome != "answered"), "older versions read a cancelled question as declined"


def test_catching_declined_also_catches_a_cancelled_question() -> None:
    for give, name in ((LiveRun.decline, "Declined"), (LiveRun.cancel_question, "QuestionCancelled")):
        live = asked(careful)
        give(live)
        assert told(live.result(LONG)) == (None, name)


def test_answering_function_may_decline_or_cancel(subtests: pytest.Subtests) -> None:
    def raises(error: type[Declined]) -> Callable[[WaitingOnUser], Any]:
        def answer(question: WaitingOnUser) -> Any:
            raise error("No")

        return answer

    for answer, outcome in (
        (raises(Declined), "declined"),
        (raises(QuestionCancelled), "cancelled"),
        (lambda question: None, "declined"),
    ):
        with subtests.test(outcome):
            run = agent(colour).run_sync("go", answer=answer)
            assert [(one.outcome, one.by) for one in run.questions] == [(outcome, "program")]
            assert told(run)[0] == "declined"


def test_question_names_the_tool_or_server_that_asks(subtests: pytest.Subtests) -> None:
    of_a_server = FunctionTool(colour, name="mcp_clock_set")
    of_a_server.asker_name = "MCP server clock"  # type: ignore[attr-defined]
    for asks, name in ((colour, "colour"), (of_a_server, "MCP server clock"), (connect, "connect")):
        with subtests.test(name):
            live = asked(asks)
            assert live.run.waiting[0].asked_by == name
            live.stop()
            live.result(LONG)


def test_human_step_can_be_answered_declined_or_cancelled(subtests: pytest.Subtests) -> None:
    answers: dict[str, tuple[Callable[[LiveRun], None], str]] = {
        "answered": (lambda live: live.answer("red"), "completed"),
        "declined": (lambda live: live.decline(), "failed"),
        "cancelled": (lambda live: live.cancel_question(), "failed"),
    }
    for outcome, (give, status) in answers.items():
        with subtests.test(outcome):
            live = Workflow.from_yaml("workflow: [{id: colour, type: human, ask: Which colour?}]").start()
            wait_until(lambda live=live: bool(live.run.waiting) or live.done)  # type: ignore[misc]
            assert live.run.waiting[0].asked_by == "colour"
            give(live)
            run = live.result(LONG)
            assert (run.questions[0].outcome, run.status) == (outcome, status)
            assert "assumptions" not in str(run.error), "that advice is for a model"


def test_question_with_an_address_is_accepted_declined_or_cancelled(subtests: pytest.Subtests) -> None:
    answers: dict[str, tuple[Callable[[LiveRun], None], str | None]] = {
        "answered": (lambda live: live.answer("done"), None),
        "declined": (lambda live: live.decline(), "declined"),
        "cancelled": (lambda live: live.cancel_question(), "declined"),
    }
    for outcome, (give, code) in answers.items():
        for asks in (connect, connect_plainly):
            with subtests.test(outcome, asks=asks.__name__):
                live = asked(asks)
                (question,) = live.run.waiting
                assert (question.url, question.schema, question.kind) == (URL, DONE, "elicitation")
                with pytest.raises(SettingsError):
                    live.answer(True)
                give(live)
                run = live.result(LONG)
                assert told(run)[0] == code and run.questions[0].outcome == outcome
                assert code or told(run)[1] == "ask_url returned None"


def test_tool_cannot_ask_to_open_an_unsafe_address(subtests: pytest.Subtests) -> None:
    for url in ("javascript:alert(1)", "file:///etc/passwd", "example.org", "https://bank.example@evil.example/"):

        async def connect_there(context: ToolContext, url: str = url) -> None:
            """Send the person elsewhere."""
            await context.ask_url("Connect", url)

        with subtests.test(url):
            run = agent(connect_there).run_sync("go", answer=lambda question: "done")
            assert told(run)[0] == "tool_error" and "cannot be opened" in told(run)[1] and not run.questions
