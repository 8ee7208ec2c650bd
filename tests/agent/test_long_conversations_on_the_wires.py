"""Compaction and the final answer with a server as strict as the providers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from request_promises import broken_promises
from run_checks import checked
from scripted_runs import bare, do, work
from summarising import SUMMARY, compactions

from agentnb import History
from agentnb.core.log.events import RetryScheduled
from agentnb.detect.run import Run
from agentnb.errors import ContextOverflow
from agentnb.models import RemoteModel, make_model
from agentnb.models.transport.retry import RetryPolicy
from agentnb.testing import Answer, Cut, EmptyReply, ErrorInStream, LoopbackServer, Received, Status, overflow

QUICK = RetryPolicy(rate_limit_first=0.001, trouble_first=0.001, trouble_retries=1, rate_limit_retries=1)
each_wire = pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
pytestmark = pytest.mark.usefixtures("own_limiters")
each_format = pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses", "compatible"])
SMALL = History(compact_above=6, keep_recent=2)


def is_for_a_summary(body: dict[str, Any]) -> bool:
    return SUMMARY[:60] in str(body)


def answering(replies: list[Any], summaries: list[Any]) -> Callable[[dict[str, Any]], Any]:
    """Return a script of replies to rounds and to summary requests."""
    rounds, words = list(replies), list(summaries)

    def answer(body: dict[str, Any]) -> Any:
        return words.pop(0) if is_for_a_summary(body) else rounds.pop(0)

    return answer


def model_of(server: LoopbackServer, provider: str, **options: Any) -> RemoteModel:
    model = make_model(server.model(provider, **options))
    assert isinstance(model, RemoteModel)
    model.retries = QUICK
    return model


def told(server: LoopbackServer, *, refused: int = 0) -> tuple[list[Received], list[Received]]:
    """Return round and summary requests, after checking that all were valid and none refused."""
    for request in server.requests:
        assert request.problems == ()
        assert list(broken_promises(request.wire, request.body)) == []
    assert sum(request.answered == 400 for request in server.requests) == refused
    rounds = [request for request in server.requests if not is_for_a_summary(request.body)]
    return rounds, [request for request in server.requests if is_for_a_summary(request.body)]


def count(request: Received) -> int:
    """Count the messages of a request, as on the Messages wire."""
    if request.wire == "messages":
        return len(request.body["messages"])
    return len(request.body.get("messages", request.body.get("input")))


def goes_well(run: Run) -> None:
    checked(run)


@each_format
@pytest.mark.parametrize("stream", ["yes", "no"])
@pytest.mark.req("R2.34", "R2.35")
def test_summary_request_and_following_requests_are_valid(provider: str, stream: str) -> None:
    script = answering([*[do(number) for number in range(8)], "Done."], ["One was made.", "Two were made.", "Three.", "Four."])
    with LoopbackServer(script, minimal=provider == "compatible") as server:
        run = bare(model_of(server, provider, stream=stream), [work], history=SMALL).run_sync("Make all.")
    goes_well(run)
    rounds, asked = told(server)
    assert run.status == "completed" and len(rounds) == 9 and len(asked) == len(compactions(run)) >= 3
    for request in asked:
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & request.body.keys()
    assert "Three." in str(rounds[-1].body) or "Two were made." in str(rounds[-1].body)
    assert all(event.usage.input and event.usage.output for event in compactions(run))
    assert run.usage.input == sum(round.usage.input or 0 for round in run.rounds if round.usage) + sum(
        event.usage.input or 0 for event in compactions(run)
    )


@each_wire
@pytest.mark.req("R2.34")
def test_thinking_model_with_a_thinking_budget_can_summarize(provider: str) -> None:
    options: dict[str, Any] = {"thinking": 8_000} if provider == "anthropic" else {"effort": "high"}
    with LoopbackServer(answering([do(1), do(2), do(3), "Done."], ["Well."])) as server:
        run = bare(model_of(server, provider, **options), [work], history=SMALL).run_sync("Make all.")
    told(server)
    assert [event.problem for event in compactions(run)] == [""]


@each_wire
@pytest.mark.req("R2.36")
def test_context_overflow_compacts_once_and_retries(provider: str) -> None:
    script = answering([do(1), do(2), do(3), overflow(), do(4), "Done."], ["It was made."])
    with LoopbackServer(script) as server:
        run = bare(model_of(server, provider), [work]).run_sync("Make all.")
    goes_well(run)
    rounds, asked = told(server, refused=1)
    assert (run.status, run.text, len(asked)) == ("completed", "Done.", 1)
    assert [event.why for event in compactions(run)] == ["overflow"]
    refused, again = rounds[3], rounds[4]
    assert refused.answered == 400 and again.answered == 200 and count(again) < count(refused)
    assert "It was made." in str(again.body) and "Make all." in str(again.body)


@each_wire
@pytest.mark.req("R2.36")
def test_second_context_overflow_fails_but_run_can_be_continued(provider: str) -> None:
    script = answering([do(1), do(2), do(3), overflow(), overflow(), "On it goes."], ["It was made."])
    with LoopbackServer(script) as server:
        model = model_of(server, provider)
        run = bare(model, [work]).run_sync("Make all.")
        following = bare(model, [work]).run_sync("Go on.", continue_from=run)
    goes_well(run)
    told(server, refused=2)
    assert (run.status, len(compactions(run))) == ("failed", 1)
    assert run.error is not None and run.error.type == "ContextOverflow" and run.error.hint
    assert following.text == "On it goes." and following.compacted == run.compacted


@each_wire
@pytest.mark.req("R2.36")
def test_first_request_of_a_continued_run_can_be_compacted(provider: str) -> None:
    script = answering([do(1), do(2), do(3), "Done.", overflow(), "On it goes."], ["It was made."])
    with LoopbackServer(script) as server:
        model = model_of(server, provider)
        run = bare(model, [work]).run_sync("Make all.")
        following = bare(model, [work]).run_sync("Go on.", continue_from=run)
    told(server, refused=1)
    assert following.text == "On it goes." and [event.why for event in compactions(following)] == ["overflow"]


@each_wire
def test_overflow_with_a_single_message_is_an_error(provider: str) -> None:
    with LoopbackServer([overflow()]) as server:
        with pytest.raises(ContextOverflow) as caught:
            bare(model_of(server, provider), [work]).run_sync("Make all.")
    assert caught.value.hint
    assert len(server.requests) == 1


@each_wire
@pytest.mark.req("R2.34", "KX.9")
def test_transient_summary_failure_is_retried(provider: str) -> None:
    script = answering([do(1), do(2), do(3), "Done."], [Status(529), "It was made."])
    with LoopbackServer(script) as server:
        run = bare(model_of(server, provider), [work], history=SMALL).run_sync("Make all.")
    goes_well(run)
    assert len(told(server)[1]) == 2
    (retry,) = [event for event in run.events if isinstance(event, RetryScheduled)]
    assert retry.status == 529
    assert compactions(run)[0].compacted.text.endswith("It was made.")


@each_wire
@pytest.mark.req("R2.34")
@pytest.mark.parametrize(
    "line",
    [EmptyReply(), do(1), overflow(), Cut(), ErrorInStream(), Answer("", stop_reason="refusal")],
    ids=lambda line: type(line).__name__,
)
def test_failed_summary_keeps_first_and_last_messages(provider: str, line: Any) -> None:
    script = answering([do(1), do(2), do(3), "Done."], [line] * 2)
    with LoopbackServer(script) as server:
        run = bare(model_of(server, provider), [work], history=SMALL).run_sync("Make all.")
    goes_well(run)
    rounds, _ = told(server, refused=sum(request.answered == 400 for request in server.requests))
    assert (run.status, run.text) == ("completed", "Done.")
    (event,) = compactions(run)
    assert event.compacted.text == "" and event.problem
    assert len(run.warnings) == 1
    assert "Conversation Summary" not in str(rounds[-1].body) and count(rounds[-1]) < count(rounds[-2])


# The last answer


@each_format
@pytest.mark.req("K2.2")
def test_final_answer_request_describes_tools_but_forbids_calls(provider: str) -> None:
    with LoopbackServer([do(1), do(2), "This is what I have."], minimal=provider == "compatible") as server:
        agent = bare(model_of(server, provider), [work], max_rounds=2, on_limit="final_answer")
        run = agent.run_sync("Make all.")
    goes_well(run)
    rounds, _ = told(server)
    last = rounds[-1].body
    if provider == "compatible":  # small servers may not know the field: no tools are sent
        assert not {"tools", "tool_choice"} & set(last)
    else:
        assert last["tools"] == rounds[0].body["tools"]
        assert last["tool_choice"] in ("none", {"type": "none"})
        assert all(request.body.get("tool_choice") != last["tool_choice"] for request in rounds[:-1])
    assert (run.status, run.stop_reason, run.text) == ("limited", "max_rounds", "This is what I have.")


@each_wire
@pytest.mark.req("K2.2", "KX.11")
def test_calls_in_a_final_answer_are_ignored(provider: str) -> None:
    with LoopbackServer([do(1), ["Here it is.", do(2), do(3)], "On it goes."]) as server:
        model = model_of(server, provider)
        run = bare(model, [work], max_rounds=1, on_limit="final_answer").run_sync("Make all.")
        following = bare(model, [work]).run_sync("Go on.", continue_from=run)
    goes_well(run)
    told(server)
    assert (run.stop_reason, run.text, len(run.rounds)) == ("max_rounds", "Here it is.", 2)
    assert [result.error_code for result in run.rounds[1].results] == ["limit_reached"] * 2
    assert following.text == "On it goes."


@each_wire
@pytest.mark.req("K2.2")
@pytest.mark.parametrize("line", [Status(400), overflow(), Cut()], ids=lambda line: type(line).__name__)
def test_missing_final_answer_leaves_the_run_continuable(provider: str, line: Any) -> None:
    attempts = 1 if line == Status(400) else 2
    with LoopbackServer(answering([do(1), do(2), do(3), *[line] * attempts, "On it goes."], ["Well."])) as server:
        model = model_of(server, provider)
        run = bare(model, [work], max_rounds=3, on_limit="final_answer").run_sync("Make all.")
        goes_well(run)
        assert (run.status, run.stop_reason, len(run.rounds)) == ("limited", "max_rounds", 4)
        (warning,) = [warning for warning in run.warned if "No final answer" in warning.message]
        assert str(warning) != warning.message or line != Status(400)
        assert [result.text for round in run.rounds for result in round.results] == ["made 1", "made 2", "made 3"]
        bare(model, [work]).run_sync("Go on.", continue_from=run)


@each_wire
@pytest.mark.req("K2.2", "R2.9")
def test_truncated_final_answer_is_kept(provider: str) -> None:
    with LoopbackServer([do(1), Answer("Half of an", stop_reason="max_tokens")]) as server:
        run = bare(model_of(server, provider), [work], max_rounds=1, on_limit="final_answer").run_sync("Make all.")
    goes_well(run)
    assert (run.stop_reason, run.text, len(run.rounds)) == ("max_rounds", "Half of an", 2)


@each_wire
@pytest.mark.req("K2.2", "R2.32")
def test_final_answer_request_may_be_compacted(provider: str) -> None:
    script = answering([do(1), do(2), do(3), "This is what I have."], ["Three were made."])
    with LoopbackServer(script) as server:
        agent = bare(model_of(server, provider), [work], history=SMALL, max_rounds=3, on_limit="final_answer")
        run = agent.run_sync("Make all.")
    goes_well(run)
    told(server)
    assert run.text == "This is what I have." and run.rounds[-1].compactions
