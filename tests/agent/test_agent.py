"""Agents: settings, and ways to run them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from marked_logs import own_run
from run_checks import results
from scripted_runs import add, bare
from waiting import wait_until

from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent, Delta, ModelReplied, RunStarted, TextDelta, ToolFinished, ToolStarted
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import InvalidTool, ModelError, SettingsError, UnknownModel, UnknownTool
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.run_options import RunOptions
from agentnb.store.store import Store
from agentnb.tools.tool import ToolContext

LONG = 30


ADD = ToolCall("add", {"a": 1, "b": 2})


def yields() -> Any:
    yield 1


@pytest.mark.req("R0.7")
def test_max_rounds_must_be_an_integer_from_1_to_1000(subtests: pytest.Subtests) -> None:
    for rounds in [0, -1, 1001, 2.0, "5", True, None]:
        with subtests.test(rounds=rounds):
            with pytest.raises(SettingsError, match=r"max_rounds=.*1 to 1,000"):
                Agent(ScriptedModel([]), max_rounds=rounds)


@pytest.mark.req("R0.7")
@pytest.mark.parametrize("rounds", [1, 1000])
def test_max_rounds_accepts_both_ends_of_the_range(rounds: int) -> None:
    assert Agent(ScriptedModel([]), max_rounds=rounds).max_rounds == rounds


def test_invalid_agent_settings_are_refused_at_once(subtests: pytest.Subtests) -> None:
    for settings, error, words in [
        ({"model": "simulatd:disciplined"}, UnknownModel, "simulated:disciplined"),
        ({"model": "simulated:"}, UnknownModel, "is not a complete model name"),
        ({"model": 3}, UnknownModel, "3 is not a model"),
        ({"model": ScriptedModel}, UnknownModel, "not a model"),
        ({"tools": "add"}, SettingsError, "not a list"),
        ({"tools": add}, SettingsError, "not a list"),
        ({"tools": ["fils"]}, UnknownTool, "files"),
        ({"tools": [3]}, InvalidTool, "An int was passed, not a tool. Pass a function"),
        ({"tools": [yields]}, InvalidTool, "yields"),
        ({"tools": [add, add]}, InvalidTool, 'tool "add" already registered'),
        ({"system": 3}, SettingsError, "system"),
        ({"work_dir": 3}, SettingsError, "work_dir"),
    ]:
        with subtests.test(settings=settings, error=error, words=words):
            with pytest.raises(error, match=words):
                Agent(**{"model": ScriptedModel([]), **settings})


def test_blank_or_invalid_prompt_is_refused_before_any_call(subtests: pytest.Subtests) -> None:
    for prompt, words in [("", "blank"), (" \n", "blank"), (Message("assistant", (Text("x"),)), "user"), (3, "prompt")]:
        with subtests.test(prompt=prompt, words=words):
            model = ScriptedModel(["never"])
            with pytest.raises(SettingsError, match=words):
                Agent(model).run_sync(prompt)
            assert model.requests == []


def test_agent_is_immutable() -> None:
    agent = Agent(ScriptedModel([]), tools=[add])
    with pytest.raises(FrozenInstanceError):
        agent.max_rounds = 3  # type: ignore[misc]
    assert agent.tools == (add,)


def test_tools_may_come_from_any_iterable() -> None:
    agent = Agent(ScriptedModel([ADD, "Done."]), tools=(function for function in [add]))
    assert [result.text for result in results(agent.run_sync("go"))] == ["3"]
    assert agent.tools == (add,)


def test_model_passed_to_an_agent_is_kept_as_is() -> None:
    model = ScriptedModel([])
    assert Agent(model).model is model
    assert (Agent(model).model_name, Agent("simulated:disciplined").model_name) == ("scripted:script", "simulated:disciplined")


def test_one_agent_can_run_concurrently() -> None:
    class Echo:
        name = "scripted:echo"

        async def stream(self, request: Request) -> Any:
            await asyncio.sleep(0)
            if request.messages[-1].role == "user":
                number = int(request.messages[-1].text)
                yield Reply(Message("assistant", (ToolCall("add", {"a": number, "b": 1}),)))
            else:
                yield Reply(Message("assistant", (Text(request.messages[-1].parts[0].text),)))  # type: ignore[union-attr]

    agent = bare(Echo(), [add])

    async def main() -> list[Run]:
        return await asyncio.gather(*[agent.run(str(number)) for number in range(50)])

    runs = asyncio.run(main())
    assert [run.text for run in runs] == [str(number + 1) for number in range(50)]
    assert len({run.id for run in runs}) == 50


def test_run_sync_works_inside_a_running_event_loop() -> None:
    async def main() -> Run:
        return Agent(ScriptedModel([ADD, "It is 3."]), tools=[add]).run_sync("go")

    assert asyncio.run(main()).text == "It is 3."


def test_run_sync_works_inside_a_tool_of_another_run() -> None:
    def ask_another() -> str:
        return Agent(ScriptedModel([ADD, "It is 3."]), tools=[add]).run_sync("go").text

    run = Agent(ScriptedModel([ToolCall("ask_another"), "Done."]), tools=[ask_another]).run_sync("go")
    assert results(run)[0].text == "It is 3."


@pytest.mark.req("R2.12", "R2.3")
def test_work_dir_of_a_run_is_passed_to_its_tools(tmp_path: Path) -> None:
    def where(context: ToolContext) -> str:
        """Tell the folder."""
        return str(context.work_dir)

    def folder(agent: Agent, **settings: Any) -> str:
        return results(agent.run_sync("go", **settings))[0].text

    def agent(**settings: Any) -> Agent:
        return Agent(ScriptedModel([ToolCall("where"), "Done."]), tools=[where], **settings)

    own, given = tmp_path / "own", tmp_path / "given"
    assert folder(agent()) == str(Path.cwd())
    assert folder(agent(work_dir=own)) == str(own.resolve())
    assert folder(agent(work_dir=own), work_dir=given) == str(given.resolve())
    assert folder(agent(), work_dir=str(given)) == str(given.resolve())
    assert folder(agent(), work_dir="given") == str((Path.cwd() / "given").resolve())


@pytest.mark.req("R2.3")
def test_tool_context_has_run_id_and_call_id() -> None:
    def who(context: ToolContext) -> str:
        return f"{context.run_id} {context.call_id}"

    run = Agent(ScriptedModel([ToolCall("who", {}, "call_1"), "Done."]), tools=[who]).run_sync("go")
    assert results(run)[0].text == f"{run.id} call_1"


@pytest.mark.req("R2.13", "R2.7")
def test_built_in_system_prompt_mentions_missing_tools() -> None:
    with_tools = Agent(ScriptedModel([]), tools=[add]).first_request("go").system
    without = Agent(ScriptedModel([])).first_request("go").system
    assert "agent" in with_tools and "no tools" not in with_tools
    assert without.startswith(with_tools)
    assert "no tools" in without[len(with_tools) :]


@pytest.mark.req("R2.13")
def test_custom_system_prompt_replaces_the_built_in_one() -> None:
    assert Agent(ScriptedModel([]), tools=[add], system=" Be brief. ").first_request("go").system == "Be brief."
    assert "built" not in Agent(ScriptedModel([]), system="").first_request("go").system
    assert Agent(ScriptedModel([]), tools=[add], system="").first_request("go").system == ""


@pytest.mark.req("R2.7")
def test_first_request_predicts_the_request_without_sending_it() -> None:
    model = ScriptedModel(["One.", "Two."])
    agent = Agent(model, tools=[add])
    foreseen = agent.first_request("one")
    assert model.requests == []
    first = agent.run_sync("one")
    assert model.requests[0] == foreseen
    assert [tool.name for tool in foreseen.tools] == ["add", "todo_operations"]
    assert foreseen.messages[-1].text.startswith("one<system-reminder>")
    foreseen = agent.first_request("two", continue_from=first)
    agent.run_sync("two", continue_from=first)
    assert model.requests[1] == foreseen


@pytest.mark.req("R2.13")
def test_watch_receives_text_messages_calls_and_results_in_order() -> None:
    seen: list[AnyEvent | Delta] = []
    run = Agent(ScriptedModel([["I add.", ADD], "It is 3."]), tools=[add]).run_sync("go", watch=seen.append)
    assert "".join(item.text for item in seen if isinstance(item, TextDelta)) == "I add.It is 3."
    assert [item.message.text for item in seen if isinstance(item, ModelReplied)] == ["I add.", "It is 3."]
    assert [item.call.name for item in seen if isinstance(item, ToolStarted)] == ["add"]
    assert [item.result.text for item in seen if isinstance(item, ToolFinished)] == ["3"]
    assert [item for item in seen if not isinstance(item, TextDelta)] == list(run.events)


@pytest.mark.req("R2.13")
def test_failing_watch_does_not_disturb_the_run() -> None:
    def watch(item: object) -> None:
        raise ValueError("no")

    assert Agent(ScriptedModel([ADD, "It is 3."]), tools=[add]).run_sync("go", watch=watch).text == "It is 3."


def test_stream_yields_events_and_text_in_order() -> None:
    async def main() -> list[AnyEvent | Delta]:
        agent = Agent(ScriptedModel([ADD, "It is 3."]), tools=[add])
        return [item async for item in agent.stream("go")]

    items = asyncio.run(main())
    assert isinstance(items[0], RunStarted)
    run = Run.from_events(item for item in items if not isinstance(item, TextDelta))  # type: ignore[misc]
    assert (run.status, run.text) == ("completed", "It is 3.")
    assert [item.text for item in items if isinstance(item, TextDelta)] == ["It ", "is ", "3."]


def test_stream_of_failing_run_yields_events_and_then_raises() -> None:
    async def main() -> None:
        last: object = None
        with pytest.raises(ModelError, match="boom"):
            async for item in Agent(ScriptedModel([RuntimeError("boom")])).stream("go"):
                last = item
        assert type(last).__name__ == "RunFinished"

    asyncio.run(main())


async def within(main: Callable[[], Awaitable[None]]) -> None:
    """Run ``main`` with a timeout; a broken rule would block forever."""
    async with asyncio.timeout(LONG):
        await main()


@pytest.mark.req("R0.13")
@pytest.mark.parametrize("politely", [True, False], ids=["closed", "left"])
def test_leaving_a_stream_early_cancels_its_run(politely: bool) -> None:
    left: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("left")

    async def main() -> None:
        agent = Agent(ScriptedModel([ToolCall("waits")]), tools=[waits])
        if politely:
            async with aclosing(agent.stream("go")) as items:  # type: ignore[type-var]
                async for item in items:
                    if isinstance(item, ToolStarted):
                        await asyncio.sleep(0)
                        break
            assert left == ["left"]
        else:
            async for item in agent.stream("go"):
                if isinstance(item, ToolStarted):
                    await asyncio.sleep(0)
                    break
            async with asyncio.timeout(LONG):
                while not left:
                    await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(within(main))


def test_awaited_run_leaves_no_pending_tasks() -> None:
    async def main() -> None:
        await Agent(ScriptedModel([ADD, "It is 3."]), tools=[add]).run("go")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_nested_run_records_its_parent() -> None:
    async def main() -> Run:
        return await Agent(ScriptedModel(["Done."])).run("go", parent_id="r-0")

    run = asyncio.run(main())
    assert run.parent_id == "r-0"
    assert {event.parent_id for event in run.events} == {"r-0"}


def test_keyword_argument_of_start_replaces_only_that_option(tmp_path: Path) -> None:
    async def asks(context: ToolContext) -> str:
        """Ask."""
        return str(await context.ask("Well?"))

    agent = bare(ScriptedModel([ToolCall("asks"), "Done."]), [asks])
    run = agent.start("go", RunOptions(can_ask=False), store=Store(tmp_path)).result(30)
    assert results(run)[0].error_code == "nobody_to_ask" and [path.name for path in tmp_path.glob("*.jsonl")] == [
        f"{run.id}.jsonl"
    ]


def test_started_run_can_ask_questions_with_any_options(tmp_path: Path) -> None:
    async def asks(context: ToolContext) -> str:
        """Ask."""
        return str(await context.ask("Well?"))

    for options in (None, RunOptions(), RunOptions(work_dir=tmp_path)):
        live = bare(ScriptedModel([ToolCall("asks"), "Done."]), [asks]).start("go", options)
        wait_until(lambda live=live: bool(live.run.waiting))  # type: ignore[misc]
        live.answer("yes")
        assert results(live.result(30))[0].text == "yes"


def test_removed_keywords_are_refused_naming_their_replacement() -> None:
    agent = bare(ScriptedModel(["Done."]))
    with pytest.raises(SettingsError, match=r"Use agent.start\(prompt, RunOptions\(can_ask=...\)\)"):
        agent.start("go", can_ask=False)
    with pytest.raises(SettingsError, match=r"RunOptions\(budget=...\)"):
        agent.start("go", purse=None)
    with pytest.raises(SettingsError, match="thread is now an option of the run"):
        agent.resume(Run(), thread=None)
    with pytest.raises(TypeError, match="no keyword 'stor'"):
        agent.start("go", stor=None)


def test_options_that_make_no_sense_for_resume_are_refused(snapshot: Snapshot) -> None:
    run = bare(ScriptedModel(["Done."])).run_sync("go")
    cut = own_run(list(run.events)[:-1])
    with pytest.raises(SettingsError, check=snapshot.worded):
        bare(ScriptedModel(["Done."])).resume(cut, None, RunOptions(parent_id="r-1"))


def test_former_names_are_refused_with_their_new_names() -> None:
    agent = bare(ScriptedModel(["Done."]))
    for thing, old, new in (
        (agent, "rules", "bundle"),
        (Run(), "tallies", "counters"),
        (Run(), "resting_todos", "carried_todos"),
    ):
        with pytest.raises(AttributeError, match=f"now called {new}"):
            getattr(thing, old)
    assert not hasattr(agent, "nothing") and not hasattr(Run(), "nothing")
