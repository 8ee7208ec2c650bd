"""Requests rebuilt from events equal the sent ones, with the origin of each piece."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_builder import a_round, called, guidance_of, run_of, said
from scripted_runs import LONG_ANSWER, bare, do, reply, think, work
from sent_requests import as_bytes
from streamed_replies import Streamed, Streaming
from todo_calls import complete, start, write

from agentnb import Agent, Matrix, Minimal
from agentnb.context.request_builder import RequestBuilder
from agentnb.context.request_history import LeftOut, SentRequest, sent_request, sent_requests
from agentnb.core.log.events import RetryScheduled
from agentnb.core.messages import Image, Message, Text, ToolCall
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, ModelError, SettingsError
from agentnb.guidance import system_reminder
from agentnb.models.estimate import tokens_of_request
from agentnb.models.model import Model, Retry, StreamItem
from agentnb.models.scripted import ScriptedModel
from agentnb.models.simulated.personas import PERSONAS
from agentnb.models.simulated.simulated_model import SimulatedModel
from agentnb.store.store import Store
from agentnb.tools.todos.board import TodoBoard

LONG = 20
PLAN = "Do it:\n\n1. First `work(item=1)`\n2. Then `work(item=2)`\n3. Last `think(thought='a')`\n"


class Recording:
    """A model that records its requests, one per round."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self.requests: list[Request] = []
        self._model = model

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        self.requests.append(request)
        async for item in self._model.stream(request):
            yield item


def sent_of(run: Run) -> list[SentRequest]:
    return [seen for _, seen in sent_requests(run)]


def assert_same(run: Run, sent: list[Request]) -> list[SentRequest]:
    """Check that every round's rebuilt request equals the sent one, with correct counts."""
    requests = sent_of(run)
    assert (
        [index for index, _ in sent_requests(run)] == [round.index for round in run.rounds] == [seen.index for seen in requests]
    )
    assert [seen.request for seen in requests] == sent
    assert [as_bytes(seen.request) for seen in requests] == [as_bytes(request) for request in sent]
    before: SentRequest | None = None
    for seen in requests:
        assert_counts(seen, before)
        before = seen
    return requests


def assert_counts(seen: SentRequest, before: SentRequest | None) -> None:
    """Check the counts and texts of ``seen`` against both requests."""
    *first, last = seen.request.messages
    ephemeral = (Text(seen.ephemeral),) if seen.ephemeral else ()
    assert last == Message(seen.lasting.role, (*seen.lasting.parts, *ephemeral))
    assert all(0 <= omitted.place <= len(seen.request.messages) for omitted in seen.left_out)
    if before is None:
        assert (seen.sent_before, seen.unchanged, seen.kept, seen.left_out_before) == (0, 0, 0, 0)
        return
    old, new = list(before.request.messages), list(seen.request.messages)
    assert seen.sent_before == len(old) and seen.left_out_before == len(before.left_out)
    assert seen.unchanged == leading(old, new)
    assert seen.kept == leading([*old[:-1], before.lasting], [*first, seen.lasting])
    assert list(seen.left_out[: seen.left_out_before]) == list(before.left_out)


def leading(old: list[Message], new: list[Message]) -> int:
    count = 0
    while count < min(len(old), len(new)) and old[count] == new[count]:
        count += 1
    return count


THINK = ToolCall("think", {"thought": "a"})
SCRIPTS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "words alone": (["Done."], {}),
    "one call": ([ToolCall("work"), "Done."], {}),
    "calls side by side": ([["Both.", do(1), do(2)], [do(3), THINK], "Done."], {}),
    "unknown tool, bad arguments": ([ToolCall("nope"), ToolCall("work", {"item": "x"}), "Done."], {}),
    "a list that is worked on": (
        [write("A", "B"), start(1), do(1), complete(1), start(2), complete(2), LONG_ANSWER],
        {},
    ),
    "a list that is left": ([write("A"), "I am done.", "Really done.", start(1), do(1), complete(1), "Done."], {}),
    "repeats": ([do(1), do(1), do(1), do(1), "Done."], {}),
    "empty words": (["", ToolCall("work"), ["", do(2)], " \n", "Done."], {}),
    "workflow mode": (["At it.", do(1), "Still.", "[WORKFLOW_COMPLETE]"], {"policy": Matrix(workflow_mode=True)}),
    "workflow mode that drops text": (
        ["At it.", "Still.", do(1), "Words.", do(2), "On.\n[CONTINUE]", "More.", "[WORKFLOW_COMPLETE]"],
        {"policy": Matrix(workflow_mode=True, workflow_drops_text=True), "todos": False},
    ),
    "minimal": ([write("A"), "Done?", "Done.", "Yes.", "Yes!"], {"policy": Minimal()}),
    "nothing said in passing": ([do(1), "Done."], {"guidance": "off", "todos": False}),
    "a limit": ([do(1), do(2), do(3)], {"max_rounds": 2}),
    "a reply cut off": ([reply(Text("Half of"), stop_reason="max_tokens"), reply(Text(" it.")), "Done."], {"todos": False}),
    "a refusal": ([do(1), reply(Text("No."), stop_reason="refusal")], {}),
}


@pytest.mark.req("R0.20", "R0.87")
def test_rebuilt_request_of_each_round_equals_the_sent_one(subtests: pytest.Subtests) -> None:
    for name, (script, fields) in SCRIPTS.items():
        with subtests.test(name=name):
            model = ScriptedModel(script)
            run = Agent(model, tools=[work, think], **fields).run_sync("Write two stories.")
            assert len(model.requests) > 1 or name == "words alone"
            assert_same(run, model.requests)


@pytest.mark.req("R0.20", "R0.87")
def test_rebuilt_requests_are_equal_with_previous_todos() -> None:
    model = ScriptedModel(["Well.", start(1), do(1), complete(1), "Done."])
    requests = assert_same(Agent(model, tools=[work], todos=TodoBoard(["A"])).run_sync("go"), model.requests)
    assert "[not-started] A" in requests[0].ephemeral


@pytest.mark.req("R0.20", "R0.87")
def test_rebuilt_requests_are_equal_with_simulated_personas(subtests: pytest.Subtests) -> None:
    for persona, seed in itertools.product(PERSONAS, [0, 3]):
        with subtests.test(persona=persona, seed=seed):
            model = Recording(SimulatedModel(persona, seed=seed))
            run = Agent(model, tools=[work, think], max_rounds=12).run_sync(PLAN)
            assert_same(run, model.requests)


@pytest.mark.req("R0.87")
def test_rebuilt_requests_are_equal_after_loading(tmp_path: Path) -> None:
    store, picture = Store(tmp_path / "runs"), Image("image/png", b"\x89PNG")
    model = ScriptedModel([["Löök \ud83d.", do(1)], "", [do(2), do(3)], "Done."])
    run = Agent(model, tools=[work]).run_sync(Message("user", (Text("go"), picture)), store=store)
    loaded = store.load(run.id)
    assert loaded.events is not run.events
    assert assert_same(loaded, model.requests) == sent_of(run)


@pytest.mark.req("R0.87")
def test_rebuilt_requests_are_equal_for_continued_runs() -> None:
    first = Agent(ScriptedModel([do(1), "One."]), tools=[work]).run_sync("one")
    model = ScriptedModel([do(2), "Two."])
    second = Agent(model, tools=[work]).run_sync("two", continue_from=first)
    requests = assert_same(second, model.requests)
    assert [seen.inherited for seen in requests] == [len(first.messages)] * 2
    again = ScriptedModel(["Three."])
    third = Agent(again).run_sync("three", continue_from=second)
    (seen,) = assert_same(third, again.requests)
    assert seen.inherited == len(second.messages) == len(seen.request.messages) - 1


@pytest.mark.req("R0.87")
def test_message_merged_with_the_new_prompt_is_not_inherited() -> None:
    limited = bare(ScriptedModel([do(1)]), [work], max_rounds=1).run_sync("one")
    model = ScriptedModel(["Two."])
    run = bare(model, [work]).run_sync("two", continue_from=limited)
    (seen,) = assert_same(run, model.requests)
    assert (len(seen.request.messages), seen.inherited) == (3, 2)


@pytest.mark.req("R0.87")
def test_rebuilt_requests_are_equal_with_a_user_message() -> None:
    entered, go = threading.Event(), threading.Event()

    def wait() -> str:
        entered.set()
        go.wait(LONG)
        return "waited"

    model = ScriptedModel([ToolCall("wait"), "Done."])
    live = Agent(model, tools=[wait]).start("go")
    assert entered.wait(LONG)
    live.say("Be brief.")
    live.say("Please.")
    go.set()
    requests = assert_same(live.result(LONG), model.requests)
    assert requests[1].lasting.text == "Be brief.\n\nPlease."


@pytest.mark.req("R0.87")
def test_rebuilt_requests_are_equal_for_a_stopped_tool() -> None:
    entered = threading.Event()

    async def wait() -> str:
        entered.set()
        await asyncio.sleep(LONG)
        return "waited"

    model = ScriptedModel([do(1), ToolCall("wait")])
    live = Agent(model, tools=[work, wait]).start("go")
    assert entered.wait(LONG)
    live.stop()
    run = live.result(LONG)
    assert run.status == "cancelled"
    assert_same(run, model.requests)


@pytest.mark.req("R0.87")
@pytest.mark.parametrize("words", [[], ["Some ", "words"]])
def test_round_with_missing_or_partial_reply_still_has_its_request(words: list[str]) -> None:
    model = Recording(Streaming([do(1), Streamed(*words, RuntimeError("gone"))]))
    run = Agent(model, tools=[work]).run_sync("go")
    assert run.status == "failed" and len(run.rounds) == 2
    requests = assert_same(run, model.requests)
    assert requests[1].cached is None and requests[1].tokens_estimated


def test_failed_first_round_still_has_its_request() -> None:
    model = ScriptedModel([RuntimeError("gone")])
    with pytest.raises(ModelError) as caught:
        Agent(model, tools=[work]).run_sync("go")
    assert isinstance(caught.value, AgentnbError) and caught.value.run is not None
    assert_same(caught.value.run, model.requests)


def test_retries_within_a_round_add_no_request() -> None:
    model = Recording(
        Streaming([Streamed(Retry(1, 0.0, "too many requests", 429), one) for one in (reply(do(1)), reply(Text("Done.")))])
    )
    run = Agent(model, tools=[work]).run_sync("go")
    assert sum(isinstance(event, RetryScheduled) for event in run.events) == 2
    assert_same(run, model.requests)


@pytest.mark.req("R0.20", "R0.87")
@examples(60)
@given(st.data())
def test_rebuilt_requests_are_equal_for_generated_scripts(data: st.DataObject) -> None:
    words = st.sampled_from(["", " \n", "Well.", LONG_ANSWER, "On.\n[CONTINUE]", "Let me call work(1)."])
    calls = st.sampled_from([do(1), do(2), THINK, write("A", "B"), start(1), complete(1), ToolCall("nope")])
    line = words | calls | st.lists(words | calls, min_size=1, max_size=3)
    mode = {"workflow_mode": data.draw(st.booleans()), "workflow_drops_text": data.draw(st.booleans())}
    fields = {"max_rounds": data.draw(st.integers(1, 7)), "todos": data.draw(st.booleans()), "policy": Matrix(**mode)}
    model = ScriptedModel([*data.draw(st.lists(line, max_size=7)), *["So."] * 8])
    first = Agent(model, tools=[work, think], **fields).run_sync("go")
    assert_same(first, model.requests)
    again = ScriptedModel([*data.draw(st.lists(line, max_size=3)), *["So."] * 8])
    second = Agent(again, tools=[work, think], **fields).run_sync("more", continue_from=first)
    assert_same(second, again.requests)


# Active runs


def test_active_run_has_the_request_of_every_started_round() -> None:
    model = ScriptedModel([[do(1), do(2)], write("A"), "Well.", start(1), complete(1), LONG_ANSWER])
    whole = Agent(model, tools=[work]).run_sync("go")
    for count in range(1, len(whole.events)):
        part = Run.from_events(list(whole.events)[:count])
        requests = sent_of(part)
        assert len(requests) == len(part.rounds)
        if part.rounds and part.open_round is None:
            assert [seen.request for seen in requests] == model.requests[: len(requests)]


def test_run_without_a_round_has_no_request() -> None:
    assert sent_of(run_of()) == [] == sent_of(Run())


def test_rebuilding_requests_leaves_the_run_unchanged() -> None:
    run = Agent(ScriptedModel([do(1), "Done."]), tools=[work]).run_sync("go")
    before = Run.from_events(run.events)
    sent_of(run)
    assert run == before


def test_single_round_is_rebuilt_without_later_events(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Agent(ScriptedModel([do(1), do(2), "Done."]), tools=[work]).run_sync("go")
    row = sent_of(run)
    taken: list[int] = []
    apply = Run.apply

    def counted(self: Run, event: Any) -> None:
        taken.append(event.seq)
        apply(self, event)

    monkeypatch.setattr(Run, "apply", counted)
    for index, seen in enumerate(row):
        taken.clear()
        assert sent_request(run, index) == seen
        replied = [event.seq for event in run.events if type(event).__name__ == "ModelReplied"]
        assert max(taken) < replied[index]


def test_unknown_round_is_refused_with_the_number_of_rounds() -> None:
    run = Agent(ScriptedModel(["Done."])).run_sync("go")
    with pytest.raises(SettingsError, match=f"Run {run.id} has no round 1.*the run has 1"):
        sent_request(run, 1)


def test_additional_round_prepares_only_new_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [fact for index in range(40) for fact in a_round(index, called("look", f"c{index}"))]
    run, added = run_of(*facts), []
    add = RequestBuilder._take
    monkeypatch.setattr(RequestBuilder, "_take", lambda self, *taken: (added.append(taken), add(self, *taken))[1])
    assert len(sent_of(run)) == 40
    assert len(added) == 1 + 2 * 39


# Origins and counts


def drops(*replies: Any) -> tuple[list[SentRequest], ScriptedModel]:
    model = ScriptedModel([*replies, "[WORKFLOW_COMPLETE]"])
    policy = Matrix(workflow_mode=True, workflow_drops_text=True)
    run = Agent(model, tools=[work], guidance="off", todos=False, policy=policy).run_sync("go")
    return assert_same(run, model.requests), model


@pytest.mark.req("R0.20")
def test_ephemeral_text_is_reported_as_sent() -> None:
    run = run_of(
        *a_round(0, called("look", "a"), guidance=[guidance_of("tools", "Mind </system-reminder> it."), guidance_of("text")])
    )
    (seen,) = sent_of(run)
    assert seen.ephemeral == system_reminder("Mind </system-reminder> it.\n\nGo on.")
    assert seen.request.messages[-1].parts[-1] == Text(seen.ephemeral)
    assert seen.lasting == run.messages[0]


@pytest.mark.req("R0.52")
def test_omitted_workflow_text_is_reported() -> None:
    requests, _ = drops("I am at it.", do(1), "Still at it.")
    assert [len(seen.left_out) for seen in requests] == [0, 1, 1, 2]
    first, second = requests[3].left_out
    assert first == LeftOut(Message("assistant", (Text("I am at it."),)), "workflow_mode", 1)
    assert (second.message.text, second.why, second.place) == ("Still at it.", "workflow_mode", 3)
    assert [seen.left_out_before for seen in requests] == [0, 0, 1, 1]


def test_empty_message_parts_are_reported_as_omitted() -> None:
    facts = [*a_round(0, " ", called("look", "a")), *a_round(1), *a_round(2, "", reason="empty_answer"), *a_round(3, "Done.")]
    requests = sent_of(run_of(*facts))
    assert [(omitted.message, omitted.why, omitted.place) for omitted in requests[3].left_out] == [
        (Message("assistant", (Text(" "),)), "empty", 1),
        (Message("assistant"), "empty", 3),
        (Message("assistant", (Text(""),)), "empty", 3),
    ]
    assert [len(seen.left_out) for seen in requests] == [0, 1, 2, 3]


def test_merged_messages_are_not_reported_as_omitted() -> None:
    run = run_of(*a_round(0, "Yes?"), said("First."), said("Second."), *a_round(1, "So."))
    seen = sent_of(run)[1]
    assert not seen.left_out
    assert seen.lasting.text == "First.\n\nSecond."


def test_message_that_lost_its_reminder_is_kept_but_changed() -> None:
    model = ScriptedModel([do(1), do(2), "Done."])
    requests = assert_same(Agent(model, tools=[work]).run_sync("go"), model.requests)
    assert [(seen.sent_before, seen.unchanged, seen.kept) for seen in requests] == [(0, 0, 0), (1, 0, 1), (3, 2, 3)]


def test_repeated_last_message_is_kept_with_another_reminder() -> None:
    guidance = [[guidance_of("text", "One.")], [guidance_of("text", "Two.")]]
    seen = sent_of(run_of(*a_round(0, "", guidance=guidance[0]), *a_round(1, "So.", guidance=guidance[1])))[1]
    assert (seen.sent_before, len(seen.request.messages), seen.unchanged, seen.kept) == (1, 1, 0, 1)


def test_previous_messages_count_as_unchanged_without_reminders() -> None:
    run = run_of(*a_round(0, called("look", "a")), *a_round(1, called("look", "b")), *a_round(2, "So."))
    assert [(seen.sent_before, seen.unchanged, seen.kept) for seen in sent_of(run)] == [(0, 0, 0), (1, 1, 1), (3, 3, 3)]


def test_merged_message_does_not_count_as_kept() -> None:
    requests, _ = drops("I am at it.")
    assert (requests[1].sent_before, requests[1].kept) == (1, 0)


@pytest.mark.parametrize("cached", [None, 0, 1_800])
def test_cached_tokens_are_reported_for_each_round(cached: int | None) -> None:
    model = ScriptedModel([reply(do(1), usage=Usage(input=9, cache_read=77)), reply(Text("."), usage=Usage(cache_read=cached))])
    run = Agent(model, tools=[work]).run_sync("go")
    assert [seen.cached for seen in sent_of(run)] == [77, cached]


def test_tokens_are_counted_by_the_provider_or_estimated() -> None:
    replies = [
        reply(do(1), usage=Usage(input=2_100)),
        reply(do(2), usage=Usage(input=5, estimated=True)),
        reply(do(3)),
        reply(Text("Done.")),
    ]
    requests = sent_of(Agent(ScriptedModel(replies), tools=[work]).run_sync("go"))
    assert [seen.tokens_estimated for seen in requests] == [False, True, True, True]
    assert requests[0].tokens == 2_100
    assert [seen.tokens for seen in requests[1:]] == [tokens_of_request(seen.request) for seen in requests[1:]]


def test_rebuilt_request_is_immutable() -> None:
    (seen,) = sent_of(Agent(ScriptedModel(["Done."])).run_sync("go"))
    change: Callable[..., None] = setattr
    with pytest.raises(AttributeError):
        change(seen, "cached", 3)
