"""History settings: omitted messages, and stable request prefixes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from request_promises import complaints
from run_builder import a_round, called, run_of
from scripted_runs import bare, do, work
from sent_requests import assert_made_again
from summarising import Summarising, compactions, priced
from todo_calls import complete, start, write

from agentnb import Agent, History, Matrix, ToolCall
from agentnb.context.defaults import RESULT_CHARACTERS
from agentnb.context.history_settings import AUTO, FULL, as_logged, as_sent_then, find_history, read_documented
from agentnb.context.request_builder import RequestBuilder
from agentnb.core.messages import Message, ToolResult
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models.registry import make_model, wire_form
from agentnb.models.scripted import ScriptedModel
from agentnb.testing import LoopbackServer

WIRES = {"anthropic:m": "messages", "openai:m": "chat", "openai-responses:m": "responses"}


# The settings


def test_history_settings_have_names_and_adjustable_numbers() -> None:
    assert find_history("auto") == AUTO == History(share=0.8)
    assert find_history("full") == FULL == History(result_characters=None)
    assert find_history("documented") == read_documented() == History(compact_above=30, keep_recent=10, max_messages=40)
    own = History(share=0.5, window=1_000)
    assert find_history(own) is own
    with pytest.raises(SettingsError, match="auto, documented, full"):
        find_history("some")
    with pytest.raises(SettingsError, match="no history 'some'"):
        Agent(ScriptedModel([]), history="some")


def test_invalid_history_is_refused(subtests: pytest.Subtests) -> None:
    for given in [None, 40, [], {}, ["auto"], AUTO.keep_recent, b"auto"]:
        with subtests.test(given=given):
            with pytest.raises(SettingsError, match=r"There is no history .*auto, documented, full"):
                find_history(given)
            with pytest.raises(SettingsError, match="There is no history"):
                Agent(ScriptedModel([]), history=given)


@pytest.mark.req("R0.52", "R0.77")
def test_default_histories_omit_no_rounds_or_text() -> None:
    for name in ("auto", "documented", "full"):
        assert find_history(name).failed_rounds_above is None
    assert not Matrix().workflow_drops_text


def test_invalid_history_field_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for fields in [
        {"share": 0},
        {"share": 1.01},
        {"share": -0.5},
        {"share": True},
        {"share": "0.8"},
        {"share": []},
        {"share": 10**400},
        {"window": []},
        {"max_messages": [40]},
        {"keep_recent": {}},
        {"share": float("nan")},
        {"window": 99},
        {"window": 10_000.0},
        {"compact_above": 1},
        {"compact_above": True},
        {"keep_recent": 0},
        {"keep_recent": None},
        {"compact_above": 10, "keep_recent": 10},
        {"max_messages": 1},
        {"result_characters": 999},
        {"failed_rounds_above": 0},
        {"failed_rounds_above": "20"},
    ]:
        with subtests.test(fields=fields):
            with pytest.raises(SettingsError, match=next(reversed(fields))):
                History(**fields)


@pytest.mark.req("K2.4")
def test_documented_history_reads_its_numbers_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACT_THRESHOLD", "20")
    monkeypatch.setenv("COMPACT_KEEP_RECENT", "5")
    monkeypatch.setenv("AGENT_MAX_MESSAGES", "25")
    assert read_documented() == History(compact_above=20, keep_recent=5, max_messages=25)
    monkeypatch.setenv("COMPACT_KEEP_RECENT", "50")
    assert read_documented().keep_recent == 6
    monkeypatch.setenv("COMPACT_THRESHOLD", "2")
    assert read_documented().keep_recent == 1
    monkeypatch.setenv("COMPACT_THRESHOLD", "20")
    monkeypatch.setenv("COMPACT_ENABLED", "false")
    assert read_documented().compact_above is None and not read_documented().compacts


@pytest.mark.req("R2.15")
@pytest.mark.parametrize("said", ["false", "0", "no", "off"])
def test_disabling_compaction_also_disables_the_share_of_auto(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_history("auto").compacts
    monkeypatch.setenv("COMPACT_ENABLED", said)
    assert find_history("auto") == History() and not find_history("auto").compacts
    assert find_history("auto").result_characters == RESULT_CHARACTERS
    script = [*[priced(do(number), tokens=(990, 10)) for number in range(4)], "Done."]
    model = Summarising(script, window=1_000)
    run = bare(model, [work], history="auto").run_sync("go")
    assert (run.status, model.asked, compactions(run)) == ("completed", [], [])
    assert "share" not in run.settings["history"]
    own = Summarising(script, window=1_000)
    bare(own, [work], history=History(share=0.8)).run_sync("go")
    assert own.asked, "what somebody asks for by name is done"


def test_log_records_the_history_settings(subtests: pytest.Subtests) -> None:
    for history in [AUTO, FULL, read_documented(), History(share=0.5, window=900, failed_rounds_above=3)]:
        with subtests.test(history=history):
            run = bare(ScriptedModel(["Done."]), [], history=history).run_sync("go")
            assert as_sent_then(run.settings["history"]) == history == as_sent_then(as_logged(history))
            assert as_sent_then(None) == FULL
            assert as_sent_then({"of_a_later_version": 1}) == FULL


# R0.52 and R0.77


def failing(n: int = 0) -> str:
    """Fails."""
    raise ValueError(f"no row {n}")


def fails(n: int) -> ToolCall:
    return ToolCall("failing", {"n": n})


def sent(script: Sequence[Any], **settings: Any) -> tuple[Run, ScriptedModel]:
    model = ScriptedModel(script)
    run = bare(model, [work, failing], **settings).run_sync("go")
    assert_made_again(run, model.requests)
    for request in model.requests:
        assert_valid_on_all_wires(request)
    return run, model


def assert_valid_on_all_wires(request: Request) -> None:
    for model, wire in WIRES.items():
        body = wire_form(model, request)
        assert body is not None
        assert complaints(wire, msgspec.json.decode(body)) == []


def numbers(request: Request) -> list[int]:
    """Return the numbers of the calls in a request."""
    return [call.arguments["n"] for message in request.messages for call in message.calls]


@pytest.mark.req("R0.77")
def test_failed_rounds_beyond_the_limit_are_omitted_entirely() -> None:
    script = [do(0), fails(1), [fails(2), do(3)], fails(4), do(5), "Done."]
    run, model = sent(script, history=History(failed_rounds_above=8))
    assert [numbers(request) for request in model.requests] == [
        [],
        [0],
        [0, 1],
        [0, 1, 2, 3],
        [0, 2, 3, 4],
        [0, 2, 3, 5],
    ]
    assert len(run.messages) == 12


@pytest.mark.req("R0.77")
def test_failed_rounds_up_to_the_limit_are_kept() -> None:
    _, model = sent([fails(0), fails(1), do(2), "Done."], history=History(failed_rounds_above=7))
    assert numbers(model.requests[-1]) == [0, 1, 2]
    _, model = sent([fails(0), fails(1), do(2), "Done."], history=History(failed_rounds_above=6))
    assert numbers(model.requests[-1]) == [2]


@pytest.mark.req("R0.77")
def test_newly_failed_round_is_still_sent_once() -> None:
    _, model = sent([do(0), fails(1), fails(2), "Done."], history=History(failed_rounds_above=1))
    assert [numbers(request) for request in model.requests] == [[], [0], [0, 1], [0, 2]]


@pytest.mark.req("R0.77")
def test_user_message_after_a_failed_round_is_kept() -> None:
    failed = ToolResult("c1", "look", (), is_error=True, error_code="tool_error")
    history = (
        Message("user", run_of().messages[0].parts),
        Message("assistant", (called("look", "c1"),)),
        Message("tool", (failed,)),
        Message("user", run_of(prompt="Never mind.").messages[0].parts),
        Message("assistant", run_of(prompt="Well.").messages[0].parts),
    )
    run = run_of(history=history, prompt="And now?")
    conversation = RequestBuilder("", (), {}, history=History(failed_rounds_above=2))
    told = [(message.role, message.text) for message in conversation.request(run).messages]
    assert told == [("user", "go\n\nNever mind."), ("assistant", "Well."), ("user", "And now?")]
    assert sorted(conversation.left_out) == [1, 2]


@pytest.mark.req("R0.52")
def test_workflow_text_is_omitted_from_request_but_not_run() -> None:
    mode = Matrix(workflow_mode=True, workflow_drops_text=True)
    model = ScriptedModel(["At it first.", do(1), "And then on.", "[WORKFLOW_COMPLETE]"])
    run = bare(model, [work], policy=mode).run_sync("go")
    assert_made_again(run, model.requests)
    assert all("At it first." not in message.text for request in model.requests for message in request.messages)
    assert next(message.text for message in run.messages if message.role == "assistant") == "At it first."
    model = ScriptedModel(["At it first.", do(1), "And then on.", "[WORKFLOW_COMPLETE]"])
    bare(model, [work], policy=Matrix(workflow_mode=True)).run_sync("go")
    assert "At it first." in [message.text for message in model.requests[-1].messages]


@pytest.mark.req("R0.52", "R0.77", "K2.4")
def test_combined_history_settings_produce_valid_reproducible_requests(subtests: pytest.Subtests) -> None:
    for seed in range(4):
        with subtests.test(seed=seed):
            history = History(compact_above=5 + seed, keep_recent=2, max_messages=4 + seed, failed_rounds_above=3 + seed)
            script: list[Any] = [write("A", "B"), start(1), do(1), fails(2), fails(3), [do(4), fails(5)], complete(1)]
            script += [
                "On it goes.",
                fails(6),
                do(7),
                start(2),
                fails(8),
                complete(2),
                "All of it is done. [WORKFLOW_COMPLETE]",
            ]
            mode = Matrix(workflow_mode=True, workflow_drops_text=True)
            for model in (ScriptedModel(script), Summarising(script)):
                run = Agent(model, tools=[work, failing], history=history, policy=mode, max_rounds=20).run_sync("go")
                assert_made_again(run, model.requests)
                assert compactions(run)
                for request in model.requests:
                    assert_valid_on_all_wires(request)
                following = type(model)([do(9), fails(10), "So."])
                more = Agent(following, tools=[work, failing], history=history, policy=mode, max_rounds=2).run_sync(
                    "x", continue_from=run
                )
                assert_made_again(more, following.requests)


def test_requests_are_reproducible_with_a_compacted_long_result() -> None:
    def big(n: int = 0) -> str:
        """Gives much."""
        return "x" * 20_000

    first = bare(ScriptedModel([ToolCall("big"), *[do(number) for number in range(9)], "Done."]), [big, work]).run_sync("go")
    model = ScriptedModel([do(9), "Done."])
    history = History(compact_above=6, keep_recent=2)
    run = bare(model, [big, work], history=history).run_sync("more", continue_from=first)
    assert len(compactions(run)) == 1
    assert_made_again(run, model.requests)
    assert [tool.name for tool in model.requests[0].tools] == ["big", "work", "read_tool_result"]


# Order and prefix of requests


def prefix_of(before: Request, after: Request) -> int:
    """Count the equal messages at the start."""
    count = 0
    for one, other in zip(before.messages, after.messages, strict=False):
        if one != other:
            break
        count += 1
    return count


LIST: list[Any] = [write("A", "B"), start(1), do(1), do(2), complete(1), start(2), do(3), do(4), complete(2)]
LIST += ["Both things are made, and the numbers are right."]


@pytest.mark.req("KX.7", "R0.29")
def test_only_the_last_message_changes_between_rounds() -> None:
    model = Summarising(LIST)
    Agent(model, tools=[work]).run_sync("Make two things.")
    assert len(model.requests) == 10
    for before, after in pairwise(model.requests):
        assert (before.system, before.tools, before.settings) == (after.system, after.tools, after.settings)
        assert prefix_of(before, after) == len(before.messages) - 1
        assert "<system-reminder>" in after.messages[-1].text
        assert not any("<system-reminder>" in message.text for message in list(after.messages)[:-1])


@pytest.mark.req("KX.7", "R0.29")
def test_last_message_is_unchanged_without_ephemeral_text() -> None:
    model = Summarising([*[do(number) for number in range(6)], "Done."])
    bare(model, [work]).run_sync("go")
    for before, after in pairwise(model.requests):
        assert prefix_of(before, after) == len(before.messages)


CACHE_MARK = re.compile(rb',"cache_control":\{[^}]*\}')


def common(one: bytes, other: bytes) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def settled(model: str, request: Request) -> bytes:
    """Return the stable start of the body, without the last message and cache marks."""
    shorter = Request(request.system, list(request.messages)[:-1], request.tools, request.settings)
    body = wire_form(model, shorter)
    assert body is not None
    return CACHE_MARK.sub(b"", body).rstrip(b"]}")


def broken_prefixes(requests: Sequence[Request], model: str) -> list[int]:
    """Return the requests that do not extend the previous body except its last message."""
    bodies = [CACHE_MARK.sub(b"", wire_form(model, request) or b"") for request in requests]
    broken = []
    for number, (before, after) in enumerate(pairwise(range(len(requests))), start=1):
        if len(requests[before].messages) > 1:
            expected = settled(model, requests[before])
            if common(expected, bodies[after]) < len(expected):
                broken.append(number)
    return broken


@pytest.mark.req("KX.7", "R0.29")
@pytest.mark.parametrize("wire", WIRES)
def test_each_wire_body_starts_with_the_previous_one(wire: str) -> None:
    model = Summarising(LIST)
    Agent(model, tools=[work]).run_sync("Make two things.")
    assert broken_prefixes(model.requests, wire) == []
    assert broken_prefixes([model.requests[4], model.requests[2]], wire) == [1]


@pytest.mark.req("KX.7", "K2.4")
@pytest.mark.parametrize("wire", WIRES)
def test_only_compaction_truncation_and_new_tools_break_the_prefix(wire: str) -> None:
    def big(n: int = 0) -> str:
        """Gives much."""
        return "x" * (RESULT_CHARACTERS + 1)

    def run(history: Any, *script: Any) -> tuple[Run, list[Request]]:
        model = Summarising([*script, "Done."])
        return Agent(model, tools=[work, big], history=history).run_sync("go"), model.requests

    calls = [do(number) for number in range(1, 10)]
    compactor, requests = run(History(compact_above=8, keep_recent=2), *calls)
    rounds = [round.index for round in compactor.rounds if round.compactions]
    assert rounds == broken_prefixes(requests, wire) and len(rounds) == 2
    _, requests = run(History(max_messages=9), *calls)
    assert broken_prefixes(requests, wire) == [5, 6, 7, 8, 9]
    _, requests = run("auto", do(1), do(2), ToolCall("big"), do(3), ToolCall("big", {"n": 2}), do(4))
    assert broken_prefixes(requests, wire) == [3]


@pytest.mark.req("KX.7")
@pytest.mark.parametrize(
    ("provider", "wire"), [("anthropic", "messages"), ("openai", "chat"), ("openai-responses", "responses")]
)
def test_request_prefix_is_read_from_the_provider_cache(provider: str, wire: str) -> None:
    with LoopbackServer([*[do(number) for number in range(1, 7)], "Done."]) as server:
        run = Agent(make_model(server.model(provider)), tools=[work]).run_sync("Make six. " + "Mind this. " * 600)
        bodies = [CACHE_MARK.sub(b"", request.raw) for request in server.requests]
        assert [request.problems for request in server.requests] == [()] * 7
    reminder = [body.index(b"<system-reminder>") for body in bodies]
    for (before, at), (after, _) in pairwise(zip(bodies, reminder, strict=True)):
        assert common(before, after) > at - 120
    if wire == "messages":
        read = [round.usage.cache_read or 0 for round in run.rounds if round.usage is not None]
        sent_before = [round.usage.input or 0 for round in run.rounds if round.usage is not None]
        assert all(cached > 0.8 * before for cached, before in zip(read[1:], sent_before, strict=False))


@pytest.mark.req("R0.29")
@pytest.mark.parametrize("wire", WIRES)
def test_calls_and_results_are_serialized_once_in_order(wire: str) -> None:
    """Every call and result of the conversation is in the body once, in order."""
    run = run_of(*[fact for at in range(5) for fact in a_round(at, called("look", f"a{at}"), called("look", f"b{at}"))])
    body = wire_form(wire, RequestBuilder("", (), {}).request(run))
    assert body is not None
    ids = re.findall(rb'"(?:tool_use_id|tool_call_id|call_id|id)":"([ab]\d)"', body)
    expected = [one for at in range(5) for one in [f"a{at}".encode(), f"b{at}".encode()] * 2]
    assert ids == expected
